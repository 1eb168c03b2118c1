package pairs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
)

// addPort adds the port of another device to a host. That device only answers.
func (h *fakeHost) addPort(device string, epoch uint64) {
	h.k.HandlePortState(device, 1, verbs.PortActive, 0)
	h.k.HandlePort(device, &verbs.FabricPort{
		Port: 1, Epoch: epoch, LinkLayer: verbs.LinkEthernet, PKey: 0xffff, UD: []uint32{11, 12, 13, 14}, QKey: 7,
		GIDs: []verbs.FabricGID{{Index: 1, Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: h.last}}},
	}, 0)
}

func TestDeviceThatHangsDoesNotDelayOtherDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, hostList(2, 2))
		a := n.startHost("h0")
		a.mu.Lock()
		a.hangs = "d1"
		a.mu.Unlock()
		a.addPort("d1", 88)
		b := n.startHost("h1")
		b.addPort("d1", 77)
		for range 10 {
			passTime(30 * time.Second)
			restartFabric(b)
			passTime(5 * time.Second)
			view := a.k.Views()[0]
			require.Equal(t, "d0", view.Device)
			require.Equal(t, verdict.VerdictOK, view.Verdict, "it is met within seconds, while an order of d1 takes 15 s")
		}
	})
}

func (h *fakeHost) setHangs(device string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hangs = device
}

// startTwoHostsOfTwoDevices starts two hosts and waits until both their devices have met.
func startTwoHostsOfTwoDevices(t *testing.T) (a, b *fakeHost) {
	n := newFakeNetwork(t, hostList(2, 2))
	a, b = n.startHost("h0"), n.startHost("h1")
	a.addPort("d1", 88)
	b.addPort("d1", 77)
	passTime(30 * time.Second)
	for _, h := range []*fakeHost{a, b} {
		require.Len(t, h.sessionsOf("d1"), 2, "one end of each direction")
	}
	return a, b
}

// sessionsOf returns the sessions of a device other than the host's own that its worker has.
func (h *fakeHost) sessionsOf(device string) (all []uint64) {
	require.NotEqual(h.t, h.device, device)
	h.mu.Lock()
	defer h.mu.Unlock()
	for place, peer := range h.joined {
		if place >= otherDevices {
			all = append(all, peer.Session)
		}
	}
	return all
}

// The device hangs while it answers a peer. The peer ends the session of that device and connects its other device again.
func TestDeviceThatHangsWhileItAnswersDoesNotDelayOtherDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := startTwoHostsOfTwoDevices(t)
		a.setHangs("d1")
		b.addPort("d1", 78)
		restartFabric(b)
		passTime(5 * time.Second)
		view := b.k.Views()[0]
		require.Equal(t, "d0", view.Device)
		require.Equal(t, verdict.VerdictOK, view.Verdict, "the offer of d0 does not wait for d1")
	})
}

// The worker of one device ends its pair at once although another device hangs.
func TestDeviceThatHangsDoesNotDelayTheEndOfOtherPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := startTwoHostsOfTwoDevices(t)
		a.setHangs("d0")
		b.k.SetList(a.parseList("h1 g0\nh2 g0\n"))
		b.dropConversations()
		passTime(5 * time.Second)
		require.Empty(t, a.sessionsOf("d1"), "neither end waits for d0")
	})
}

// All slots are taken, and the worker is just ending one of them.
func TestOfferWaitsForASlotThatIsBeingFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, hostList(2, 2))
		b := n.startHost("h1")
		offer := func(session uint64) verdict.Reason {
			o := exchange.Offer{Session: session, RC: 100, PSN: 1, Devices: []string{"d0"}}
			o.Port = b.k.portForPeers(b.k.findPort("d0", 1))
			o.Port.Epoch = 500 + session
			return b.k.AnswerOffer(t.Context(), "h0", o).Reason
		}
		for i := range uint64(maxResponders) {
			require.Equal(t, verdict.ReasonNone, offer(1+i))
		}
		require.Equal(t, verdict.ReasonFull, offer(100))
		b.setHangs("d0")
		b.k.Leave("h0", 7)
		passTime(time.Second)
		began := time.Now()
		require.Equal(t, verdict.ReasonFull, offer(101), "the peer waits no longer")
		require.Equal(t, offerTimeout, time.Since(began))
		passTime(6 * time.Second)
		b.setHangs("")
		require.Equal(t, verdict.ReasonNone, offer(102))
		require.Equal(t, orderTimeout, time.Since(began)+time.Second)
	})
}

// restartFabric replaces the Fabric of a host's port, so that all its pairs have to be reconnected.
func restartFabric(h *fakeHost) {
	h.closeFabric("its worker has ended")
	h.renewFabric()
}

func TestPositionCountsIfHostsShareNoDeviceName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, hostList(2, 2))
		b := n.startHost("h1")
		b.addPort("d2", 77)
		meet := func(device string, position int, devices ...string) string {
			o := exchange.Offer{Session: uint64(position + 1), RC: 100, PSN: 1, Devices: devices}
			o.Port = b.k.portForPeers(b.k.findPort("d0", 1))
			o.Port.Device, o.Port.Position, o.Port.Epoch = device, position, uint64(500+position)
			a := b.k.AnswerOffer(t.Context(), "h0", o)
			return a.Port.Device + string(a.Reason)
		}
		require.Equal(t, "unsupported", meet("d1", 1, "d0", "d1", "d2"), "d2 meets the other d2")
		require.Equal(t, "unsupported", meet("e0", 0, "d0", "e0"))
		require.Equal(t, "d2", meet("d2", 2, "d0", "d1", "d2"))
		require.Equal(t, "unsupported", meet("d1", 1), "an older release names one device at a time")
		b.k.Leave("h0", 3)
		require.Equal(t, "d2", meet("e1", 1, "e0", "e1"))
		require.Equal(t, "unsupported", meet("e2", 2, "e0", "e1", "e2"))
	})
}

// A host that runs an older release uses the first GID of each kind. Both ends have to choose the same GIDs.
func TestPortsOfSeveralNetworksMeetAsTheOlderReleaseDoes(t *testing.T) {
	gid := func(index int, network byte, host byte) verbs.FabricGID {
		return verbs.FabricGID{Index: index, Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: network, 15: host}}
	}
	port := func(gids ...verbs.FabricGID) *verbs.FabricPort {
		return &verbs.FabricPort{Port: 1, LinkLayer: verbs.LinkEthernet, UD: []uint32{1}, GIDs: gids}
	}
	own, peer := port(gid(1, 1, 1), gid(2, 2, 1)), port(gid(3, 2, 2), gid(4, 1, 2))
	for older, want := range map[bool][]any{false: {1, gid(4, 1, 2).Raw}, true: {1, gid(3, 2, 2).Raw}} {
		p, why := addressPeer(own, peer, false, older)
		require.Empty(t, why)
		require.Equal(t, want, []any{p.GIDIndex, p.GID}, "older: %v", older)
		back, _ := addressPeer(peer, own, true, older)
		require.Equal(t, own.GIDs[0].Raw, back.GID, "older: %v", older)
	}
}

func TestPairMadeByPositionIsRemadeByName(t *testing.T) {
	for name, talking := range map[string]bool{"while they talk": true, "while they do not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNetwork(t, hostList(2, 2))
				a, b := n.startHost("h0"), n.startHost("h1")
				b.k.HandleDeviceGone("d0")
				b.mu.Lock()
				b.device = "d1"
				b.mu.Unlock()
				b.k.HandlePortState("d1", 1, verbs.PortActive, 0)
				b.renewFabric()
				passTime(30 * time.Second)
				require.Equal(t, "d1", a.k.Views()[0].PeerDevice)
				require.Equal(t, "d0", b.k.Views()[0].PeerDevice, "both are alone")
				a.takeVerdicts("h1")

				if !talking {
					n.disconnect("h1")
					passTime(5 * time.Minute)
				}
				b.addPort("d0", 77) // its worker is ready later
				passTime(time.Second)
				n.locked(func() { n.unreachable["h1"] = false })
				passTime(5 * time.Minute)
				require.Equal(t, "d0", a.k.Views()[0].PeerDevice)
				require.NotContains(t, a.takeVerdicts("h1"), "path")
				requireProbing(t, a)
				for _, v := range b.k.Views() {
					if v.Device == "d1" {
						require.Equal(t, verdict.ReasonUnsupported, v.Reason, "the device of h0 belongs to the other d0")
					}
				}
				missed := int64(-1)
				for p := range measure.OfType[*measure.FabricPort](b.k.Points(time.Now())) {
					if p.Device == "d1" {
						missed = p.Pairs
					}
				}
				require.Zero(t, missed, "and is not missed")
			})
		})
	}
}

// The peer has renamed the connected device, or lost it, and may have another one that matches.
func TestPeerWithoutTheConnectedDeviceIsOfferedAnotherPair(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		offers := n.offers
		k := h[0].k
		k.mu.Lock()
		for _, pr := range k.ports[0].pairs {
			if pr != nil {
				pr.applyState(&exchange.State{})
			}
		}
		k.mu.Unlock()
		passTime(5 * time.Second)
		require.Equal(t, offers+1, n.offers)
		require.Equal(t, verdict.VerdictOK, k.Views()[0].Verdict)
	})
}

// Sends do not complete, as in a storm of pause frames, until the queue is full and takes no more of them.
func TestOwnLinkStaysTheVerdictWhenTheSendQueueIsFull(t *testing.T) {
	runInBubble(t, 5, 5, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		for _, o := range h[1:] {
			n.cutHosts("h0", o.name, true)
		}
		passTime(3 * time.Second)
		require.EqualValues(t, verdict.VerdictOwnLink, h[0].portPoint().Verdict)
		h[0].mu.Lock()
		h[0].unsent = "ENOMEM"
		h[0].mu.Unlock()
		passTime(5 * time.Minute)
		require.EqualValues(t, verdict.VerdictOwnLink, h[0].portPoint().Verdict)
		require.EqualValues(t, 4, h[0].portPoint().PairsMet)
	})
}
