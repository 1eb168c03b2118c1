package devices

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func TestAPairGetsAProbeAndAWriteInEachRoundOnThePathsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "").runUntil(2200 * time.Millisecond)
		require.Equal(t, []int64{100, 600, 1100, 1600, 2100}, p.factTimes(verbs.FabricSent))
		require.Equal(t, p.factTimes(verbs.FabricSent), p.factTimes(verbs.FabricWrite))
		require.Len(t, p.factsOf(verbs.FabricEcho), 5)
		require.Len(t, p.factsOf(verbs.FabricWriteDone), 5)
		require.Len(t, p.facts, 20)
		for i, f := range p.factsOf(verbs.FabricEcho) {
			require.Equal(t, verbs.FabricFact{
				Kind: verbs.FabricEcho, Pair: place, Session: 42, Path: i % 4, Seq: uint64(i + 1), Received: uint64(1 + i/4), Posted: uint64(1 + i/4),
				At: f.At, Took: f.Took, Delay: f.Delay,
			}, f)
			require.Equal(t, p.factsOf(verbs.FabricSent)[i].At+f.Took, f.At)
			require.Greater(t, f.Took, f.Delay)
			require.Positive(t, f.Delay)
			require.Less(t, f.Took, ms)
		}
		require.Equal(t, ledger.FabricPairCounts{Sent: 5, Answered: 5, Writes: 5, WritesOK: 5}, p.pairCounts())
		counts := p.snapshot().Fabrics[0].FabricCounts
		require.Equal(t, counts.Events, counts.Acked)
		require.NotZero(t, counts.Events)
	})
}

func TestFactsAreInOrderAndEqualForEqualSeeds(t *testing.T) {
	const scenario = "[[fabric]]\nloss = 0.3\n[[peer]]\nat = '20s'\nfor = '9s'\nwhat = 'busy'\n"
	var all [2][]verbs.FabricFact
	for i := range all {
		synctest.Test(t, func(t *testing.T) { all[i] = newProber(t, "roce2", scenario).runUntil(time.Minute).facts })
	}
	require.Equal(t, all[0], all[1])
	require.NotEmpty(t, all[0])
	for i, f := range all[0][1:] {
		require.GreaterOrEqual(t, f.At, all[0][i].At)
	}
}

func TestSilenceOfBothWitnessesBringsThreeProbesMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "[[fabric]]\nat = '1s'\nfor = '1500ms'\n").runUntil(4 * time.Second)
		require.Equal(t, []int64{100, 600, 1100, 1200, 1250, 1300, 1600, 2100, 2600, 3100, 3600}, p.factTimes(verbs.FabricSent))
		require.Equal(t, []int64{1200}, p.factTimes(verbs.FabricMissing), "once")
		require.Equal(t, []int64{100, 600, 1100, 3100, 3600}, p.factTimes(verbs.FabricWrite), "no other while one is outstanding")
		require.Empty(t, p.factsOf(verbs.FabricWriteFailed), "the cut was shorter than the retries")
		done := p.factsOf(verbs.FabricWriteDone)[2]
		require.EqualValues(t, 1610, done.Took/ms, "it was sent again until it came through")
		require.Equal(t, []int64{100, 600, 2600, 3100, 3600}, p.factTimes(verbs.FabricEcho))
	})
}

func TestAPeerThatIsStoppedIsNotAskedMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "[[peer]]\nat = '1s'\nfor = '1900ms'\nwhat = 'stopped'\n").runUntil(3200 * time.Millisecond)
		require.Equal(t, []int64{100, 600, 1100, 1600, 2100, 2600, 3100}, p.factTimes(verbs.FabricSent))
		require.Equal(t, []int64{1200}, p.factTimes(verbs.FabricMissing))
		require.Len(t, p.factsOf(verbs.FabricWriteDone), 7)
		require.Equal(t, []int64{100, 600, 2900, 2900, 2900, 2900, 3100}, p.factTimes(verbs.FabricEcho), "what waited is echoed")
		c := p.newTracker().Counts()
		require.Zero(t, c.Pending)
	})
}

func TestAWriteFailsWhenItsRetriesAreUsedUp(t *testing.T) {
	for profile, want := range map[string]int64{"rxe": 469, "roce2": 1879} {
		t.Run(profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProber(t, profile, "[[fabric]]\nat = '1s'\npath = 'write'\n").runUntil(5 * time.Second)
				failed := p.factsOf(verbs.FabricWriteFailed)
				require.Len(t, failed, 1)
				require.Equal(t, want, failed[0].Took/ms)
				require.Equal(t, "retry_exc_err", failed[0].Status)
				require.Len(t, p.factsOf(verbs.FabricWrite), 3, "its queue pair is in error")
				require.Len(t, p.factsOf(verbs.FabricEcho), 10)
				require.Equal(t, ledger.FabricPairCounts{Sent: 10, Answered: 10, Writes: 3, WritesOK: 2, WriteErrors: 1}, p.pairCounts())
			})
		})
	}
}

func TestLossHasTheDirectionThatTheScenarioGivesIt(t *testing.T) {
	for _, row := range []struct{ name, scenario string }{
		{"forward", "[[fabric]]\nloss = 0.3\ndirection = 'forward'\n"},
		{"reverse", "[[fabric]]\nloss = 0.3\ndirection = 'reverse'\n"},
		{"both", "[[fabric]]\nloss = 0.3\n"},
		{"each for itself", "[[fabric]]\nloss = 0.2\ndirection = 'reverse'\n[[fabric]]\nloss = 0.4\ndirection = 'forward'\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProber(t, "roce2", row.scenario).runUntil(5 * time.Minute)
				pair := p.f.(*fabricEnd).pairs[place]
				var lost [2]uint64
				last := [4]uint64{} // echo of each path
				for _, f := range p.factsOf(verbs.FabricEcho) {
					last[f.Path] = f.Seq
				}
				for _, f := range p.factsOf(verbs.FabricSent) {
					there, _ := lossAndDelay(pair.remote.conditions, forward, f.Path, f.At)
					back, _ := lossAndDelay(pair.remote.conditions, reverse, f.Path, f.At)
					switch d := pair.remote.drawNumbers(f.Seq); {
					case f.Seq > last[f.Path]: // not proved yet
					case d.chance[0] >= there:
						lost[0]++
					case d.chance[1] >= back:
						lost[1]++
					}
				}
				c := p.newTracker().Counts()
				require.Equal(t, lost, [2]uint64{c.ForwardLost, c.ReverseLost})
				require.Equal(t, row.name != "reverse", lost[0] > 0)
				require.Equal(t, row.name != "forward", lost[1] > 0)
				require.Zero(t, c.BusyLost+c.UnknownLost)
				require.Equal(t, c.Answered, p.pairCounts().Answered)
			})
		})
	}
}

func TestAPathThatIsBlackHoledLosesItsDatagramsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "[[fabric]]\npath = 2\n").runUntil(8100 * time.Millisecond)
		for _, f := range p.factsOf(verbs.FabricEcho) {
			require.NotEqual(t, 2, f.Path)
		}
		require.Len(t, p.factsOf(verbs.FabricEcho), 12)
		require.Len(t, p.factsOf(verbs.FabricWriteDone), 16)
	})
}

func TestADelayIsThatOfTheWayAndKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scenario = "[[fabric]]\ndelay = '20ms'\ndirection = 'forward'\n[[fabric]]\nfor = '200ms'\ndelay = '3s'\ndirection = 'reverse'\n"
		p := newProber(t, "roce2", scenario).runUntil(5200 * time.Millisecond)
		var inOrder [4][]uint64
		for _, f := range p.factsOf(verbs.FabricEcho) {
			inOrder[f.Path] = append(inOrder[f.Path], f.Seq)
		}
		require.Equal(t, [4][]uint64{{1, 5, 9, 13}, {2, 6, 10}, {3, 7, 11}, {4, 8, 12}}, inOrder)
		first := p.factsOf(verbs.FabricEcho)[0]
		require.EqualValues(t, 2, first.Seq)
		require.EqualValues(t, 20, first.Took/ms)
		require.EqualValues(t, 3020, p.factsOf(verbs.FabricWriteDone)[0].Took/ms)
		c := p.newTracker().Counts()
		require.Zero(t, c.Pending+c.UnknownLost)
	})
}

func TestWhatAReceiveQueueCannotTakeIsNoLossOfTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "[[peer]]\nat = '1s'\nfor = '30s'\nwhat = 'worker_stopped'\n").runUntil(40 * time.Second)
		c := p.newTracker().Counts()
		// 60 probes came, of which 8 of each path were kept. In the second in which it went on 2 more came, and it echoed 20.
		require.EqualValues(t, 60+2-20, c.BusyLost)
		require.Zero(t, c.ForwardLost+c.ReverseLost+c.UnknownLost)
		require.Zero(t, c.Pending)
		dry := 0
		for _, f := range p.factsOf(verbs.FabricEcho) {
			if f.Dry {
				dry++
			}
		}
		require.Equal(t, 4, dry, "once on each path")
	})
}

func TestQueuePairsThatAreNoMoreAreSilent(t *testing.T) {
	for _, what := range []string{"down", "restarts", "inactive"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProber(t, "roce2", "[[peer]]\nat = '1s'\nfor = '10ms'\nwhat = '"+what+"'\n").runUntil(8 * time.Second)
				require.Equal(t, []int64{100, 600}, p.factTimes(verbs.FabricEcho))
				require.Len(t, p.factsOf(verbs.FabricWriteFailed), 1)
				old := p.peer.UD
				p.facts, p.peer = nil, p.meet("b", p.f)
				require.NotEqual(t, old, p.peer.UD)
				p.runUntil(10 * time.Second)
				require.Len(t, p.factsOf(verbs.FabricEcho), 4)
				require.Equal(t, ledger.FabricPairCounts{Sent: 4, Answered: 4, Writes: 4, WritesOK: 4}, p.pairCounts(), "counted anew")
			})
		})
	}
}

func TestAPeerThatProbesIsEchoedAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[peer]]\nat = '2s'\nfor = '2s'\nwhat = 'stopped'\n")
		f, _ := s.fabric(1)
		_, err := f.Offer(place, verbs.FabricAnswers)
		require.NoError(t, err)
		q := s.w.Peer("b").Ports(fakeTime())[0]
		require.NoError(t, f.Join(place, &verbs.FabricPeer{
			Host: "b", Device: "sim0", Port: 1, Role: verbs.FabricAnswers, Session: 42, UD: q.UD, QKey: q.QKey, First: 100 * time.Millisecond,
		}))
		facts, _, err := runFabric(f, 6050*time.Millisecond)
		require.NoError(t, err)
		require.Empty(t, facts)
		counts := s.snapshot().Fabrics[0].FabricCounts
		require.EqualValues(t, 8, counts.Echoed)
		require.Zero(t, counts.Refused+counts.Foreign+counts.Dry)
	})
}

func TestFabricsOfOneWorldProbeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "")
		a, pa := s.fabric(1)
		dev, led := s.open("sim1")
		b, pb, err := dev.NewFabricEndpoint(s.config(1))
		require.NoError(t, err)
		ra, err := a.Offer(0, verbs.FabricProbes)
		require.NoError(t, err)
		rb, err := b.Offer(7, verbs.FabricAnswers)
		require.NoError(t, err)
		require.NoError(t, b.Join(7, &verbs.FabricPeer{Role: verbs.FabricAnswers, Session: 1, UD: pa.UD, QKey: pa.QKey, RC: ra}))
		require.NoError(t, a.Join(0, &verbs.FabricPeer{Session: 1, UD: pb.UD, QKey: pb.QKey, RC: rb}))

		done := make(chan error)
		go func() { _, _, err := runFabric(b, 5*time.Second); done <- err }()
		facts, _, err := runFabric(a, 1900*time.Millisecond)
		require.NoError(t, err)
		require.Len(t, facts, 16)
		require.NoError(t, b.Leave(7))
		facts, _, err = runFabric(a, 10*time.Second)
		require.NoError(t, err)
		require.Len(t, facts, 4)
		require.Equal(t, verbs.FabricMissing, facts[2].Kind)
		_, _, err = runFabric(a, 200*time.Millisecond)
		require.NoError(t, err)
		require.NoError(t, <-done)

		var snap ledger.Contents
		led.CopyTo(&snap)
		require.EqualValues(t, 4, snap.Fabrics[0].Echoed)
		require.EqualValues(t, 4, snap.Fabrics[0].Foreign, "the probe that was missed, and three more")
	})
}
