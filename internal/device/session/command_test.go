package session

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// commandsOf returns the Commands in items that report a given call.
func commandsOf(items []verbs.Item, call verbs.CommandCall) []verbs.Command {
	return sessiontest.Pick(items, func(i verbs.Item) *verbs.Command {
		if i.Command == nil || i.Command.Call != call {
			return nil
		}
		return i.Command
	})
}

// newCommandRig returns a rig that makes commands every 10 s.
func newCommandRig(t *testing.T, profile, scenario string) *rig {
	r := newRig(t, profile, scenario)
	r.Options.CommandInterval, r.Options.CommandStuck = 10*time.Second, 5*time.Second
	return r
}

func TestEachPortsDeviceIsAskedOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCommandRig(t, "dual", "")
		r.Start(nil)
		items := r.After(9 * time.Second)
		require.Empty(t, commandsOf(items, verbs.CommandHWCounters), "a worker that is restarted asks no more often")
		items = append(items, r.After(time.Hour)...)
		counters := commandsOf(items, verbs.CommandHWCounters)
		require.Len(t, counters, 2*360)
		require.Equal(t, []int{1, 2}, []int{counters[0].Port, counters[1].Port})
		require.Empty(t, counters[0].Status)
		require.Empty(t, commandsOf(items, verbs.CommandQueryQP), "the ports have counters")
		require.Len(t, commandsOf(items, verbs.CommandQueryPort), len(sessiontest.Readings(items)), "each query is timed")
	})
}

func TestADeviceWithoutCountersIsAskedForTheProbesQueuePair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCommandRig(t, "qedr", "")
		r.Options.Probe.Method = verbs.MethodRCWrite // auto would drop it for a moment, to try its first choice again
		r.Start(nil)
		items := r.After(time.Minute + time.Second)
		require.Len(t, commandsOf(items, verbs.CommandQueryQP), 6)
		require.Empty(t, commandsOf(items, verbs.CommandHWCounters))
		require.Empty(t, commandsOf(items, verbs.CommandQueryPort), "its driver answers from memory")
	})
}

func TestWithoutAQueuePairThatLastsNothingIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCommandRig(t, "qedr", "")
		r.Options.Probe.Interval = 0
		r.Start(nil)
		require.Empty(t, commandsOf(r.After(time.Hour), verbs.CommandQueryQP))
	})
}

func TestADriverWithoutCommandsIsNeverAsked(t *testing.T) {
	for _, off := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			profile := "rxe"
			if off {
				profile = "mlx5"
			}
			r := newCommandRig(t, profile, "")
			if off {
				r.Options.CommandInterval = 0
			}
			r.Start(nil)
			for _, it := range r.After(time.Hour) {
				require.Nil(t, it.Command)
			}
		})
	}
}

func TestAFailureHasItsErrno(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCommandRig(t, "mlx5", `
[[command]]
at = "15s"
for = "20s"
what = "fails"
status = "EIO"
`)
		r.Start(nil)
		var got []string
		for _, c := range commandsOf(r.After(45*time.Second), verbs.CommandHWCounters) {
			got = append(got, c.Status)
		}
		require.Equal(t, []string{"", "EIO", "EIO", ""}, got)
	})
}

// A batch comes when the call has lasted for CommandStuck, and the host looks at the
// ledger with each batch.
func TestAHangIsInTheLedgerWithABatchAndStopsNothing(t *testing.T) {
	for call, thread := range map[string]func(*ledger.Contents) ledger.ThreadCall{
		"hw_counters": func(s *ledger.Contents) ledger.ThreadCall { return s.Evidence },
		"query_port":  func(s *ledger.Contents) ledger.ThreadCall { return s.Control },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newCommandRig(t, "mlx5", `
[[command]]
at = "15s"
for = "60s"
call = "`+call+`"
[[event]]
at = "20s"
every = "1s"
times = 10
type = "sm_change"
`)
			var stuck atomic.Bool // a batch came when the call had lasted for CommandStuck
			r.Start(func(b verbs.Batch) error {
				var s ledger.Contents
				r.Ledger.CopyTo(&s)
				if lane := thread(&s); lane.Port == 1 && lane.Lasted(time.Now().UnixNano()) == int64(r.Options.CommandStuck) {
					stuck.Store(true)
				}
				return r.Collect(b)
			})
			items := r.After(35 * time.Second)
			require.True(t, stuck.Load(), call)
			var events uint64
			for _, it := range items {
				if it.Run != nil && it.Run.Type == verbs.EventSMChange {
					events += it.Run.Count
				}
			}
			require.EqualValues(t, 10, events, "%s", call)
			r.After(time.Minute)
			r.Stop()
			<-r.Done
			require.Equal(t, status.End{}, r.Why)
		})
	}
}

// The end of a session does not wait for the read of a counter, which uses nothing of the library.
func TestAHungCounterHoldsNoRemovalUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCommandRig(t, "mlx5", `
[[command]]
at = "15s"
`)
		r.Start(nil)
		r.After(30 * time.Second)
		began := time.Now()
		r.Stop()
		<-r.Done
		require.LessOrEqual(t, time.Since(began), lastCommandTimeout)
		require.NotErrorIs(t, r.Err, verbs.ErrStuck)
	})
}

// A device may hang from the beginning. Its events are read nevertheless.
func TestABaselineThatHangsStopsNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCommandRig(t, "mlx5", `
[[fault]]
kind = "hang_query"
for = "1m"
[[event]]
at = "500ms"
every = "1s"
times = 20
type = "sm_change"
`)
		r.Start(nil)
		var events uint64
		for _, it := range r.After(30 * time.Second) {
			if it.Run != nil && it.Run.Type == verbs.EventSMChange {
				events += it.Run.Count
			}
			require.Nil(t, it.Reading)
		}
		require.EqualValues(t, 20, events)
		require.NotEmpty(t, sessiontest.Readings(r.After(time.Minute)), "the baseline comes with the answer")
	})
}

// While a call is not answered, a prober neither creates nor destroys a queue pair: a device that
// does not answer one command does not answer another, and the whole worker would hang in it.
func TestNoQueuePairIsMadeWhileTheDeviceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCommandRig(t, "mlx5", `
[[command]]
at = "20s"
for = "60s"
[[event]]
at = "31s"
type = "gid_change"
`)
		var made atomic.Int32
		r.Wrap = func(b verbs.Backend) verbs.Backend { return counting{b, &made} }
		r.Start(nil)
		r.After(30500 * time.Millisecond) // the call of 30 s hangs until 80 s
		before := made.Load()
		require.Positive(t, before)
		r.After(45 * time.Second)
		require.Equal(t, before, made.Load())
		r.After(10 * time.Second)
		require.Greater(t, made.Load(), before, "the device answers again")
	})
}
