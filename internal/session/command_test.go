package session

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/ledger"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// asked returns the commands of a call among items.
func asked(items []verbs.Item, call verbs.CommandCall) []verbs.Command {
	return pick(items, func(i verbs.Item) *verbs.Command {
		if i.Command == nil || i.Command.Call != call {
			return nil
		}
		return i.Command
	})
}

// asking is a rig that asks every 10 s.
func asking(t *testing.T, profile, scenario string) *rig {
	r := newRig(t, profile, scenario)
	r.o.CommandInterval, r.o.CommandStuck = 10*time.Second, 5*time.Second
	return r
}

func TestEachPortsDeviceIsAskedOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, "dual", "")
		r.start(nil)
		items := r.after(9 * time.Second)
		require.Empty(t, asked(items, verbs.CommandHWCounters), "a worker that is restarted asks no more often")
		items = append(items, r.after(time.Hour)...)
		counters := asked(items, verbs.CommandHWCounters)
		require.Len(t, counters, 2*360)
		require.Equal(t, []int{1, 2}, []int{counters[0].Port, counters[1].Port})
		require.Empty(t, counters[0].Status)
		require.Empty(t, asked(items, verbs.CommandQueryQP), "the ports have counters")
		require.Len(t, asked(items, verbs.CommandQueryPort), len(readings(items)), "each query is timed")
	})
}

func TestADeviceWithoutCountersIsAskedForTheProbesQueuePair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, "qedr", "")
		r.o.Probe.Method = verbs.MethodRCWrite // auto would drop it for a moment, to try its first choice again
		r.start(nil)
		items := r.after(time.Minute + time.Second)
		require.Len(t, asked(items, verbs.CommandQueryQP), 6)
		require.Empty(t, asked(items, verbs.CommandHWCounters))
		require.Empty(t, asked(items, verbs.CommandQueryPort), "its driver answers from memory")
	})
}

func TestWithoutAQueuePairThatLastsNothingIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, "qedr", "")
		r.o.Probe.Interval = 0
		r.start(nil)
		require.Empty(t, asked(r.after(time.Hour), verbs.CommandQueryQP))
	})
}

func TestADriverWithoutCommandsIsNeverAsked(t *testing.T) {
	for _, off := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			profile := "rxe"
			if off {
				profile = "mlx5"
			}
			r := asking(t, profile, "")
			if off {
				r.o.CommandInterval = 0
			}
			r.start(nil)
			for _, it := range r.after(time.Hour) {
				require.Nil(t, it.Command)
			}
		})
	}
}

func TestAFailureHasItsErrno(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, "mlx5", `
[[command]]
at = "15s"
for = "20s"
what = "fails"
status = "EIO"
`)
		r.start(nil)
		var got []string
		for _, c := range asked(r.after(45*time.Second), verbs.CommandHWCounters) {
			got = append(got, c.Status)
		}
		require.Equal(t, []string{"", "EIO", "EIO", ""}, got)
	})
}

// A batch comes when the call has lasted for CommandStuck, and the host looks at the
// ledger with each batch.
func TestAHangIsInTheLedgerWithABatchAndStopsNothing(t *testing.T) {
	for call, thread := range map[string]func(*ledger.Snapshot) ledger.Lane{
		"hw_counters": func(s *ledger.Snapshot) ledger.Lane { return s.Evidence },
		"query_port":  func(s *ledger.Snapshot) ledger.Lane { return s.Control },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := asking(t, "mlx5", `
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
			r.start(func(b verbs.Batch) error {
				var s ledger.Snapshot
				r.led.Snapshot(&s)
				if lane := thread(&s); lane.Port == 1 && lane.Lasted(time.Now().UnixNano()) == int64(r.o.CommandStuck) {
					stuck.Store(true)
				}
				return r.collect(b)
			})
			items := r.after(35 * time.Second)
			require.True(t, stuck.Load(), call)
			var events uint64
			for _, it := range items {
				if it.Run != nil && it.Run.Type == verbs.EventSMChange {
					events += it.Run.Count
				}
			}
			require.EqualValues(t, 10, events, "%s", call)
			r.after(time.Minute)
			r.stop()
			<-r.done
			require.Equal(t, status.End{}, r.why)
		})
	}
}

// The end of a watch waits for no counter: nothing of the library is in use there.
func TestAHungCounterHoldsNoRemovalUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, "mlx5", `
[[command]]
at = "15s"
`)
		r.start(nil)
		r.after(30 * time.Second)
		began := time.Now()
		r.stop()
		<-r.done
		require.LessOrEqual(t, time.Since(began), lastCommand)
		require.NotErrorIs(t, r.err, verbs.ErrStuck)
	})
}

// A device may hang from the start on. Its events are read all the same.
func TestABaselineThatHangsStopsNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, "mlx5", `
[[fault]]
kind = "hang_query"
for = "1m"
[[event]]
at = "500ms"
every = "1s"
times = 20
type = "sm_change"
`)
		r.start(nil)
		var events uint64
		for _, it := range r.after(30 * time.Second) {
			if it.Run != nil && it.Run.Type == verbs.EventSMChange {
				events += it.Run.Count
			}
			require.Nil(t, it.Reading)
		}
		require.EqualValues(t, 20, events)
		require.NotEmpty(t, readings(r.after(time.Minute)), "the baseline comes with the answer")
	})
}

// A prober makes and destroys no queue pair while a call is under way that is not answered: a
// device that does not answer one command does not answer another, and in those the whole
// worker would hang.
func TestNoQueuePairIsMadeWhileTheDeviceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asking(t, "mlx5", `
[[command]]
at = "20s"
for = "60s"
[[event]]
at = "31s"
type = "gid_change"
`)
		var made atomic.Int32
		r.wrap = func(b verbs.Backend) verbs.Backend { return counting{b, &made} }
		r.start(nil)
		r.after(30500 * time.Millisecond) // the call of 30 s hangs until 80 s
		before := made.Load()
		require.Positive(t, before)
		r.after(45 * time.Second)
		require.Equal(t, before, made.Load())
		r.after(10 * time.Second)
		require.Greater(t, made.Load(), before, "the device answers again")
	})
}
