package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// startKeeper starts a statusKeeper that ends with the test, and returns it with the problems that it emits.
func startKeeper(t *testing.T, dir string) (*statusKeeper, *problemLog) {
	s, emitted := new(statusKeeper), new(problemLog)
	s.start(dir, "v1", false, emitted.add, time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { s.stop(context.Background()) })
	return s, emitted
}

// Telegraf gathers every five minutes. The port is down for two minutes between two gatherings.
func TestAHostIsJudgedBetweenLongIntervals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.Mkdir(dir, 0o700))
	synctest.Test(t, func(t *testing.T) {
		s, emitted := startKeeper(t, dir)
		port := func(state verbs.PortState) *measure.Port {
			return &measure.Port{Device: "mlx5_0", Port: 1, Known: true, HasState: true, State: state, ExpectedUp: true, At: time.Now()}
		}
		device := &measure.Device{Device: "mlx5_0", Present: true, Open: true, Opens: 1}
		problems := func() []string {
			synctest.Wait()
			found, err := statusfile.Read(dir)
			require.NoError(t, err)
			ids := []string{}
			for _, p := range found.Problems {
				ids = append(ids, p.ID)
			}
			return ids
		}
		s.rememberState(port(verbs.PortActive)) // before the first interval
		s.storeInterval([]measure.Point{device, port(verbs.PortActive)}, time.Now())
		require.Empty(t, problems())
		time.Sleep(30 * time.Second)
		s.rememberState(port(verbs.PortDown))
		time.Sleep(30 * time.Second)
		require.Empty(t, problems(), "a drop has to last for a minute")
		time.Sleep(60 * time.Second)
		require.Equal(t, []string{"port-down"}, problems())
		s.rememberState(port(verbs.PortActive))
		time.Sleep(2 * judgeInterval)
		require.Empty(t, problems())
		require.Equal(t, []string{"port-down active=true", "port-down active=false"}, emitted.read())
	})
}

// The plugin is restarted during an outage, and its device is opened some seconds after the start.
func TestOutageGoesOnAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.Mkdir(dir, 0o700))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		port := func(known bool) *measure.Port {
			return &measure.Port{Device: "mlx5_0", Port: 1, Known: known, HasState: known, State: verbs.PortDown, ExpectedUp: true, At: time.Now()}
		}
		device := &measure.Device{Device: "mlx5_0", Present: true, Open: true, Opens: 1}
		s, _ := startKeeper(t, dir)
		s.storeInterval([]measure.Point{device, port(true)}, time.Now())
		time.Sleep(time.Hour)
		s.stop(t.Context())
		_, err := statusfile.Read(dir)
		require.ErrorIs(t, err, statusfile.ErrNone)

		s, emitted := startKeeper(t, dir)
		s.storeInterval([]measure.Point{device, port(false)}, time.Now())
		time.Sleep(10 * time.Second)
		require.Empty(t, emitted.read())
		s.storeInterval([]measure.Point{device, port(true)}, time.Now())
		require.Equal(t, []string{"port-down active=true"}, emitted.read())
		synctest.Wait()
		found, err := statusfile.Read(dir)
		require.NoError(t, err)
		require.Len(t, found.Problems, 1)
		require.True(t, began.Equal(found.Problems[0].Since), "%v", found.Problems[0].Since)
	})
}

// A scenario of the simulator begins anew with each start, and so do its problems.
func TestSimulatedDevicesHaveNoPast(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.Mkdir(dir, 0o700))
	synctest.Test(t, func(t *testing.T) {
		s, emitted := new(statusKeeper), new(problemLog)
		s.start(dir, "v1", true, emitted.add, time.Now, slog.New(slog.DiscardHandler))
		port := &measure.Port{Device: "sim0", Port: 1, Known: true, HasState: true, State: verbs.PortDown, ExpectedUp: true, At: time.Now()}
		s.storeInterval([]measure.Point{&measure.Device{Device: "sim0", Present: true, Open: true, Opens: 1}, port}, time.Now())
		time.Sleep(time.Hour)
		require.Equal(t, "port-down active=true", emitted.read()[0])
		s.stop(t.Context())
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// Telegraf gathers every five minutes. The port goes down after its point has been gathered, and before the host is judged. A second device is
// opened then, and a third one was forgotten just before.
func TestChangeDuringAGatheringIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, emitted := startKeeper(t, "")
		port := func(device string, state verbs.PortState) *measure.Port {
			return &measure.Port{Device: device, Port: 1, Known: true, HasState: true, State: state, ExpectedUp: true, At: time.Now()}
		}
		device := func(name string) *measure.Device {
			return &measure.Device{Device: name, Present: true, Open: true, Opens: 1, At: time.Now()}
		}
		for range 2 { // what precedes the first gathering is not special
			s.rememberState(port("mlx5_0", verbs.PortDown))
			s.rememberState(port("mlx5_2", verbs.PortDown))
			time.Sleep(time.Millisecond)
			began := time.Now()
			points := []measure.Point{device("mlx5_0"), port("mlx5_0", verbs.PortActive)}
			time.Sleep(time.Millisecond)
			s.rememberState(port("mlx5_0", verbs.PortDown))
			s.rememberState(device("mlx5_1"))
			s.rememberState(port("mlx5_1", verbs.PortDown))
			s.storeInterval(points, began)
			before := len(emitted.read())
			time.Sleep(50 * time.Second)
			require.Empty(t, emitted.read()[before:])
			time.Sleep(50 * time.Second)
			require.Equal(t, []string{"port-down active=true", "port-down active=true"}, emitted.read()[before:])
			s.rememberState(port("mlx5_0", verbs.PortActive))
			s.rememberState(port("mlx5_1", verbs.PortActive))
			time.Sleep(200 * time.Second)
			require.Equal(t, []string{"port-down active=false", "port-down active=false"}, emitted.read()[before+2:])
		}
	})
}

// A port goes down after its point has been gathered, and before the status is made.
func TestStatusIsAsNewAsItsValues(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.Mkdir(dir, 0o700))
	synctest.Test(t, func(t *testing.T) {
		s, _ := startKeeper(t, dir)
		port := func(state verbs.PortState) *measure.Port {
			return &measure.Port{Device: "mlx5_0", Port: 1, Known: true, HasState: true, State: state, ExpectedUp: true, At: time.Now()}
		}
		gathered := time.Now()
		points := []measure.Point{&measure.Device{Device: "mlx5_0", Present: true, Open: true, Opens: 1}, port(verbs.PortActive)}
		time.Sleep(20 * time.Millisecond)
		changed := time.Now()
		s.rememberState(port(verbs.PortDown))
		time.Sleep(20 * time.Millisecond)
		s.storeInterval(points, gathered)
		synctest.Wait()
		found, err := statusfile.Read(dir)
		require.NoError(t, err)
		require.Equal(t, "down", found.Devices[0].Ports[0].State)
		require.True(t, changed.Equal(found.Time), "%v", found.Time)
	})
}

// Telegraf gathers every five minutes. A call of the firmware hangs when it does, and is answered one second later. Half an hour later one
// hangs right after a gathering, and for good.
func TestFirmwareIsJudgedByItsLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, emitted := startKeeper(t, "")
		command := func(stuck bool, p99 int64) *measure.Command {
			return &measure.Command{
				Device: "mlx5_0", Port: 1, Call: verbs.CommandHWCounters, Stuck: stuck, TookP: aggregate.Percentiles{Count: 1, P99: p99}, At: time.Now(),
			}
		}
		device := &measure.Device{Device: "mlx5_0", Present: true, Open: true, Opens: 1}
		interval := func(stuck bool) {
			s.storeInterval([]measure.Point{device.Clone(), command(stuck, 2e9)}, time.Now())
		}
		interval(true)
		time.Sleep(time.Second)
		s.rememberState(command(false, 0))
		time.Sleep(5*time.Minute - time.Second)
		require.Empty(t, emitted.read())
		for range 3 {
			interval(false)
			time.Sleep(5 * time.Minute)
		}
		require.Equal(t, []string{"command-slow active=true"}, slices.Compact(emitted.read()), "the percentiles of the last interval still count")
		s.rememberState(command(true, 0))
		time.Sleep(time.Minute)
		require.Contains(t, emitted.read(), "command-stuck active=true")
	})
}

// Events are unacknowledged in one gathering. Nothing is known of the five minutes until the next one.
func TestValueOfOneGatheringIsNotTakenForLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, emitted := startKeeper(t, "")
		interval := func(unacked uint64) {
			s.storeInterval([]measure.Point{
				&measure.Device{Device: "mlx5_0", Present: true, Open: true, Opens: 1},
				&measure.Async{Device: "mlx5_0", Read: 1, Acked: 1 - unacked, Unacked: unacked, At: time.Now()},
			}, time.Now())
			time.Sleep(5 * time.Minute)
		}
		interval(1)
		require.Empty(t, emitted.read())
		interval(0)
		require.Empty(t, emitted.read())
		interval(1)
		interval(1)
		require.Equal(t, []string{"unacked-events active=true"}, slices.Compact(emitted.read()), "two gatherings in a row")
	})
}

// A plugin without a directory for its status still judges the host.
func TestProblemsAreEmittedWithoutAStatusFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, emitted := startKeeper(t, "")
		missing := func() []measure.Point {
			return []measure.Point{&measure.Device{Device: "mlx5_0", Opens: 1, Reason: "no_device", At: time.Now()}}
		}
		s.storeInterval(missing(), time.Now())
		require.Empty(t, emitted.read(), "a device has to be missing for a minute")
		time.Sleep(time.Minute)
		s.storeInterval(missing(), time.Now())
		require.Equal(t, []string{"device-missing active=true"}, emitted.read())
	})
}

// problemLog collects the problems that a judgement emits. It may be used concurrently.
type problemLog struct {
	mu       sync.Mutex
	problems []string
}

func (l *problemLog) add(p measure.Point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	problem := p.(*measure.Problem)
	l.problems = append(l.problems, fmt.Sprintf("%s active=%t", problem.Alert, problem.Active))
}

func (l *problemLog) read() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.problems)
}
