package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/ledger"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/sim"
	"rdma_events/internal/verbs/verbstest"
)

// rig runs a watch on the simulator inside a synctest bubble, where an hour
// passes at once.
type rig struct {
	t     *testing.T
	world *sim.World
	led   *ledger.Ledger
	o     verbs.Options
	wait  func(context.Context, string) error // WaitRemoved; nil: none
	wrap  func(verbs.Backend) verbs.Backend   // nil: the backend stays as it is

	orders verbs.FabricOrders

	mu    sync.Mutex
	items []verbs.Item
	beats int
	why   status.End
	err   error
	done  chan struct{}
	stop  context.CancelFunc
}

func newRig(t *testing.T, profile, scenario string) *rig {
	t.Helper()
	if scenario != "" {
		path := filepath.Join(t.TempDir(), "scenario.toml")
		require.NoError(t, os.WriteFile(path, []byte(scenario), 0o600))
		scenario = path
	}
	w, err := sim.Load(sim.Options{Profile: profile, Scenario: scenario, Seed: 1,
		Clock: func() int64 { return time.Now().UnixNano() }})
	require.NoError(t, err)
	led, f, err := ledger.New("test")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { require.NoError(t, led.Close()) })
	return &rig{t: t, world: w, led: led, done: make(chan struct{}), o: verbs.Options{
		Device: "sim0", StateInterval: 5 * time.Second,
		Probe: verbs.ProbeOptions{Interval: time.Second, Timeout: 500 * time.Millisecond, Method: verbs.MethodAuto,
			Vectors: []int{0}, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1},
	}}
}

type removable struct {
	verbs.Backend
	wait func(context.Context, string) error
}

func (r removable) WaitRemoved(ctx context.Context, device string) error { return r.wait(ctx, device) }

// start runs the watch until the test's end.
func (r *rig) start(send func(verbs.Batch) error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop = cancel
	b := verbstest.Track(r.t, sim.New(r.world))
	if r.wrap != nil {
		b = r.wrap(b)
	}
	if r.wait != nil {
		b = removable{b, r.wait}
	}
	if send == nil {
		send = r.collect
	}
	go func() {
		defer close(r.done)
		r.why, r.err = Run(ctx, b, r.led, r.o, send, NewEndpoint(&r.orders))
	}()
	r.t.Cleanup(func() {
		cancel()
		<-r.done
	})
}

func (r *rig) collect(b verbs.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(b.Items) == 0 {
		r.beats++
	}
	for _, it := range b.Items {
		r.items = append(r.items, kept(it))
	}
	return nil
}

// kept returns a copy of an item that stays valid after its batch.
func kept(it verbs.Item) verbs.Item {
	if it.Run != nil {
		run := *it.Run
		it.Run = &run
	}
	if it.Round != nil {
		round := *it.Round
		it.Round = &round
	}
	if it.FabricFacts != nil {
		facts := *it.FabricFacts
		facts.Facts = slices.Clone(facts.Facts)
		it.FabricFacts = &facts
	}
	return it
}

// after waits for d and returns the items that were sent meanwhile.
func (r *rig) after(d time.Duration) []verbs.Item {
	time.Sleep(d)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	items := r.items
	r.items = nil
	return items
}

// ledger returns the ledger's current values.
func (r *rig) ledger() ledger.Snapshot {
	var s ledger.Snapshot
	r.led.Snapshot(&s)
	return s
}

func pick[T any](items []verbs.Item, member func(verbs.Item) *T) []T {
	var found []T
	for _, it := range items {
		if v := member(it); v != nil {
			found = append(found, *v)
		}
	}
	return found
}

func runs(items []verbs.Item) []verbs.Run {
	return pick(items, func(i verbs.Item) *verbs.Run { return i.Run })
}
func readings(items []verbs.Item) []verbs.Reading {
	return pick(items, func(i verbs.Item) *verbs.Reading { return i.Reading })
}
func rounds(items []verbs.Item) []verbs.RoundItem {
	return pick(items, func(i verbs.Item) *verbs.RoundItem { return i.Round })
}
func choices(items []verbs.Item) []verbs.ProbeItem {
	return pick(items, func(i verbs.Item) *verbs.ProbeItem { return i.Probe })
}

func TestAWatchBeginsWithTheDeviceAndABaselineOfEachPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "dual", "")
		r.start(nil)
		items := r.after(100 * time.Millisecond)
		require.NotNil(t, items[0].Opened)
		require.Equal(t, 2, items[0].Opened.Ports)
		require.Len(t, readings(items), 2)
		require.Equal(t, []int{1, 2}, []int{readings(items)[0].Port, readings(items)[1].Port})
		require.Equal(t, verbs.PortActive, readings(items)[0].Attr.State)
	})
}

func TestOnlyTheNamedPortsAreQueriedAndProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "dual", "")
		r.o.Ports = []int{2}
		r.start(nil)
		items := r.after(20 * time.Second)
		for _, got := range readings(items) {
			require.Equal(t, 2, got.Port)
		}
		for _, got := range rounds(items) {
			require.Equal(t, 2, got.Port)
		}
		require.NotEmpty(t, rounds(items))
	})
}

func TestAnEventIsFollowedByAQueryAndAnotherWhenSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.o.StateInterval = 0
		r.start(nil)
		r.after(time.Second)
		require.NoError(t, r.world.SetLink("sim0", 1, false))
		items := r.after(settle / 2)
		require.Equal(t, verbs.EventPortErr, runs(items)[0].Type)
		require.Len(t, readings(items), 1)
		require.Equal(t, verbs.PortDown, readings(items)[0].Attr.State)
		require.Len(t, readings(r.after(settle)), 1)
		require.Empty(t, readings(r.after(time.Minute)))
	})
}

func TestAStormPutsNoQueryOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.o.StateInterval = 0
		r.start(nil)
		r.after(time.Second)
		seen := 0
		for i := range 500 {
			require.NoError(t, r.world.SetLink("sim0", 1, i%2 == 1))
			seen += len(readings(r.after(2 * time.Millisecond)))
		}
		// One query for each queryDelay, which is five changes.
		require.InDelta(t, 100, seen, 2)
	})
}

func TestPortsAreQueriedEveryStateInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.start(nil)
		r.after(time.Second)
		require.Len(t, readings(r.after(50*time.Second)), 10)
	})
}

func TestQuietWatchSendsAHeartbeatEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.o.StateInterval, r.o.Probe.Interval = 0, 0
		r.start(nil)
		r.after(10 * time.Second)
		require.InDelta(t, 10, r.beats, 1)
	})
}

func TestARequestToEndClosesTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.start(nil)
		r.after(time.Second)
		r.stop()
		<-r.done
		require.ErrorIs(t, r.err, context.Canceled)
		require.Zero(t, r.why)
	})
}

func TestRemovalEndsTheWatchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		gone := make(chan struct{})
		r.wait = func(ctx context.Context, device string) error {
			select {
			case <-gone:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r.start(nil)
		r.after(time.Second)
		close(gone)
		<-r.done
		require.NoError(t, r.err)
		require.Equal(t, status.End{Reason: status.ReasonRemoved, Message: "sim0 was removed"}, r.why)
	})
}

// failingQueries answers queries of ports with an errno while it is set, as package native does for a device that is in sysfs.
type failingQueries struct {
	verbs.Backend
	errno atomic.Int32
}

func (f *failingQueries) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := f.Backend.Open(name, led)
	return &failingQueriesDevice{d, f}, err
}

type failingQueriesDevice struct {
	verbs.Device
	f *failingQueries
}

func (d *failingQueriesDevice) QueryPort(port int) (verbs.PortAttr, error) {
	if errno := unix.Errno(d.f.errno.Load()); errno != 0 {
		return verbs.PortAttr{}, verbs.NewOpError("ibv_query_port", "sim0", port, verbs.FromErrno(errno))
	}
	return d.Device.QueryPort(port)
}

func TestQueriesThatFailWithEIOEndNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "ib8", "")
		f := &failingQueries{}
		r.wrap = func(b verbs.Backend) verbs.Backend { f.Backend = b; return f }
		r.start(nil)
		r.after(time.Minute)
		f.errno.Store(int32(unix.EIO))
		failed, answered := 0, 0
		for _, it := range r.after(time.Minute) {
			if it.Reading != nil && it.Reading.Err != "" {
				failed++
			}
		}
		f.errno.Store(0)
		for _, it := range r.after(10 * time.Second) {
			if it.Reading != nil && it.Reading.Err == "" {
				answered++
			}
		}
		require.NotZero(t, failed, "a failed query is reported as that")
		require.NotZero(t, answered, "the watch goes on")
		select {
		case <-r.done:
			require.FailNow(t, "the watch has ended", r.why.Message)
		default:
		}
	})
}

func TestADeviceThatCannotBeOpenedEndsWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.o.Device = "nope0"
		r.start(nil)
		items := r.after(0)
		<-r.done
		require.NoError(t, r.err)
		require.Empty(t, items)
		require.Equal(t, status.ReasonNoDevice, r.why.Reason)
		require.Contains(t, r.why.Message, "nope0")
	})
}

func TestAnErrorOfSendEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken stream")
		r := newRig(t, "roce2", "")
		r.start(func(verbs.Batch) error { return broken })
		<-r.done
		require.ErrorIs(t, r.err, broken)
	})
}

// A host that stops reading must not stop the reader: the counts of the ledger go on, and
// every event is sent once the host reads again.
func TestABlockedSendDelaysNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		release := make(chan struct{})
		blocked := false
		r.start(func(b verbs.Batch) error {
			if len(runs(b.Items)) > 0 && !blocked {
				blocked = true
				<-release
			}
			return r.collect(b)
		})
		r.after(time.Second)
		for range 1000 {
			require.NoError(t, r.world.Inject("sim0", verbs.EventPKeyChange, 1, 3))
			r.after(time.Millisecond)
		}
		var s ledger.Snapshot
		r.led.Snapshot(&s)
		require.Equal(t, []ledger.EventCounts{{Type: int32(verbs.EventPKeyChange), Port: 1, Read: 3000, Acked: 3000}}, s.Events)
		close(release)
		var sent uint64
		for _, got := range runs(r.after(time.Second)) {
			sent += got.Count
		}
		require.EqualValues(t, 3000, sent)
	})
}

func TestAStuckDeviceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "[[fault]]\nat = \"1s\"\nfor = \"10m\"\nkind = \"stuck_close\"\ndevice = \"sim0\"\n")
		r.start(nil)
		r.after(2 * time.Second)
		r.stop()
		<-r.done
		require.ErrorIs(t, r.err, verbs.ErrStuck)
	})
}

// unanswering is a backend that fails the next query of a port when fail is set.
type unanswering struct {
	verbs.Backend
	fail *atomic.Bool
	made *atomic.Int32 // number of probes
}

func (b unanswering) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := b.Backend.Open(name, led)
	return unansweringDevice{d, b}, err
}

type unansweringDevice struct {
	verbs.Device
	b unanswering
}

func (d unansweringDevice) QueryPort(port int) (verbs.PortAttr, error) {
	if d.b.fail.CompareAndSwap(true, false) {
		return verbs.PortAttr{}, unix.ETIMEDOUT
	}
	return d.Device.QueryPort(port)
}

func (d unansweringDevice) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	d.b.made.Add(1)
	return d.Device.NewProbe(c)
}

func TestFailedQueryMakesNoProbeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		var made atomic.Int32
		r := newRig(t, "roce2", "")
		r.wrap = func(b verbs.Backend) verbs.Backend { return unanswering{b, &fail, &made} }
		r.start(nil)
		r.after(7 * time.Second)
		require.EqualValues(t, 1, made.Load())
		fail.Store(true)
		items := readings(r.after(20 * time.Second))
		require.False(t, fail.Load())
		require.Equal(t, unix.ETIMEDOUT.Error(), items[0].Err)
		require.EqualValues(t, 1, made.Load())
	})
}
