package pairs

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
)

// runInBubble runs a test in a synctest bubble with hosts whose pairs are connected.
func runInBubble(t *testing.T, hosts, size int, test func(t *testing.T, n *fakeNetwork, h []*fakeHost)) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, hostList(hosts, size))
		var all []*fakeHost
		for i := range hosts {
			all = append(all, n.startHost("h"+string(rune('0'+i))))
		}
		passTime(15 * time.Second)
		for _, h := range all {
			require.EqualValues(t, hosts-1, h.portPoint().PairsMet)
			h.mu.Lock()
			h.points = nil
			h.mu.Unlock()
		}
		test(t, n, all)
	})
}

// The next pair with a round detects a cut link, so the rounds of a port must not coincide.
func TestTheRoundsOfAPortAreSpreadOverTheInterval(t *testing.T) {
	runInBubble(t, 6, 6, func(t *testing.T, _ *fakeNetwork, h []*fakeHost) {
		const interval = int64(500 * time.Millisecond)
		for _, one := range h {
			var at []int64
			one.mu.Lock()
			for slot, peer := range one.joined {
				if peer.Role == verbs.FabricProbes {
					at = append(at, one.rounds[slot].next%interval)
				}
			}
			one.mu.Unlock()
			require.Len(t, at, 5)
			slices.Sort(at)
			at = append(at, at[0]+interval)
			for i, next := range at[1:] {
				require.LessOrEqual(t, next-at[i], interval/4+int64(10*time.Millisecond), "%s: rounds at %v", one.name, at)
			}
		}
	})
}

func TestHostsMeetAndAreWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, hostList(2, 2))
		a := n.startHost("h0")
		passTime(20 * time.Second)
		require.Equal(t, []string{"no_responder"}, a.takeVerdicts("h1"))
		require.EqualValues(t, 1, a.portPoint().Pairs)
		require.Zero(t, a.portPoint().PairsMet)
		b := n.startHost("h1")
		passTime(40 * time.Second)
		require.Equal(t, []string{"starting", "ok"}, a.takeVerdicts("h1"))
		require.Equal(t, []string{"starting", "ok"}, b.takeVerdicts("h0"))
		p := a.portPoint()
		require.EqualValues(t, 1, p.PairsMet)
		require.Positive(t, p.Answered)
		require.Zero(t, p.ForwardLost+p.ReverseLost+p.UnknownLost)
		require.EqualValues(t, 8000, p.EchoP.P50, "without the peer's delay")
		require.EqualValues(t, 1000, p.ResponderP.P50)
		require.EqualValues(t, 5000, p.WriteP.P50)
		for _, point := range a.k.Points(time.Now())[1:] {
			require.NotEqual(t, "rdma_fabric_peer", point.Key().Measurement, "of a pair that is well nothing is said")
		}
	})
}

func TestACutPathIsNamedByBothEndsAndConnectedAgainWhenEchoesCome(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() { n.cut[[2]string{"h0", "h1"}] = true })
		passTime(3 * time.Second)
		require.Equal(t, []string{"path"}, h[0].takeVerdicts("h1"))
		require.Equal(t, []string{"path"}, h[1].takeVerdicts("h0"))
		passTime(30 * time.Second)
		meetings := n.offers
		passTime(30 * time.Second)
		require.Equal(t, meetings, n.offers, "while no echo comes nothing is connected again")
		require.EqualValues(t, 1, h[0].portPoint().PairsBad)

		n.locked(func() { n.cut[[2]string{"h0", "h1"}] = false })
		passTime(20 * time.Second)
		require.Equal(t, []string{"ok"}, h[0].takeVerdicts("h1"))
		p := h[0].portPoint()
		require.Zero(t, p.PairsBad)
		require.EqualValues(t, 1, p.Reconnects)
		require.Positive(t, p.ForwardLost)
		require.Zero(t, p.ReverseLost)
		require.Positive(t, p.WriteErrors)
	})
}

func TestOnlyEchoesThatAreLostOnTheWayBackAreLostInReverse(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() { n.cut[[2]string{"h1", "h0"}] = true })
		passTime(3 * time.Second)
		n.locked(func() { n.cut[[2]string{"h1", "h0"}] = false })
		passTime(10 * time.Second)
		p := h[0].portPoint()
		require.Zero(t, p.ForwardLost)
		require.Positive(t, p.ReverseLost)
	})
}

func TestAStoppedWorkerIsBusyAndNoFaultOfTheNetwork(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() { n.stopped["h1"] = true })
		passTime(5 * time.Second)
		require.Equal(t, []string{"peer_busy"}, h[0].takeVerdicts("h1"))
		require.EqualValues(t, 1, h[0].portPoint().PairsBusy)
		require.Zero(t, h[0].portPoint().PairsBad)
	})
}

func TestAHostOfWhichNothingAnswersIsDown(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.disconnect("h1")
		n.locked(func() { n.cut[[2]string{"h0", "h1"}] = true })
		passTime(5 * time.Second)
		require.Equal(t, []string{"peer_down"}, h[0].takeVerdicts("h1"))
		require.EqualValues(t, 1, h[0].portPoint().PairsDown)
	})
}

func TestProbesGoOnWithoutTheManagementNetwork(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.disconnect("h1")
		passTime(5 * time.Minute)
		require.Empty(t, h[0].takeVerdicts("h1"))
		answered := h[0].portPoint().Answered
		passTime(10 * time.Second)
		require.Greater(t, h[0].portPoint().Answered, answered)
	})
}

func TestAPeersPortThatIsDownIsNamed(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		h[1].k.HandlePortState("d0", 1, verbs.PortDown, 0)
		h[1].closeFabric("the port is down")
		passTime(5 * time.Second)
		require.Equal(t, []string{"peer_port"}, h[0].takeVerdicts("h1"))
		require.Equal(t, []string{"own_port"}, h[1].takeVerdicts("h0"), "once, and then nothing is said of peers")
		require.EqualValues(t, verdict.VerdictOwnPort, h[1].portPoint().Verdict)
		passTime(time.Minute)
		require.Empty(t, h[1].takeVerdicts("h0"))

		h[1].k.HandlePortState("d0", 1, verbs.PortActive, 0)
		h[1].renewFabric()
		passTime(30 * time.Second)
		require.Equal(t, []string{"starting", "ok"}, h[0].takeVerdicts("h1"), "the new epoch is met")
		require.Equal(t, []string{"starting", "ok"}, h[1].takeVerdicts("h0"))
		require.EqualValues(t, verdict.VerdictOK, h[1].portPoint().Verdict)
	})
}

func TestAWorkerThatStartsAgainIsKnownByItsEpoch(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		before := h[1].portPoint()
		h[1].endWorker(3)
		p := h[1].portPoint()
		require.Equal(t, before.Sent+3, p.Sent, "what the ledger has beyond the facts is counted")
		require.Equal(t, before.UnknownLost+before.Pending+3, p.UnknownLost)
		require.Equal(t, before.Writes+3, p.Writes)
		require.EqualValues(t, 10, p.Released)
		h[1].renewFabric()
		passTime(10 * time.Second)
		require.Equal(t, []string{"starting", "ok"}, h[0].takeVerdicts("h1"))
		require.Equal(t, []string{"own_port", "starting", "ok"}, h[1].takeVerdicts("h0"))
		require.Greater(t, h[1].portPoint().Sent, p.Sent)
	})
}

func TestWhatManyPairsSayAtOnceIsTheFaultOfTheOwnLink(t *testing.T) {
	runInBubble(t, 5, 5, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() {
			for _, o := range h[1:] {
				n.cut[[2]string{"h0", o.name}] = true
			}
		})
		passTime(3 * time.Second)
		p := h[0].portPoint()
		require.EqualValues(t, verdict.VerdictOwnLink, p.Verdict)
		require.True(t, p.Bad)
		require.Zero(t, p.PairsBad, "the pairs are not blamed")
		said := h[0].takeVerdicts("h1")
		require.Equal(t, "own_link", said[len(said)-1])
		require.Equal(t, []string{"path"}, h[1].takeVerdicts("h0"))
	})
}

func TestWhyAHostIsNotMetIsSaid(t *testing.T) {
	for reason, err := range map[string]error{
		"key": exchange.ErrKey, "not_listed": exchange.ErrNotListed, "version": exchange.ErrVersion, "no_responder": errors.New("refused"),
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNetwork(t, hostList(2, 2))
				n.refuses["h1"] = err
				a := n.startHost("h0")
				n.startHost("h1")
				passTime(5 * time.Second)
				require.Equal(t, []string{reason}, a.takeVerdicts("h1"))
				n.locked(func() { delete(n.refuses, "h1") })
				passTime(3 * time.Minute)
				require.Equal(t, []string{"starting", "ok"}, a.takeVerdicts("h1"))
			})
		})
	}
}

func TestADeviceThatRefusesIsTriedAgainSeldomAndSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, hostList(2, 2))
		a := n.startHost("h0")
		a.mu.Lock()
		a.refuse = verbs.ErrLimit
		a.mu.Unlock()
		b := n.startHost("h1")
		passTime(10 * time.Minute)
		said := a.takeVerdicts("h1")
		require.Equal(t, "failed", said[len(said)-1], "whether the other one was there at first or not")
		require.Equal(t, []string{"failed"}, b.takeVerdicts("h0"), "the other side learns that it was the device")
		a.mu.Lock()
		orders := len(a.orders)
		a.refuse = nil
		a.mu.Unlock()
		require.Less(t, orders, 60, "of two pairs, in ten minutes")
		passTime(2 * time.Minute)
		require.Equal(t, []string{"starting", "ok"}, a.takeVerdicts("h1"))
	})
}

func TestAHostMeetsAtMostFourPairsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, hostList(9, 9))
		for i := range 9 {
			n.startHost("h" + string(rune('0'+i)))
		}
		passTime(1200 * time.Millisecond)
		n.mu.Lock()
		meetings := n.offers
		n.mu.Unlock()
		require.LessOrEqual(t, meetings, 9*(4+5))
		require.Positive(t, meetings)
		passTime(20 * time.Second)
		require.EqualValues(t, 8, n.nodes["h0"].portPoint().PairsMet)
	})
}

func TestAListThatChangesEndsSomePairsAndBeginsOthers(t *testing.T) {
	runInBubble(t, 3, 3, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		before := h[0].portPoint()
		h[0].dropConversations() // as the server does with hosts that are no longer listed
		h[0].k.SetList(n.parseList("h0 g0\nh1 g0\nh3 g0\n"))
		passTime(5 * time.Second)
		p := h[0].portPoint()
		require.EqualValues(t, 2, p.Pairs)
		require.EqualValues(t, 1, p.PairsMet)
		require.GreaterOrEqual(t, p.Sent, before.Sent, "what the pair that is over has counted stays")
		require.Equal(t, []string{"no_responder"}, h[0].takeVerdicts("h3"))
		require.Empty(t, h[0].takeVerdicts("h1"))
		passTime(time.Minute)
		require.Equal(t, []string{"not_listed"}, h[2].takeVerdicts("h0"))
	})
}

func TestAHostThatIsNotInItsListSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, hostList(2, 2))
		h := n.startHost("h7")
		passTime(5 * time.Second)
		require.Empty(t, h.k.Points(time.Now()))
		require.Empty(t, h.points)
	})
}

func TestAProcessWithoutItsWorkerSaysNothingOfTheWay(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		h[1].closeFabric("its worker has ended") // the port is active
		passTime(10 * time.Second)
		require.Equal(t, []string{"peer_down"}, h[0].takeVerdicts("h1"))
		require.Zero(t, h[0].portPoint().PairsBad)
		h[1].renewFabric()
		passTime(70 * time.Second)
		require.Equal(t, []string{"starting", "ok"}, h[0].takeVerdicts("h1"), "and nothing that the former numbers did not answer counts")
	})
}

func TestAPairThatIsMetAnewSlowlyIsNotTakenForAFault(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() { n.writesLost = true }) // so that the queue pair of the writes is reconnected repeatedly
		h[0].mu.Lock()
		h[0].slow = 2 * time.Second // time between the connection of the peer's end and of the own end
		h[0].mu.Unlock()
		passTime(5 * time.Minute)
		require.Equal(t, []string{"partial"}, h[0].takeVerdicts("h1"))
		require.Positive(t, h[0].portPoint().Reconnects)
	})
}

func TestWhatAGroupHasCountedStaysWhenADeviceGoes(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		sent := func() uint64 {
			var sum uint64
			for _, p := range h[0].k.Points(time.Now()) {
				if g, ok := p.(*measure.Fabric); ok {
					sum += g.Sent
				}
			}
			return sum
		}
		before := sent()
		require.Positive(t, before)
		h[0].k.HandleDeviceGone("d0")
		require.Equal(t, before, sent(), "before its pairs have ended")
		passTime(10 * time.Second)
		require.Equal(t, before, sent(), "and after")
	})
}

// An interval may be gathered after the facts that change a verdict and before the Keeper receives them. The emitter drops a point of an interval
// that has an earlier time than the last point of its series, so the times have to tell which point is newer.
func TestTimesOfASeriesHaveTheOrderOfItsPoints(t *testing.T) {
	runInBubble(t, 5, 5, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		a := h[0]
		a.mu.Lock()
		a.late = 20*time.Millisecond + 500*time.Microsecond
		a.mu.Unlock()
		times, sent, verdicts := map[measure.Key]time.Time{}, uint64(0), map[verdict.Verdict]bool{}
		check := func(p measure.Point) {
			require.True(t, p.Time().After(times[p.Key()]), "%v: a point of %v after one of %v", p.Key(), p.Time(), times[p.Key()])
			times[p.Key()] = p.Time()
			if p, ok := p.(*measure.FabricPort); ok {
				require.GreaterOrEqual(t, p.Sent, sent)
				sent = p.Sent
			}
		}
		for i := range 6000 {
			if i == 0 || i == 800 {
				for _, o := range h[1:] {
					n.cutHosts("h0", o.name, i == 0)
				}
			}
			passTime(5 * time.Millisecond)
			a.mu.Lock()
			emitted := a.points
			a.points = nil
			a.mu.Unlock()
			for _, p := range emitted {
				check(p)
				if p, ok := p.(*measure.FabricPort); ok {
					verdicts[p.Verdict] = true
				}
			}
			for _, p := range a.k.Points(time.Unix(0, n.mono())) {
				check(p)
			}
		}
		require.Equal(t, map[verdict.Verdict]bool{verdict.VerdictOwnLink: true, verdict.VerdictOK: true}, verdicts)
	})
}

// Points gathered while a pair is bad may be written after the point of its recovery. Without an additional point, the series could end
// with the bad verdict.
func TestIntervalAfterRecoveryReportsPairOnce(t *testing.T) {
	interval := func(h *fakeHost) (verdicts []verdict.Verdict) {
		for p := range measure.OfType[*measure.FabricPeer](h.k.Points(time.Now())) {
			verdicts = append(verdicts, p.Verdict)
		}
		return verdicts
	}
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		interval(h[0]) // reports the connection of the pair
		require.Empty(t, interval(h[0]))
		n.cutHosts("h0", "h1", true)
		passTime(3 * time.Second)
		require.Equal(t, []verdict.Verdict{verdict.VerdictPath}, interval(h[0]))
		require.Equal(t, []verdict.Verdict{verdict.VerdictPath}, interval(h[0]))
		n.cutHosts("h0", "h1", false)
		passTime(20 * time.Second)
		require.Equal(t, []verdict.Verdict{verdict.VerdictOK}, interval(h[0]))
		require.Empty(t, interval(h[0]))
	})
}

// While this host's port is down, the last verdict of a pair is not repeated. After the recovery of the port, the pair is reported once.
func TestPairIsNotReportedWhileOwnPortIsDown(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		peers := func() (all []verdict.Verdict) {
			for p := range measure.OfType[*measure.FabricPeer](h[0].k.Points(time.Now())) {
				all = append(all, p.Verdict)
			}
			return all
		}
		n.cutHosts("h0", "h1", true)
		passTime(3 * time.Second)
		require.Equal(t, []verdict.Verdict{verdict.VerdictPath}, peers())
		h[0].k.HandlePortState("d0", 1, verbs.PortDown, 0)
		require.Empty(t, peers())
		n.cutHosts("h0", "h1", false)
		passTime(20 * time.Second)
		require.Empty(t, peers())
		h[0].k.HandlePortState("d0", 1, verbs.PortActive, 0)
		passTime(20 * time.Second)
		require.Equal(t, []verdict.Verdict{verdict.VerdictOK}, peers())
		require.Empty(t, peers())
	})
}
