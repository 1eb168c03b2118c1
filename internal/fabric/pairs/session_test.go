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

// runInBubbleOfReleases runs a test with two connected hosts for each combination of releases.
func runInBubbleOfReleases(t *testing.T, test func(t *testing.T, n *fakeNetwork, h []*fakeHost)) {
	for _, older := range [][]bool{{false, false}, {true, false}, {false, true}} {
		t.Run(fmt.Sprintf("older releases: %v", older), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNetwork(t, hostList(2, 2))
				var h []*fakeHost
				for i := range older {
					h = append(h, n.startHostOfRelease(fmt.Sprintf("h%d", i), older[i]))
				}
				passTime(15 * time.Second)
				requireProbing(t, h[0])
				h[0].takeVerdicts("h1")
				test(t, n, h)
			})
		})
	}
}

// requireProbing requires that the only pair of a host is ok and that its probes are answered.
func requireProbing(t *testing.T, h *fakeHost) {
	t.Helper()
	before := h.portPoint()
	require.EqualValues(t, 1, before.PairsMet)
	passTime(10 * time.Second)
	after := h.portPoint()
	require.Greater(t, after.Answered, before.Answered)
	require.Less(t, after.Pending, uint64(3))
	views := h.k.Views()
	require.Len(t, views, 1)
	require.Equal(t, verdict.VerdictOK, views[0].Verdict)
	require.Empty(t, views[0].Reason)
}

func TestLostConnectionDoesNotEndThePair(t *testing.T) {
	runInBubbleOfReleases(t, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		meetings := n.offers
		for range 3 {
			h[1].dropConversations()
			passTime(15 * time.Minute)
		}
		require.Empty(t, h[0].takeVerdicts("h1"))
		if !h[0].older && !h[1].older {
			require.Equal(t, meetings, n.offers, "its session goes on")
		}
		requireProbing(t, h[0])
	})
}

func TestOutageOfManagementNetworkDoesNotEndThePair(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.disconnect("h1")
		passTime(15 * time.Minute)
		require.Empty(t, h[0].takeVerdicts("h1"), "probes go on")
		n.locked(func() { n.unreachable["h1"] = false })
		passTime(30 * time.Minute)
		require.Empty(t, h[0].takeVerdicts("h1"))
		requireProbing(t, h[0])
	})
}

// A host that runs an older release ends its end of a pair ten minutes after losing the conversation, even if it receives probes.
func TestOlderPeerIsNotBlamedAfterOutageOfManagementNetwork(t *testing.T) {
	runInBubbleOfReleases(t, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.disconnect("h1")
		passTime(15 * time.Minute)
		n.locked(func() { n.unreachable["h1"] = false })
		passTime(5 * time.Minute)
		require.NotContains(t, h[0].takeVerdicts("h1"), "path")
		requireProbing(t, h[0])
	})
}

// One side opens a new conversation before the other side notices that the old one has ended.
func TestOldConversationThatEndsLateDoesNotOrphanTheSession(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, _ *fakeNetwork, h []*fakeHost) {
		a := h[1].onlyResponder()
		kept := h[1].k.Reconcile("h0", &exchange.Held{Sessions: []uint64{a.session}})
		require.Equal(t, []uint64{a.session}, kept)
		h[1].k.HandleConversationEnd("h0", []uint64{a.session})
		require.Zero(t, h[1].onlyResponder().orphanSince, "the newer conversation goes on")
		h[1].k.HandleConversationEnd("h0", []uint64{a.session})
		require.NotZero(t, h[1].onlyResponder().orphanSince)
		h[1].k.HandleConversationEnd("h0", []uint64{a.session})
		require.Equal(t, []uint64{a.session}, h[1].k.Reconcile("h0", nil), "a host of an older release keeps all")
		require.Zero(t, h[1].onlyResponder().orphanSince)
	})
}

// onlyResponder returns the only responder of the host's port.
func (h *fakeHost) onlyResponder() (only responder) {
	h.t.Helper()
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	n := 0
	for _, a := range h.k.findPort("d0", 1).responders {
		if a != nil {
			n++
			only = *a
		}
	}
	require.Equal(h.t, 1, n)
	return only
}

func TestSessionThatHostDoesNotNameEnds(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, _ *fakeNetwork, h []*fakeHost) {
		a := h[1].onlyResponder()
		other := a.offer.Port.Epoch + 1
		require.Empty(t, h[1].k.Reconcile("h0", &exchange.Held{Epochs: []uint64{other}}), "another process of the same host")
		passTime(time.Second)
		require.False(t, h[1].onlyResponder().ended)
		require.Empty(t, h[1].k.Reconcile("h0", &exchange.Held{Epochs: []uint64{a.offer.Port.Epoch}}))
		require.True(t, h[1].onlyResponder().ended)
		_, lacking := h[1].k.States("h0", []uint64{a.session})
		require.Equal(t, []uint64{a.session}, lacking)
		passTime(30 * time.Second)
		require.Empty(t, h[0].takeVerdicts("h1"), "the pair is met again before its silence says anything")
		requireProbing(t, h[0])
		require.NotEqual(t, a.session, h[1].onlyResponder().session)
	})
}

// The peer's list lacks this host for some seconds, for example because the file is written in two steps.
func TestPeerThatListsHostAgainIsMetAgain(t *testing.T) {
	for name, talking := range map[string]bool{"while they talk": true, "while they do not": false} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
				if !talking {
					n.disconnect("h1")
					passTime(5 * time.Minute)
					n.locked(func() { n.unreachable["h1"] = false })
				}
				h[1].k.SetList(n.parseList("h1 g0\nh2 g0\n"))
				h[1].dropConversations() // as Server.Relisted does
				passTime(6 * time.Second)
				h[1].k.SetList(n.parseList(n.list))
				passTime(3 * time.Minute)
				for _, said := range h[0].takeVerdicts("h1") {
					require.Contains(t, []string{"not_listed", "starting", "ok"}, said)
				}
				requireProbing(t, h[0])
			})
		})
	}
}

func TestHostThatRefusesIsProbedNoMore(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		h[1].k.SetList(n.parseList("h1 g0\nh2 g0\n"))
		h[1].dropConversations()
		passTime(10 * time.Second)
		require.Equal(t, []string{"not_listed"}, h[0].takeVerdicts("h1"))
		sent := h[0].portPoint().Sent
		passTime(time.Minute)
		require.Equal(t, sent, h[0].portPoint().Sent)
		h[0].mu.Lock()
		defer h[0].mu.Unlock()
		for _, p := range h[0].joined {
			require.NotEqual(t, verbs.FabricProbes, p.Role, "the worker goes on probing")
		}
	})
}

// A peer that restarts with another key or an invalid certificate gets the reason key.
func TestPeerWithAnotherKeyIsNotDown(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() { n.refuses["h1"] = exchange.ErrKey })
		h[1].dropConversations()
		h[1].renewFabric()
		passTime(10 * time.Minute)
		require.Equal(t, []string{"key"}, h[0].takeVerdicts("h1"))
		n.locked(func() { delete(n.refuses, "h1") })
		passTime(2 * time.Minute)
		require.Equal(t, []string{"starting", "ok"}, h[0].takeVerdicts("h1"))
	})
}

// A connected pair continues while the keys differ. A cut link is then indistinguishable from a restart of the peer.
func TestPairGoesOnWhileKeysDiffer(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() { n.refuses["h1"] = exchange.ErrKey })
		h[1].dropConversations()
		passTime(20 * time.Minute)
		require.Empty(t, h[0].takeVerdicts("h1"))
		n.locked(func() { n.cut[[2]string{"h0", "h1"}] = true })
		passTime(10 * time.Second)
		require.Equal(t, []string{"key"}, h[0].takeVerdicts("h1"))
	})
}

func TestSilentPairIsMetAgainAsSoonAsThePeerIsReached(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.disconnect("h1")
		passTime(30 * time.Minute) // the retry delay has grown to a minute
		n.locked(func() { n.unreachable["h1"] = false })
		h[1].k.Leave("h0", h[1].onlyResponder().session)
		passTime(5 * time.Second)
		require.Empty(t, h[0].takeVerdicts("h1"))
		requireProbing(t, h[0])
	})
}

func TestWorkersThatRestartLeaveNoAnswersBehind(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, _ *fakeNetwork, h []*fakeHost) {
		for range 2 * maxResponders {
			h[0].closeFabric("its worker has ended")
			passTime(time.Second)
			h[0].renewFabric()
			passTime(5 * time.Second)
			h[1].onlyResponder()
		}
		require.NotContains(t, h[0].takeVerdicts("h1"), "full")
		requireProbing(t, h[0])
	})
}

func TestOrphanEndsAfterItsHostIsSilent(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.disconnect("h1")
		n.locked(func() { n.cut[[2]string{"h0", "h1"}] = true })
		passTime(9 * time.Minute)
		h[1].onlyResponder()
		passTime(3 * time.Minute)
		h[1].k.mu.Lock()
		defer h[1].k.mu.Unlock()
		require.Equal(t, [maxResponders]*responder{}, h[1].k.findPort("d0", 1).responders)
	})
}

func TestPlaceOfLiveOrphanIsNotGivenAway(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.disconnect("h1")
		passTime(5 * time.Minute) // its probes go on
		p := h[1].k.findPort("d0", 1)
		own := h[1].onlyResponder()
		h[1].k.mu.Lock()
		defer h[1].k.mu.Unlock()
		now := h[1].k.cfg.Mono()
		for slot, a := range p.responders {
			if a == nil {
				silent := own
				silent.host, silent.orphanSince, silent.lastEcho = "h2", now-int64(slot+1)*int64(time.Second), 0
				p.responders[slot] = &silent
			}
		}
		o := &exchange.Offer{Port: exchange.Port{Device: "d0"}}
		o.Port.Epoch = 4711
		require.Equal(t, -1, p.findSlot("h3", o))
		p.responders[7].orphanSince = now - int64(4*time.Minute)
		p.responders[9].orphanSince = now - int64(3*time.Minute)
		require.Equal(t, 7, p.findSlot("h3", o))
	})
}

func TestDeviceThatRefusesEveryProbeIsNotOK(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, _ *fakeNetwork, h []*fakeHost) {
		h[0].mu.Lock()
		h[0].unsent = "ENOMEM"
		h[0].mu.Unlock()
		passTime(10 * time.Minute)
		said := h[0].takeVerdicts("h1")
		require.Equal(t, "failed", said[0])
		require.NotContains(t, said, "ok")
		require.Zero(t, h[0].portPoint().PairsBad)
		h[0].mu.Lock()
		orders := len(h[0].orders)
		h[0].unsent = ""
		h[0].mu.Unlock()
		require.Less(t, orders, 60, "it is tried again once a minute")
		passTime(2 * time.Minute)
		require.Equal(t, "ok", h[0].takeVerdicts("h1")[1])
		requireProbing(t, h[0])
	})
}

// A refusal proves that the peer's process runs, and nothing about the network.
func TestHostThatRefusesItsStateIsNotDown(t *testing.T) {
	for why, err := range map[string]error{"not_listed": exchange.ErrNotListed, "version": exchange.ErrVersion, "key": exchange.ErrKey} {
		t.Run(why, func(t *testing.T) {
			runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
				n.locked(func() { n.refuses["h1"] = fmt.Errorf("ask: %w", err) })
				n.locked(func() { n.cut[[2]string{"h0", "h1"}] = true })
				passTime(10 * time.Second)
				require.Equal(t, []string{why}, h[0].takeVerdicts("h1"))
			})
		})
	}
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() { n.refuses["h1"] = errors.New("the connection is reset") })
		n.locked(func() { n.cut[[2]string{"h0", "h1"}] = true })
		passTime(10 * time.Second)
		require.Equal(t, []string{"peer_down"}, h[0].takeVerdicts("h1"))
	})
}

// The queue pair of the writes is broken, and no GID of the peer's port can be used any more.
func TestPairThatCannotBeMetAgainEnds(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		p := h[1].k.findPort("d0", 1)
		h[1].k.mu.Lock()
		p.info.GIDs = []verbs.FabricGID{{Raw: [16]byte{0: 0x20, 15: 1}}}
		h[1].k.mu.Unlock()
		n.locked(func() { n.writesLost = true })
		passTime(5 * time.Minute)
		said := h[0].takeVerdicts("h1")
		require.Equal(t, "no_common_gid", said[len(said)-1])
	})
}
