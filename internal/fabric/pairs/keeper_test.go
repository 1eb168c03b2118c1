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

// bubble runs a test in a bubble, with hosts that have met.
func bubble(t *testing.T, hosts, size int, test func(t *testing.T, n *net, h []*node)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, lists(hosts, size))
		var all []*node
		for i := range hosts {
			all = append(all, n.host("h"+string(rune('0'+i))))
		}
		pass(15 * time.Second)
		for _, h := range all {
			require.EqualValues(t, hosts-1, h.port().PairsMet)
			h.mu.Lock()
			h.points = nil
			h.mu.Unlock()
		}
		test(t, n, all)
	})
}

// A link that is cut is found by the pair whose round comes next.
func TestTheRoundsOfAPortAreSpreadOverTheInterval(t *testing.T) {
	bubble(t, 6, 6, func(t *testing.T, _ *net, h []*node) {
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
		n := newNet(t, lists(2, 2))
		a := n.host("h0")
		pass(20 * time.Second)
		require.Equal(t, []string{"no_responder"}, a.said("h1"))
		require.EqualValues(t, 1, a.port().Pairs)
		require.Zero(t, a.port().PairsMet)
		b := n.host("h1")
		pass(40 * time.Second)
		require.Equal(t, []string{"starting", "ok"}, a.said("h1"))
		require.Equal(t, []string{"starting", "ok"}, b.said("h0"))
		p := a.port()
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
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.do(func() { n.cut[[2]string{"h0", "h1"}] = true })
		pass(3 * time.Second)
		require.Equal(t, []string{"path"}, h[0].said("h1"))
		require.Equal(t, []string{"path"}, h[1].said("h0"))
		pass(30 * time.Second)
		meetings := n.meetings
		pass(30 * time.Second)
		require.Equal(t, meetings, n.meetings, "while no echo comes nothing is connected again")
		require.EqualValues(t, 1, h[0].port().PairsBad)

		n.do(func() { n.cut[[2]string{"h0", "h1"}] = false })
		pass(20 * time.Second)
		require.Equal(t, []string{"ok"}, h[0].said("h1"))
		p := h[0].port()
		require.Zero(t, p.PairsBad)
		require.EqualValues(t, 1, p.Reconnects)
		require.Positive(t, p.ForwardLost)
		require.Zero(t, p.ReverseLost)
		require.Positive(t, p.WriteErrors)
	})
}

func TestOnlyEchoesThatAreLostOnTheWayBackAreLostInReverse(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.do(func() { n.cut[[2]string{"h1", "h0"}] = true })
		pass(3 * time.Second)
		n.do(func() { n.cut[[2]string{"h1", "h0"}] = false })
		pass(10 * time.Second)
		p := h[0].port()
		require.Zero(t, p.ForwardLost)
		require.Positive(t, p.ReverseLost)
	})
}

func TestAStoppedWorkerIsBusyAndNoFaultOfTheNetwork(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.do(func() { n.stopped["h1"] = true })
		pass(5 * time.Second)
		require.Equal(t, []string{"peer_busy"}, h[0].said("h1"))
		require.EqualValues(t, 1, h[0].port().PairsBusy)
		require.Zero(t, h[0].port().PairsBad)
	})
}

func TestAHostOfWhichNothingAnswersIsDown(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.hangUp("h1")
		n.do(func() { n.cut[[2]string{"h0", "h1"}] = true })
		pass(5 * time.Second)
		require.Equal(t, []string{"peer_down"}, h[0].said("h1"))
		require.EqualValues(t, 1, h[0].port().PairsDown)
	})
}

func TestProbesGoOnWithoutTheManagementNetwork(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.hangUp("h1")
		pass(5 * time.Minute)
		require.Empty(t, h[0].said("h1"))
		answered := h[0].port().Answered
		pass(10 * time.Second)
		require.Greater(t, h[0].port().Answered, answered)
	})
}

func TestAPeersPortThatIsDownIsNamed(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		h[1].k.PortState("d0", 1, verbs.PortDown, 0)
		h[1].close("the port is down")
		pass(5 * time.Second)
		require.Equal(t, []string{"peer_port"}, h[0].said("h1"))
		require.Equal(t, []string{"own_port"}, h[1].said("h0"), "once, and then nothing is said of peers")
		require.EqualValues(t, verdict.VerdictOwnPort, h[1].port().Verdict)
		pass(time.Minute)
		require.Empty(t, h[1].said("h0"))

		h[1].k.PortState("d0", 1, verbs.PortActive, 0)
		h[1].renew()
		pass(30 * time.Second)
		require.Equal(t, []string{"starting", "ok"}, h[0].said("h1"), "the new epoch is met")
		require.Equal(t, []string{"starting", "ok"}, h[1].said("h0"))
		require.EqualValues(t, verdict.VerdictOK, h[1].port().Verdict)
	})
}

func TestAWorkerThatStartsAgainIsKnownByItsEpoch(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		before := h[1].port()
		h[1].dies(3)
		p := h[1].port()
		require.Equal(t, before.Sent+3, p.Sent, "what the ledger has beyond the facts is counted")
		require.Equal(t, before.UnknownLost+before.Pending+3, p.UnknownLost)
		require.Equal(t, before.Writes+3, p.Writes)
		require.EqualValues(t, 10, p.Released)
		h[1].renew()
		pass(10 * time.Second)
		require.Equal(t, []string{"starting", "ok"}, h[0].said("h1"))
		require.Equal(t, []string{"own_port", "starting", "ok"}, h[1].said("h0"))
		require.Greater(t, h[1].port().Sent, p.Sent)
	})
}

func TestWhatManyPairsSayAtOnceIsTheFaultOfTheOwnLink(t *testing.T) {
	bubble(t, 5, 5, func(t *testing.T, n *net, h []*node) {
		n.do(func() {
			for _, o := range h[1:] {
				n.cut[[2]string{"h0", o.name}] = true
			}
		})
		pass(3 * time.Second)
		p := h[0].port()
		require.EqualValues(t, verdict.VerdictOwnLink, p.Verdict)
		require.True(t, p.Bad)
		require.Zero(t, p.PairsBad, "the pairs are not blamed")
		said := h[0].said("h1")
		require.Equal(t, "own_link", said[len(said)-1])
		require.Equal(t, []string{"path"}, h[1].said("h0"))
	})
}

func TestWhyAHostIsNotMetIsSaid(t *testing.T) {
	for reason, err := range map[string]error{
		"key": exchange.ErrKey, "not_listed": exchange.ErrNotListed, "version": exchange.ErrVersion, "no_responder": errors.New("refused"),
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNet(t, lists(2, 2))
				n.refuses["h1"] = err
				a := n.host("h0")
				n.host("h1")
				pass(5 * time.Second)
				require.Equal(t, []string{reason}, a.said("h1"))
				n.do(func() { delete(n.refuses, "h1") })
				pass(3 * time.Minute)
				require.Equal(t, []string{"starting", "ok"}, a.said("h1"))
			})
		})
	}
}

func TestADeviceThatRefusesIsTriedAgainSeldomAndSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, lists(2, 2))
		a := n.host("h0")
		a.mu.Lock()
		a.refuse = verbs.ErrLimit
		a.mu.Unlock()
		b := n.host("h1")
		pass(10 * time.Minute)
		said := a.said("h1")
		require.Equal(t, "failed", said[len(said)-1], "whether the other one was there at first or not")
		require.Equal(t, []string{"failed"}, b.said("h0"), "the other side learns that it was the device")
		a.mu.Lock()
		orders := len(a.orders)
		a.refuse = nil
		a.mu.Unlock()
		require.Less(t, orders, 60, "of two pairs, in ten minutes")
		pass(2 * time.Minute)
		require.Equal(t, []string{"starting", "ok"}, a.said("h1"))
	})
}

func TestAHostMeetsAtMostFourPairsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, lists(9, 9))
		for i := range 9 {
			n.host("h" + string(rune('0'+i)))
		}
		pass(1200 * time.Millisecond)
		n.mu.Lock()
		meetings := n.meetings
		n.mu.Unlock()
		require.LessOrEqual(t, meetings, 9*(4+5))
		require.Positive(t, meetings)
		pass(20 * time.Second)
		require.EqualValues(t, 8, n.nodes["h0"].port().PairsMet)
	})
}

func TestAListThatChangesEndsSomePairsAndBeginsOthers(t *testing.T) {
	bubble(t, 3, 3, func(t *testing.T, n *net, h []*node) {
		before := h[0].port()
		h[0].drop() // as the server does with hosts that are not listed any more
		h[0].k.SetList(n.parse("h0 g0\nh1 g0\nh3 g0\n"))
		pass(5 * time.Second)
		p := h[0].port()
		require.EqualValues(t, 2, p.Pairs)
		require.EqualValues(t, 1, p.PairsMet)
		require.GreaterOrEqual(t, p.Sent, before.Sent, "what the pair that is over has counted stays")
		require.Equal(t, []string{"no_responder"}, h[0].said("h3"))
		require.Empty(t, h[0].said("h1"))
		pass(time.Minute)
		require.Equal(t, []string{"not_listed"}, h[2].said("h0"))
	})
}

func TestAHostThatIsNotInItsListSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, lists(2, 2))
		h := n.host("h7")
		pass(5 * time.Second)
		require.Empty(t, h.k.Points(time.Now()))
		require.Empty(t, h.points)
	})
}

func TestAProcessWithoutItsWorkerSaysNothingOfTheWay(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		h[1].close("its worker has ended") // the port is active
		pass(10 * time.Second)
		require.Equal(t, []string{"peer_down"}, h[0].said("h1"))
		require.Zero(t, h[0].port().PairsBad)
		h[1].renew()
		pass(70 * time.Second)
		require.Equal(t, []string{"starting", "ok"}, h[0].said("h1"), "and nothing that the former numbers did not answer counts")
	})
}

func TestAPairThatIsMetAnewSlowlyIsNotTakenForAFault(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.do(func() { n.writesLost = true }) // so that the queue pair of the writes is connected again and again
		h[0].mu.Lock()
		h[0].slow = 2 * time.Second // from the peer's new end to the own one
		h[0].mu.Unlock()
		pass(5 * time.Minute)
		require.Equal(t, []string{"partial"}, h[0].said("h1"))
		require.Positive(t, h[0].port().Reconnects)
	})
}

func TestWhatAGroupHasCountedStaysWhenADeviceGoes(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
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
		h[0].k.Gone("d0")
		require.Equal(t, before, sent(), "before its pairs have ended")
		pass(10 * time.Second)
		require.Equal(t, before, sent(), "and after")
	})
}

// The points of an interval are gathered while a pair is bad, and may be emitted after the pair has recovered. Without one more point, the
// series would end with the bad verdict.
func TestIntervalAfterRecoveryReportsPairOnce(t *testing.T) {
	interval := func(h *node) (verdicts []verdict.Verdict) {
		for p := range measure.Only[*measure.FabricPeer](h.k.Points(time.Now())) {
			verdicts = append(verdicts, p.Verdict)
		}
		return verdicts
	}
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		interval(h[0]) // they have met since the last one
		require.Empty(t, interval(h[0]))
		n.cutHosts("h0", "h1", true)
		pass(3 * time.Second)
		require.Equal(t, []verdict.Verdict{verdict.VerdictPath}, interval(h[0]))
		require.Equal(t, []verdict.Verdict{verdict.VerdictPath}, interval(h[0]))
		n.cutHosts("h0", "h1", false)
		pass(20 * time.Second)
		require.Equal(t, []verdict.Verdict{verdict.VerdictOK}, interval(h[0]))
		require.Empty(t, interval(h[0]))
	})
}

// While the own port is down, what was said of a pair last is not repeated. The pair that is well with the port again is.
func TestPairIsNotReportedWhileOwnPortIsDown(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		peers := func() (all []verdict.Verdict) {
			for p := range measure.Only[*measure.FabricPeer](h[0].k.Points(time.Now())) {
				all = append(all, p.Verdict)
			}
			return all
		}
		n.cutHosts("h0", "h1", true)
		pass(3 * time.Second)
		require.Equal(t, []verdict.Verdict{verdict.VerdictPath}, peers())
		h[0].k.PortState("d0", 1, verbs.PortDown, 0)
		require.Empty(t, peers())
		n.cutHosts("h0", "h1", false)
		pass(20 * time.Second)
		require.Empty(t, peers())
		h[0].k.PortState("d0", 1, verbs.PortActive, 0)
		pass(20 * time.Second)
		require.Equal(t, []verdict.Verdict{verdict.VerdictOK}, peers())
		require.Empty(t, peers())
	})
}
