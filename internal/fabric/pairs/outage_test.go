package pairs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/verdict"
)

// cutHosts loses all RDMA packets between two hosts, or none any more.
func (n *net) cutHosts(a, b string, cut bool) {
	n.do(func() { n.cut[[2]string{a, b}], n.cut[[2]string{b, a}] = cut, cut })
}

// hangUpBoth ends the conversations of two hosts, which reach each other by TCP no more, or again.
func (n *net) hangUpBoth(up bool) {
	if up {
		n.do(func() { n.hungUp["h0"], n.hungUp["h1"] = false, false })
		return
	}
	n.hangUp("h0")
	n.hangUp("h1")
}

// requireVerdict requires what the host says of its one pair now.
func (h *node) requireVerdict(want verdict.Verdict) {
	h.t.Helper()
	views := h.k.Views()
	require.Len(h.t, views, 1)
	require.Equal(h.t, want, views[0].Verdict)
	require.Empty(h.t, views[0].Reason)
}

// The queue pair of the writes breaks while the hosts cannot talk, without which it is not connected anew. That the writes are missing is
// the fault of the management network.
func TestBrokenWriteOfHostsThatCannotTalkIsNotPartial(t *testing.T) {
	for name, lose := range map[string]func(n *net, lost bool){
		"packets": func(n *net, lost bool) { n.cutHosts("h0", "h1", lost) },
		"writes":  func(n *net, lost bool) { n.do(func() { n.writesLost = lost }) },
	} {
		t.Run(name+" are lost for a moment", func(t *testing.T) {
			bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
				n.hangUpBoth(false)
				pass(30 * time.Second)
				lose(n, true)
				pass(time.Second)
				lose(n, false)
				pass(5 * time.Minute)
				require.Positive(t, h[0].port().WriteErrors)
				require.Zero(t, h[0].port().Reconnects)
				for i, peer := range []string{"h1", "h0"} {
					require.NotContains(t, h[i].said(peer), "partial")
					h[i].requireVerdict(verdict.VerdictOK)
				}

				n.hangUpBoth(true)
				pass(2 * time.Minute)
				require.Empty(t, h[0].said("h1"))
				require.EqualValues(t, 1, h[0].port().Reconnects)
				requireProbing(t, h[0])
			})
		})
	}
}

func TestPathEndsOnceEchoesComeThoughHostsCannotTalk(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.cutHosts("h0", "h1", true)
		pass(3 * time.Second)
		require.Equal(t, []string{"path"}, h[0].said("h1"))
		n.hangUpBoth(false)
		pass(30 * time.Second)
		require.Empty(t, h[0].said("h1"))
		n.cutHosts("h0", "h1", false)
		pass(20 * time.Second)
		require.Equal(t, []string{"ok"}, h[0].said("h1"))
		require.Zero(t, h[0].port().Reconnects)

		n.hangUpBoth(true)
		pass(2 * time.Minute)
		require.Empty(t, h[0].said("h1"))
		requireProbing(t, h[0])
	})
}

// A write that is refused although the hosts talk is still named.
func TestWriteThatIsRefusedAfterAnOutageIsPartial(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.hangUpBoth(false)
		pass(30 * time.Second)
		n.do(func() { n.writesLost = true })
		n.hangUpBoth(true)
		pass(5 * time.Minute)
		require.Equal(t, []string{"partial"}, h[0].said("h1"))
	})
}

func TestPathIsNamedThoughManagementNetworkIsSlow(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, n *net, h []*node) {
		n.do(func() { n.roundTrip = 2 * time.Second })
		n.cutHosts("h0", "h1", true)
		pass(2 * time.Second)
		require.Equal(t, []string{"peer_down"}, h[0].said("h1"), "until the process has answered")
		pass(18 * time.Second)
		require.Equal(t, []string{"path"}, h[0].said("h1"))
	})
}
