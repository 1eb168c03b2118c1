package peers

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/simulated/devices"
)

// newPeer loads a world with a scenario, and returns the Peer of a host in it. It needs a synctest bubble.
func newPeer(t *testing.T, profile, scenario, host string) (exchange.Peer, *devices.World) {
	t.Helper()
	w := loadWorld(t, devices.Options{Profile: profile, Timeline: scenario + "\n", Seed: 1})
	p, err := New(w).Peer(pinglist.Host{Name: host, Group: "g", Address: "192.0.2.1"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, w
}

func timeoutContext(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustConverse(t *testing.T, p exchange.Peer) exchange.Conversation {
	t.Helper()
	c, err := p.Converse(timeoutContext(t, time.Second), "0123")
	require.NoError(t, err)
	return c
}

// newOffer returns the offer of a port of this host.
func newOffer(w *devices.World, device string, session uint64) exchange.Offer {
	for _, q := range w.Peer("own").Ports(w.Now()) {
		if q.Device == device {
			return exchange.Offer{Session: session, Port: exchange.Port{Device: device, Position: q.Position, FabricPort: q.FabricPort}}
		}
	}
	return exchange.Offer{}
}

func TestAHostAnswersWithTheSameNumbersInEveryProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all [2]exchange.Answer
		for i := range all {
			p, w := newPeer(t, "roce2", "", "b")
			c := mustConverse(t, p)
			require.Equal(t, "0123", c.Digest())
			var err error
			all[i], err = c.Offer(timeoutContext(t, time.Second), newOffer(w, "sim1", 9))
			require.NoError(t, err)
			require.NoError(t, c.Leave(9))
		}
		require.Equal(t, all[0], all[1])
		a := all[0]
		require.Empty(t, a.Reason)
		require.Equal(t, "sim1", a.Port.Device)
		require.Equal(t, 1, a.Port.Position)
		require.Len(t, a.Port.UD, 4)
		require.Zero(t, a.Port.QKey>>31)
		require.Less(t, a.RC, uint32(1<<24))
		require.Less(t, a.PSN, uint32(1<<24))
		require.NotZero(t, a.Port.Epoch)
		require.Len(t, a.Port.GIDs, 2)
	})
}

func TestHostsAndDevicesHaveAddressesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, profile := range []string{"fleet12", "ib8"} {
			_, w := newPeer(t, profile, "", "b")
			gids, lids := map[[16]byte]bool{}, map[int]bool{}
			for _, host := range []string{"a", "b", "c"} {
				for i, q := range w.Peer(host).Ports(w.Now()) {
					require.Equal(t, i, q.Position)
					for _, g := range q.GIDs {
						require.False(t, gids[g.Raw], "%s %s", host, q.Device)
						gids[g.Raw] = true
					}
					require.Equal(t, q.LinkLayer == verbs.LinkInfiniBand, q.LID > 0)
					lids[q.LID] = true
				}
			}
			if profile == "ib8" {
				require.Len(t, lids, 24)
			}
		}
	})
}

func TestAHostRefusesForTheReasonOfTheScenario(t *testing.T) {
	for reason, want := range map[string]error{"key": exchange.ErrKey, "not_listed": exchange.ErrNotListed, "version": exchange.ErrVersion} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := newPeer(t, "roce2", `peer = [{host = "b", for = "5s", what = "refuses", reason = "`+reason+`"}]`, "b")
				_, err := p.Converse(timeoutContext(t, time.Second), "")
				require.ErrorIs(t, err, want)
				require.ErrorContains(t, err, "greet b: ")
				_, err = p.State(timeoutContext(t, time.Second), nil)
				require.NoError(t, err)
				time.Sleep(5 * time.Second)
				mustConverse(t, p)
			})
		})
	}
	for _, reason := range []verdict.Reason{
		verdict.ReasonFull, verdict.ReasonNoCommonGID, verdict.ReasonPKey, verdict.ReasonUnsupported,
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w := newPeer(t, "roce2", `peer = [{what = "refuses", device = "sim1", reason = "`+string(reason)+`"}]`, "b")
				c := mustConverse(t, p)
				for device, want := range map[string]verdict.Reason{"sim0": "", "sim1": reason} {
					a, err := c.Offer(timeoutContext(t, time.Second), newOffer(w, device, 1))
					require.NoError(t, err)
					require.Equal(t, want, a.Reason, device)
				}
			})
		})
	}
}

func TestAPortMeetsThatOfItsNameElseOfItsPositionElseNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := newPeer(t, "dual", `peer = [{at = "1s", what = "inactive", port = 2}]`, "b")
		c := mustConverse(t, p)
		ask := func(change func(*exchange.Offer)) exchange.Answer {
			o := newOffer(w, "sim0", 1)
			change(&o)
			a, err := c.Offer(timeoutContext(t, time.Second), o)
			require.NoError(t, err)
			return a
		}
		require.Equal(t, "sim0", ask(func(*exchange.Offer) {}).Port.Device)
		require.Equal(t, "sim0", ask(func(o *exchange.Offer) { o.Port.Device = "mlx5_0" }).Port.Device)
		require.Len(t, ask(func(o *exchange.Offer) { o.Port.UD = o.Port.UD[:2] }).Port.UD, 2)
		for _, change := range []func(*exchange.Offer){
			func(o *exchange.Offer) { o.Port.Device, o.Port.Position = "mlx5_0", 7 },
			func(o *exchange.Offer) { o.Port.Port = 3 },
			func(o *exchange.Offer) { o.Port.LinkLayer = verbs.LinkEthernet },
		} {
			require.Equal(t, verdict.ReasonUnsupported, ask(change).Reason)
		}
		require.Equal(t, verdict.ReasonPKey, ask(func(o *exchange.Offer) { o.Port.PKey = 0x8001 }).Reason)
		time.Sleep(2 * time.Second)
		second := func(o *exchange.Offer) { o.Port.Port, o.Port.LinkLayer = 2, verbs.LinkEthernet }
		require.Equal(t, verdict.ReasonNotActive, ask(second).Reason)
	})
}

func TestAHostTellsOfItsPortsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := newPeer(t, "roce2", `peer = [{at = "1s", for = "1s", what = "restarts", device = "sim1"}, {host = "c", at = "3s", what = "inactive"},
			{host = "b", at = "5s", for = "1s", what = "inactive", device = "sim0"}, {at = "4500ms", for = "4s", what = "stopped"}]`, "b")
		c := mustConverse(t, p)
		before := w.Peer("b").Ports(w.Now())
		began := time.Now()
		next := func(want time.Duration) exchange.Change {
			t.Helper()
			change := <-c.Changes()
			require.Equal(t, want, time.Since(began))
			return change
		}
		require.Equal(t, exchange.Change{Device: "sim1", Port: 1}, next(time.Second))
		again := next(2 * time.Second)
		require.NotZero(t, again.Epoch)
		require.NotEqual(t, before[1].Epoch, again.Epoch)
		require.Equal(t, exchange.Change{Device: "sim0", Port: 1}, next(8500*time.Millisecond), "it was stopped")
		require.NotZero(t, next(8500*time.Millisecond).Epoch)
		state, err := p.State(timeoutContext(t, time.Second), nil)
		require.NoError(t, err)
		require.Equal(t, again.Epoch, state.Ports[1].Epoch)
		require.Equal(t, verbs.PortActive, state.Ports[0].State)
	})
}

func TestAHostThatGoesDownEndsItsConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := newPeer(t, "roce2", `peer = [{at = "1s", for = "10s", what = "down"}]`, "b")
		c := mustConverse(t, p)
		require.NoError(t, c.Err())
		_, ok := <-c.Changes()
		require.False(t, ok)
		require.ErrorIs(t, c.Err(), errReset)
		_, err := c.Offer(timeoutContext(t, time.Second), newOffer(w, "sim0", 1))
		require.ErrorIs(t, err, errReset)
		require.ErrorIs(t, c.Leave(1), errReset)
		_, err = p.Converse(timeoutContext(t, time.Second), "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = p.State(timeoutContext(t, time.Second), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = p.State(timeoutContext(t, time.Minute), nil)
		require.NoError(t, err, "it is back")
		require.NoError(t, c.Close())
	})
}

func TestWhoAsksAStoppedHostWaitsUntilItGoesOnOrItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := newPeer(t, "roce2", `peer = [{at = "1s", for = "4s", what = "stopped"}, {at = "10s", what = "stopped"}]`, "b")
		c := mustConverse(t, p)
		time.Sleep(2 * time.Second)
		began := time.Now()
		_, err := c.Offer(timeoutContext(t, time.Second), newOffer(w, "sim0", 1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		a, err := c.Offer(timeoutContext(t, time.Minute), newOffer(w, "sim0", 1))
		require.NoError(t, err)
		require.Empty(t, a.Reason)
		require.Equal(t, 3*time.Second, time.Since(began))

		time.Sleep(6 * time.Second)
		time.AfterFunc(time.Second, func() { require.NoError(t, c.Close()) })
		_, err = c.Offer(t.Context(), newOffer(w, "sim0", 1))
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, c.Err(), net.ErrClosed)
		time.AfterFunc(time.Second, func() { require.NoError(t, p.Close()) })
		_, err = p.State(t.Context(), nil)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = p.Converse(t.Context(), "")
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestClosingAPeerEndsItsConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPeer(t, "roce2", `peer = [{at = "1h", what = "down"}]`, "b")
		c := mustConverse(t, p)
		require.NoError(t, p.Close())
		_, ok := <-c.Changes()
		require.False(t, ok)
		require.ErrorIs(t, c.Err(), net.ErrClosed)
	})
}

func TestChangesThatNobodyReadsEndTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPeer(t, "roce2", `peer = [{every = "2ms", for = "1ms", what = "restarts"}]`, "b")
		c := mustConverse(t, p)
		time.Sleep(time.Second)
		require.ErrorIs(t, c.Err(), errChangesNotRead)
	})
}
