package endpoint

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestFactsComeEveryHalfSecondAndAreThoseOfTheirFabric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		announced := fabricPorts(r.After(100 * time.Millisecond))
		last, _ := r.lastFabric()
		last.report(sentFacts(1, 2)...)
		last.report(sentFacts(3)...)
		at := time.Now().UnixNano()
		got := factsOf(r.After(0))
		require.Equal(t, []verbs.FabricFacts{
			{Port: 1, Epoch: announced[0].Epoch, UpTo: at, Facts: sentFacts(1, 2)}, {Port: 1, Epoch: announced[0].Epoch, UpTo: at, Facts: sentFacts(3)},
		}, got)
		got = factsOf(r.After(5 * time.Second))
		require.Len(t, got, 10, "that nothing was seen is sent too")
		require.Equal(t, at+int64(500*time.Millisecond), got[0].UpTo)
		for _, lasting := range last.takeRunTimes() {
			require.Equal(t, runTime, lasting)
		}
	})
}

func TestANudgeAloneSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(600 * time.Millisecond)
		last, _ := r.lastFabric()
		for range 20 {
			last.Nudge()
			r.After(10 * time.Millisecond)
		}
		items := r.After(0)
		require.Len(t, last.takeRunTimes(), 22, "it looked each time")
		require.Empty(t, factsOf(items))
		require.Len(t, factsOf(r.After(2*time.Second)), 4)
	})
}

func newFact(kind verbs.FabricKind, pair int) verbs.FabricFact {
	return verbs.FabricFact{Kind: kind, Pair: pair, Session: uint64(pair) + 1, At: time.Now().UnixNano()}
}

func TestAMissingEchoIsSentAtOnceAndWhatFollowsEvery50ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(100 * time.Millisecond)
		last, _ := r.lastFabric()
		last.report(newFact(verbs.FabricMissing, 3))
		last.report(newFact(verbs.FabricMissing, 4))
		require.Len(t, factsOf(r.After(0)), 2)
		last.takeRunTimes()
		got := factsOf(r.After(time.Second))
		require.Len(t, got, 20, "the host judges at their times")
		for i := range got {
			require.Empty(t, got[i].Facts)
		}
		last.report(newFact(verbs.FabricEcho, 3))
		require.Len(t, factsOf(r.After(time.Second)), 1+20, "one of two is missing still")
		last.report(newFact(verbs.FabricEcho, 4))
		require.Len(t, factsOf(r.After(time.Second)), 1+2)
		all := last.takeRunTimes()
		require.Equal(t, []time.Duration{runTime, runTime}, all[len(all)-2:])
		for _, lasting := range all[:len(all)-3] {
			require.Equal(t, silentRunTime, lasting)
		}
	})
}

func TestFactsAreSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "dual", "")
		r.Options.Probe.Interval, r.Options.Probe.Timeout = 200*time.Millisecond, 100*time.Millisecond
		delays := map[int][]time.Duration{} // by port: delay until facts are sent
		r.Start(func(b verbs.Batch) error {
			r.locked(func() {
				for _, facts := range factsOf(b.Items) {
					delays[facts.Port] = append(delays[facts.Port], time.Duration(time.Now().UnixNano()-facts.UpTo))
				}
			})
			return nil
		})
		r.After(10 * time.Second)
		r.locked(func() {
			require.Len(t, delays, 2)
			for _, of := range delays {
				require.NotEmpty(t, of)
				require.Zero(t, slices.Max(of))
			}
		})
	})
}

func TestASilenceIsNewsForThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(100 * time.Millisecond)
		last, _ := r.lastFabric()
		last.report(newFact(verbs.FabricMissing, 63))
		r.After(0)
		require.Len(t, factsOf(r.After(3*time.Second)), 60)
		require.Len(t, factsOf(r.After(10*time.Second)), 20)
		last.report(newFact(verbs.FabricMissing, 63))
		require.Len(t, factsOf(r.After(3*time.Second)), 1+6, "the same silence")
		again := newFact(verbs.FabricMissing, 63)
		again.Session = 99
		last.report(again)
		require.Len(t, factsOf(r.After(3*time.Second)), 1+60, "a pair that has met again")
		last.report(verbs.FabricFact{Kind: verbs.FabricLate, Pair: -1})
		require.Len(t, factsOf(r.After(3*time.Second)), 1+6)
	})
}

func TestAFabricKeepsItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(1000 * time.Second)
		last, _ := r.lastFabric()
		require.Len(t, last.takeRunTimes(), 2001)
		last.mu.Lock()
		defer last.mu.Unlock()
		require.Len(t, last.threads, 1)
	})
}
