package pairs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/verdict"
)

// cutHosts cuts or restores the RDMA network between two hosts.
func (n *fakeNetwork) cutHosts(a, b string, cut bool) {
	n.locked(func() { n.cut[[2]string{a, b}], n.cut[[2]string{b, a}] = cut, cut })
}

// setTCP connects the two hosts by TCP again, or ends their conversations and prevents new ones.
func (n *fakeNetwork) setTCP(up bool) {
	if up {
		n.locked(func() { n.unreachable["h0"], n.unreachable["h1"] = false, false })
		return
	}
	n.disconnect("h0")
	n.disconnect("h1")
}

// requireVerdict requires that the only pair of the host has a verdict.
func (h *fakeHost) requireVerdict(want verdict.Verdict) {
	h.t.Helper()
	views := h.k.Views()
	require.Len(h.t, views, 1)
	require.Equal(h.t, want, views[0].Verdict)
	require.Empty(h.t, views[0].Reason)
}

// The queue pair of the writes breaks while the hosts have no TCP connection, so that they cannot reconnect it. The missing writes are then
// a fault of the management network.
func TestBrokenWriteOfHostsThatCannotTalkIsNotPartial(t *testing.T) {
	for name, lose := range map[string]func(n *fakeNetwork, lost bool){
		"packets": func(n *fakeNetwork, lost bool) { n.cutHosts("h0", "h1", lost) },
		"writes":  func(n *fakeNetwork, lost bool) { n.locked(func() { n.writesLost = lost }) },
	} {
		t.Run(name+" are lost for a moment", func(t *testing.T) {
			runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
				n.setTCP(false)
				passTime(30 * time.Second)
				lose(n, true)
				passTime(time.Second)
				lose(n, false)
				passTime(5 * time.Minute)
				require.Positive(t, h[0].portPoint().WriteErrors)
				require.Zero(t, h[0].portPoint().Reconnects)
				for i, peer := range []string{"h1", "h0"} {
					require.NotContains(t, h[i].takeVerdicts(peer), "partial")
					h[i].requireVerdict(verdict.VerdictOK)
				}

				n.setTCP(true)
				passTime(2 * time.Minute)
				require.Empty(t, h[0].takeVerdicts("h1"))
				require.EqualValues(t, 1, h[0].portPoint().Reconnects)
				requireProbing(t, h[0])
			})
		})
	}
}

func TestPathEndsOnceEchoesComeThoughHostsCannotTalk(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.cutHosts("h0", "h1", true)
		passTime(3 * time.Second)
		require.Equal(t, []string{"path"}, h[0].takeVerdicts("h1"))
		n.setTCP(false)
		passTime(30 * time.Second)
		require.Empty(t, h[0].takeVerdicts("h1"))
		n.cutHosts("h0", "h1", false)
		passTime(20 * time.Second)
		require.Equal(t, []string{"ok"}, h[0].takeVerdicts("h1"))
		require.Zero(t, h[0].portPoint().Reconnects)

		n.setTCP(true)
		passTime(2 * time.Minute)
		require.Empty(t, h[0].takeVerdicts("h1"))
		requireProbing(t, h[0])
	})
}

// Missing writes are still reported if the hosts have a TCP connection.
func TestWriteThatIsRefusedAfterAnOutageIsPartial(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.setTCP(false)
		passTime(30 * time.Second)
		n.locked(func() { n.writesLost = true })
		n.setTCP(true)
		passTime(5 * time.Minute)
		require.Equal(t, []string{"partial"}, h[0].takeVerdicts("h1"))
	})
}

func TestPathIsNamedThoughManagementNetworkIsSlow(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, n *fakeNetwork, h []*fakeHost) {
		n.locked(func() { n.roundTrip = 2 * time.Second })
		n.cutHosts("h0", "h1", true)
		passTime(2 * time.Second)
		require.Equal(t, []string{"peer_down"}, h[0].takeVerdicts("h1"), "until the process has answered")
		passTime(18 * time.Second)
		require.Equal(t, []string{"path"}, h[0].takeVerdicts("h1"))
	})
}
