package session

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// failingRounds makes the successful rounds of a method end with outcome o instead, unless well is true.
func failingRounds(m verbs.Method, o verbs.Outcome, well *atomic.Bool) func(verbs.Backend) verbs.Backend {
	return func(b verbs.Backend) verbs.Backend { return failing{b, m, o, nil, well} }
}

// counts returns the sum of the ledger's counts of all probes.
func (r *rig) counts() ledger.ProbeCounts {
	var sum ledger.ProbeCounts
	for _, p := range r.Counters().Probes {
		sum = sum.Add(p.ProbeCounts)
	}
	return sum
}

func TestRefusalsAreRetriedWithGrowingDelay(t *testing.T) {
	for _, outcome := range []verbs.Outcome{verbs.OutcomeError, verbs.OutcomeLostCompletion} {
		synctest.Test(t, func(t *testing.T) {
			var made atomic.Int32
			r := newRig(t, "ib8", "") // where flush is not tried
			r.Wrap = func(b verbs.Backend) verbs.Backend {
				return counting{failingRounds(verbs.MethodRCWrite, outcome, nil)(b), &made}
			}
			r.Start(nil)
			items := r.After(10 * time.Second)
			require.EqualValues(t, 4, made.Load(), "at 0 s, 1 s, 3 s and 7 s")
			require.Len(t, probeItems(items), 1)
			require.Equal(t, verbs.MethodNone, probeItems(items)[0].Method)
			r.After(time.Hour)
			require.EqualValues(t, 4+5+11, made.Load(), "five more to 255 s, and then one each 5 min")

			made.Store(0)
			require.NoError(t, r.World.Inject("sim0", verbs.EventPKeyChange, 1, 1))
			r.After(10 * time.Second)
			require.GreaterOrEqual(t, made.Load(), int32(4), "an event begins anew")
		})
	}
}

func TestNamedMethodIsRetriedWithGrowingDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		r := newRig(t, "efa", "")
		r.Options.Probe.Method = verbs.MethodRCWrite
		r.Wrap = func(b verbs.Backend) verbs.Backend { return counting{b, &made} }
		r.Start(nil)
		r.After(10 * time.Second)
		require.EqualValues(t, 4, made.Load(), "at 0 s, 1 s, 3 s and 7 s")
	})
}

// All methods fail on a port that is up. The first failure may be a coincidence. Further
// failures are a fault, and are counted as rounds of the first choice.
func TestFailingPortIsCountedOnceItStaysUnprobed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Wrap = func(b verbs.Backend) verbs.Backend {
			b = failingRounds(verbs.MethodRCWrite, verbs.OutcomeError, nil)(failingRounds(verbs.MethodUDSend, verbs.OutcomeLostCompletion, nil)(b))
			return failingRounds(verbs.MethodFlush, verbs.OutcomeError, nil)(b)
		}
		r.Start(nil)
		items := roundItems(r.After(10 * time.Second))
		require.Len(t, items, 3, "at 1 s, 3 s and 7 s")
		for _, item := range items {
			require.Equal(t, verbs.MethodUDSend, item.Method)
			require.Equal(t, verbs.OutcomeLostCompletion, item.Outcome)
		}
		require.NoError(t, r.World.SetLink("sim0", 1, false))
		r.After(time.Second)
		require.Empty(t, roundItems(r.After(time.Hour)), "a port that is down has no fault of its own")
	})
}

func TestDisturbedTrialIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "[[fault]]\nat = \"0s\"\nkind = \"disturbed\"\nfor = \"100ms\"\n")
		r.Wrap = failingRounds(verbs.MethodUDSend, verbs.OutcomeLostCompletion, nil)
		r.Start(nil)
		items := r.After(10 * time.Second)
		require.Equal(t, verbs.MethodRCWrite, probeItems(items)[0].Method, "the round after the pause decided")
		require.Zero(t, r.counts().LostCompletions)
	})
}

// A driver that flushes in its library may raise no event for it. If no method gets events,
// the interrupt is the cause, and flush shows that as well as any other method.
func TestFlushWithoutEventsIsKeptOnlyWhereAllLoseThem(t *testing.T) {
	for _, row := range []struct {
		name string
		wrap func(verbs.Backend) verbs.Backend
		want verbs.Method
	}{
		{"flush alone", failingRounds(verbs.MethodFlush, verbs.OutcomeLostEvent, nil), verbs.MethodNone},
		{"both", func(b verbs.Backend) verbs.Backend {
			return failingRounds(verbs.MethodFlush, verbs.OutcomeLostEvent, nil)(failingRounds(verbs.MethodRCWrite, verbs.OutcomeLostEvent, nil)(b))
		}, verbs.MethodFlush},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "dual", "")
				r.Options.Ports = []int{1} // InfiniBand, where rc_write and flush are tried
				r.Wrap = row.wrap
				r.Start(nil)
				r.After(3500 * time.Millisecond)
				before := r.counts()
				require.NoError(t, r.World.SetLink("sim0", 1, false))
				items := probeItems(r.After(10 * time.Second))
				require.Equal(t, row.want, items[len(items)-1].Method)
				if row.want == verbs.MethodNone {
					require.Equal(t, before.LostEvents, r.counts().LostEvents)
				}
			})
		})
	}
}

// The reason for a refusal may disappear without an event, for example if a path was bad for two seconds.
func TestFirstChoiceIsTriedAgainWithoutAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		var made atomic.Int32
		r := newRig(t, "dual", "")
		r.Options.Ports = []int{1} // InfiniBand, where rc_write and flush are tried
		r.Wrap = func(b verbs.Backend) verbs.Backend {
			return counting{failingRounds(verbs.MethodRCWrite, verbs.OutcomeError, &well)(b), &made}
		}
		r.Start(nil)
		items := roundItems(r.After(10 * time.Minute))
		require.Equal(t, verbs.MethodFlush, items[len(items)-1].Method)
		require.InDelta(t, 600, len(items), 4, "flush goes on")
		require.EqualValues(t, 2*4, made.Load(), "both methods at 0, 1, 3 and 7 min")
		well.Store(true)
		items = roundItems(r.After(10 * time.Minute))
		require.Equal(t, verbs.MethodRCWrite, items[len(items)-1].Method)
		require.Zero(t, r.counts().Errors)
	})
}

func TestLostSecondChoiceIsRetriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		well.Store(true)
		r := newRig(t, "dual", "")
		r.Options.Ports = []int{1} // InfiniBand, where rc_write and flush are tried
		r.Wrap = func(b verbs.Backend) verbs.Backend {
			return failingRounds(verbs.MethodFlush, verbs.OutcomeError, &well)(failingRounds(verbs.MethodRCWrite, verbs.OutcomeError, nil)(b))
		}
		r.Start(nil)
		r.After(30 * time.Second)
		well.Store(false)
		items := probeItems(r.After(32 * time.Second))
		require.Equal(t, verbs.MethodNone, items[len(items)-1].Method, "none is left as the first choice is due again")
		well.Store(true)
		items = probeItems(r.After(10 * time.Second))
		require.Len(t, items, 1)
		require.Equal(t, verbs.MethodFlush, items[0].Method)
	})
}
