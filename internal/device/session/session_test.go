package session

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// rig is a session whose only part is Objects.
type rig struct{ *sessiontest.Rig }

func newRig(t *testing.T, profile, scenario string) *rig {
	return &rig{sessiontest.New(t, runWithObjects, profile, scenario)}
}

func runWithObjects(ctx context.Context, b verbs.Backend, led *ledger.Ledger, o verbs.Options, send func(verbs.Batch) error) (status.End, error) {
	return Run(ctx, b, led, o, send, Objects)
}

func eventRuns(items []verbs.Item) []verbs.Run {
	return sessiontest.Pick(items, func(i verbs.Item) *verbs.Run { return i.Run })
}
func roundItems(items []verbs.Item) []verbs.RoundItem {
	return sessiontest.Pick(items, func(i verbs.Item) *verbs.RoundItem { return i.Round })
}
func probeItems(items []verbs.Item) []verbs.ProbeItem {
	return sessiontest.Pick(items, func(i verbs.Item) *verbs.ProbeItem { return i.Probe })
}

func TestAWatchBeginsWithTheDeviceAndABaselineOfEachPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "dual", "")
		r.Start(nil)
		items := r.After(100 * time.Millisecond)
		require.NotNil(t, items[0].Opened)
		require.Equal(t, 2, items[0].Opened.Ports)
		require.Len(t, sessiontest.Readings(items), 2)
		require.Equal(t, []int{1, 2}, []int{sessiontest.Readings(items)[0].Port, sessiontest.Readings(items)[1].Port})
		require.Equal(t, verbs.PortActive, sessiontest.Readings(items)[0].Attr.State)
	})
}

func TestOnlyTheNamedPortsAreQueriedAndProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "dual", "")
		r.Options.Ports = []int{2}
		r.Start(nil)
		items := r.After(20 * time.Second)
		for _, got := range sessiontest.Readings(items) {
			require.Equal(t, 2, got.Port)
		}
		for _, got := range roundItems(items) {
			require.Equal(t, 2, got.Port)
		}
		require.NotEmpty(t, roundItems(items))
	})
}

func TestAnEventIsFollowedByAQueryAndAnotherWhenSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.StateInterval = 0
		r.Start(nil)
		r.After(time.Second)
		require.NoError(t, r.World.SetLink("sim0", 1, false))
		items := r.After(settleDelay / 2)
		require.Equal(t, verbs.EventPortErr, eventRuns(items)[0].Type)
		require.Len(t, sessiontest.Readings(items), 1)
		require.Equal(t, verbs.PortDown, sessiontest.Readings(items)[0].Attr.State)
		require.Len(t, sessiontest.Readings(r.After(settleDelay)), 1)
		require.Empty(t, sessiontest.Readings(r.After(time.Minute)))
	})
}

func TestAStormPutsNoQueryOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.StateInterval = 0
		r.Start(nil)
		r.After(time.Second)
		seen := 0
		for i := range 500 {
			require.NoError(t, r.World.SetLink("sim0", 1, i%2 == 1))
			seen += len(sessiontest.Readings(r.After(2 * time.Millisecond)))
		}
		// One query for each queryDelay, which is five changes.
		require.InDelta(t, 100, seen, 2)
	})
}

func TestPortsAreQueriedEveryStateInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Start(nil)
		r.After(time.Second)
		require.Len(t, sessiontest.Readings(r.After(50*time.Second)), 10)
	})
}

func TestAQuietWatchSendsNothingAndIsSeenToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batches := 0
		r := newRig(t, "roce2", "")
		r.Options.StateInterval, r.Options.Probe.Interval = 0, 0
		r.Start(func(verbs.Batch) error { batches++; return nil })
		r.After(10 * time.Second)
		batches = 0
		lived := map[int64]bool{}
		for range 10 {
			r.After(heartbeat)
			lived[r.Ledger.LastAlive()] = true
		}
		require.Len(t, lived, 10)
		require.Zero(t, batches)
	})
}

func TestARequestToEndClosesTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Start(nil)
		r.After(time.Second)
		r.Stop()
		<-r.Done
		require.ErrorIs(t, r.Err, context.Canceled)
		require.Zero(t, r.Why)
	})
}

func TestRemovalEndsTheWatchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		gone := make(chan struct{})
		r.WaitRemoved = func(ctx context.Context, device string) error {
			select {
			case <-gone:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r.Start(nil)
		r.After(time.Second)
		close(gone)
		<-r.Done
		require.NoError(t, r.Err)
		require.Equal(t, status.End{Reason: status.ReasonRemoved, Message: "sim0 was removed"}, r.Why)
	})
}

// failingQueries fails port queries with an errno while it is set, as package native does for a device that is still in sysfs.
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
		r.Wrap = func(b verbs.Backend) verbs.Backend { f.Backend = b; return f }
		r.Start(nil)
		r.After(time.Minute)
		f.errno.Store(int32(unix.EIO))
		failed, answered := 0, 0
		for _, it := range r.After(time.Minute) {
			if it.Reading != nil && it.Reading.Err != "" {
				failed++
			}
		}
		f.errno.Store(0)
		for _, it := range r.After(10 * time.Second) {
			if it.Reading != nil && it.Reading.Err == "" {
				answered++
			}
		}
		require.NotZero(t, failed, "a failed query is reported as that")
		require.NotZero(t, answered, "the watch goes on")
		select {
		case <-r.Done:
			require.FailNow(t, "the watch has ended", r.Why.Message)
		default:
		}
	})
}

func TestADeviceThatCannotBeOpenedEndsWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.Device = "nope0"
		r.Start(nil)
		items := r.After(0)
		<-r.Done
		require.NoError(t, r.Err)
		require.Empty(t, items)
		require.Equal(t, status.ReasonNoDevice, r.Why.Reason)
		require.Contains(t, r.Why.Message, "nope0")
	})
}

func TestAnErrorOfSendEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken stream")
		r := newRig(t, "roce2", "")
		r.Start(func(verbs.Batch) error { return broken })
		<-r.Done
		require.ErrorIs(t, r.Err, broken)
	})
}

// A host that stops reading must not stop the reader: the counts of the ledger still rise, and
// every event is sent once the host reads again.
func TestABlockedSendDelaysNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		release := make(chan struct{})
		blocked := false
		r.Start(func(b verbs.Batch) error {
			if !blocked {
				blocked = true
				<-release
			}
			return r.Collect(b)
		})
		r.After(time.Second)
		var listed uint64
		for range 1000 {
			require.NoError(t, r.World.Inject("sim0", verbs.EventPKeyChange, 1, 3))
			for _, got := range eventRuns(r.After(time.Millisecond)) {
				listed += got.Count
			}
		}
		require.EqualValues(t, 3000, listed)
		var s ledger.Contents
		r.Ledger.CopyTo(&s)
		require.Equal(t, []ledger.EventCounts{{Type: int32(verbs.EventPKeyChange), Port: 1, Read: 3000, Acked: 3000}}, s.Events)
		close(release)
		require.Empty(t, eventRuns(r.After(time.Second)))
	})
}

func TestAStuckDeviceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "[[fault]]\nat = \"1s\"\nfor = \"10m\"\nkind = \"stuck_close\"\ndevice = \"sim0\"\n")
		r.Start(nil)
		r.After(2 * time.Second)
		r.Stop()
		<-r.Done
		require.ErrorIs(t, r.Err, verbs.ErrStuck)
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
		r.Wrap = func(b verbs.Backend) verbs.Backend { return unanswering{b, &fail, &made} }
		r.Start(nil)
		r.After(7 * time.Second)
		require.EqualValues(t, 1, made.Load())
		fail.Store(true)
		items := sessiontest.Readings(r.After(20 * time.Second))
		require.False(t, fail.Load())
		require.Equal(t, unix.ETIMEDOUT.Error(), items[0].Err)
		require.EqualValues(t, 1, made.Load())
	})
}
