package pairs

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
)

// bubbleOfReleases runs a test with two hosts that have met, whatever their releases.
func bubbleOfReleases(t *testing.T, test func(t *testing.T, n *net, h []*node)) {
	for _, older := range [][]bool{{false, false}, {true, false}, {false, true}} {
		t.Run(fmt.Sprintf("older releases: %v", older), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNet(t, lists(2, 2))
				var h []*node
				for i := range older {
					h = append(h, n.hostOf(fmt.Sprintf("h%d", i), older[i]))
				}
				pass(15 * time.Second)
				requireProbing(t, h[0])
				h[0].said("h1")
				test(t, n, h)
			})
		})
	}
}

// requireProbing requires that a pair is well, and that its probes are answered.
func requireProbing(t *testing.T, h *node) {
	t.Helper()
	before := h.port()
	require.EqualValues(t, 1, before.PairsMet)
	pass(10 * time.Second)
	after := h.port()
	require.Greater(t, after.Answered, before.Answered)
	require.Less(t, after.Pending, uint64(3))
	views := h.k.Views()
	require.Len(t, views, 1)
	require.Equal(t, verdict.VerdictOK, views[0].Verdict)
	require.Empty(t, views[0].Reason)
}

func TestLostConnectionDoesNotEndThePair(t *testing.T) {
	bubbleOfReleases(t, func(t *testing.T, n *net, h []*node) {
		meetings := n.meetings
		for range 3 {
			h[1].drop()
			pass(15 * time.Minute)
		}
		require.Empty(t, h[0].said("h1"))
		if !h[0].older && !h[1].older {
			require.Equal(t, meetings, n.meetings, "its session goes on")
		}
		requireProbing(t, h[0])
	})
}

func TestOutageOfManagementNetworkDoesNotEndThePair(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.hangUp("h1")
		pass(15 * time.Minute)
		require.Empty(t, h[0].said("h1"), "probes go on")
		n.do(func() { n.hungUp["h1"] = false })
		pass(30 * time.Minute)
		require.Empty(t, h[0].said("h1"))
		requireProbing(t, h[0])
	})
}

// A host of an older release ends its end after ten minutes whether probes come or not.
func TestOlderPeerIsNotBlamedAfterOutageOfManagementNetwork(t *testing.T) {
	bubbleOfReleases(t, func(t *testing.T, n *net, h []*node) {
		n.hangUp("h1")
		pass(15 * time.Minute)
		n.do(func() { n.hungUp["h1"] = false })
		pass(5 * time.Minute)
		require.NotContains(t, h[0].said("h1"), "path")
		requireProbing(t, h[0])
	})
}

// The connection is lost at one side a while before the other side notices.
func TestOldConversationThatEndsLateDoesNotOrphanTheSession(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, _ *net, h []*node) {
		a := h[1].onlyAnswer()
		kept := h[1].k.Reconcile("h0", &exchange.Held{Sessions: []uint64{a.session}})
		require.Equal(t, []uint64{a.session}, kept)
		h[1].k.Ended("h0", []uint64{a.session})
		require.Zero(t, h[1].onlyAnswer().orphan, "the newer conversation goes on")
		h[1].k.Ended("h0", []uint64{a.session})
		require.NotZero(t, h[1].onlyAnswer().orphan)
		h[1].k.Ended("h0", []uint64{a.session})
		require.Equal(t, []uint64{a.session}, h[1].k.Reconcile("h0", nil), "a host of an older release keeps all")
		require.Zero(t, h[1].onlyAnswer().orphan)
	})
}

// onlyAnswer returns the one answer of the host's port.
func (h *node) onlyAnswer() (only answer) {
	h.t.Helper()
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	n := 0
	for _, a := range h.k.find("d0", 1).answers {
		if a != nil {
			n++
			only = *a
		}
	}
	require.Equal(h.t, 1, n)
	return only
}

func TestSessionThatHostDoesNotNameEnds(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, _ *net, h []*node) {
		a := h[1].onlyAnswer()
		other := a.offer.Port.Epoch + 1
		require.Empty(t, h[1].k.Reconcile("h0", &exchange.Held{Epochs: []uint64{other}}), "another process of the same host")
		pass(time.Second)
		require.False(t, h[1].onlyAnswer().over)
		require.Empty(t, h[1].k.Reconcile("h0", &exchange.Held{Epochs: []uint64{a.offer.Port.Epoch}}))
		require.True(t, h[1].onlyAnswer().over)
		_, lacking := h[1].k.States("h0", []uint64{a.session})
		require.Equal(t, []uint64{a.session}, lacking)
		pass(30 * time.Second)
		require.Empty(t, h[0].said("h1"), "the pair is met again before its silence says anything")
		requireProbing(t, h[0])
		require.NotEqual(t, a.session, h[1].onlyAnswer().session)
	})
}

// The peer's list lacks this host for some seconds, as while a file is written in two steps.
func TestPeerThatListsHostAgainIsMetAgain(t *testing.T) {
	for name, talking := range map[string]bool{"while they talk": true, "while they do not": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
				if !talking {
					n.hangUp("h1")
					pass(5 * time.Minute)
					n.do(func() { n.hungUp["h1"] = false })
				}
				h[1].k.SetList(n.parse("h1 g0\nh2 g0\n"))
				h[1].drop() // as Server.Relisted does
				pass(6 * time.Second)
				h[1].k.SetList(n.parse(n.list))
				pass(3 * time.Minute)
				for _, said := range h[0].said("h1") {
					require.Contains(t, []string{"not_listed", "starting", "ok"}, said)
				}
				requireProbing(t, h[0])
			})
		})
	}
}

func TestHostThatRefusesIsProbedNoMore(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		h[1].k.SetList(n.parse("h1 g0\nh2 g0\n"))
		h[1].drop()
		pass(10 * time.Second)
		require.Equal(t, []string{"not_listed"}, h[0].said("h1"))
		sent := h[0].port().Sent
		pass(time.Minute)
		require.Equal(t, sent, h[0].port().Sent)
		h[0].mu.Lock()
		defer h[0].mu.Unlock()
		for _, p := range h[0].joined {
			require.NotEqual(t, verbs.FabricProbes, p.Role, "the worker goes on probing")
		}
	})
}

// A peer that is started again with another key, or with a certificate that is not valid any more, says so.
func TestPeerWithAnotherKeyIsNotDown(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.do(func() { n.refuses["h1"] = exchange.ErrKey })
		h[1].drop()
		h[1].renew()
		pass(10 * time.Minute)
		require.Equal(t, []string{"key"}, h[0].said("h1"))
		n.do(func() { delete(n.refuses, "h1") })
		pass(2 * time.Minute)
		require.Equal(t, []string{"starting", "ok"}, h[0].said("h1"))
	})
}

// While keys differ, a pair that has met goes on. If its link is cut then, a restart of the peer would look the same.
func TestPairGoesOnWhileKeysDiffer(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.do(func() { n.refuses["h1"] = exchange.ErrKey })
		h[1].drop()
		pass(20 * time.Minute)
		require.Empty(t, h[0].said("h1"))
		n.do(func() { n.cut[[2]string{"h0", "h1"}] = true })
		pass(10 * time.Second)
		require.Equal(t, []string{"key"}, h[0].said("h1"))
	})
}

func TestSilentPairIsMetAgainAsSoonAsThePeerIsReached(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.hangUp("h1")
		pass(30 * time.Minute) // by now a minute lies between two attempts
		n.do(func() { n.hungUp["h1"] = false })
		h[1].k.Leave("h0", h[1].onlyAnswer().session)
		pass(5 * time.Second)
		require.Empty(t, h[0].said("h1"))
		requireProbing(t, h[0])
	})
}

func TestWorkersThatRestartLeaveNoAnswersBehind(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, _ *net, h []*node) {
		for range 2 * maxAnswers {
			h[0].close("its worker has ended")
			pass(time.Second)
			h[0].renew()
			pass(5 * time.Second)
			h[1].onlyAnswer()
		}
		require.NotContains(t, h[0].said("h1"), "full")
		requireProbing(t, h[0])
	})
}

func TestOrphanEndsAfterItsHostIsSilent(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.hangUp("h1")
		n.do(func() { n.cut[[2]string{"h0", "h1"}] = true })
		pass(9 * time.Minute)
		h[1].onlyAnswer()
		pass(3 * time.Minute)
		h[1].k.mu.Lock()
		defer h[1].k.mu.Unlock()
		require.Equal(t, [maxAnswers]*answer{}, h[1].k.find("d0", 1).answers)
	})
}

func TestPlaceOfLiveOrphanIsNotGivenAway(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.hangUp("h1")
		pass(5 * time.Minute) // its probes go on
		p := h[1].k.find("d0", 1)
		own := h[1].onlyAnswer()
		h[1].k.mu.Lock()
		defer h[1].k.mu.Unlock()
		now := h[1].k.cfg.Mono()
		for slot, a := range p.answers {
			if a == nil {
				silent := own
				silent.host, silent.orphan, silent.heard = "h2", now-int64(slot+1)*int64(time.Second), 0
				p.answers[slot] = &silent
			}
		}
		o := &exchange.Offer{Port: exchange.Port{Device: "d0"}}
		o.Port.Epoch = 4711
		require.Equal(t, -1, p.freeFor("h3", o))
		p.answers[7].orphan = now - int64(4*time.Minute)
		p.answers[9].orphan = now - int64(3*time.Minute)
		require.Equal(t, 7, p.freeFor("h3", o))
	})
}

func TestDeviceThatRefusesEveryProbeIsNotOK(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, _ *net, h []*node) {
		h[0].mu.Lock()
		h[0].unsent = "ENOMEM"
		h[0].mu.Unlock()
		pass(10 * time.Minute)
		said := h[0].said("h1")
		require.Equal(t, "failed", said[0])
		require.NotContains(t, said, "ok")
		require.Zero(t, h[0].port().PairsBad)
		h[0].mu.Lock()
		orders := len(h[0].orders)
		h[0].unsent = ""
		h[0].mu.Unlock()
		require.Less(t, orders, 60, "it is tried again once a minute")
		pass(2 * time.Minute)
		require.Equal(t, "ok", h[0].said("h1")[1])
		requireProbing(t, h[0])
	})
}

// The answer of a process that refuses proves that it is there, and nothing about the network.
func TestHostThatRefusesItsStateIsNotDown(t *testing.T) {
	for why, err := range map[string]error{"not_listed": exchange.ErrNotListed, "version": exchange.ErrVersion, "key": exchange.ErrKey} {
		t.Run(why, func(t *testing.T) {
			bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
				n.do(func() { n.refuses["h1"] = fmt.Errorf("ask: %w", err) })
				n.do(func() { n.cut[[2]string{"h0", "h1"}] = true })
				pass(10 * time.Second)
				require.Equal(t, []string{why}, h[0].said("h1"))
			})
		})
	}
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.do(func() { n.refuses["h1"] = errors.New("the connection is reset") })
		n.do(func() { n.cut[[2]string{"h0", "h1"}] = true })
		pass(10 * time.Second)
		require.Equal(t, []string{"peer_down"}, h[0].said("h1"))
	})
}

// The queue pair of the writes is broken, and the peer cannot be reached by any address of its port any more.
func TestPairThatCannotBeMetAgainEnds(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		p := h[1].k.find("d0", 1)
		h[1].k.mu.Lock()
		p.info.GIDs = []verbs.FabricGID{{Raw: [16]byte{0: 0x20, 15: 1}}}
		h[1].k.mu.Unlock()
		n.do(func() { n.writesLost = true })
		pass(5 * time.Minute)
		said := h[0].said("h1")
		require.Equal(t, "no_common_gid", said[len(said)-1])
	})
}
