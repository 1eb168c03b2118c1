package monitor

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

func gidAt(index int, addr string) verbs.GID {
	return verbs.GID{Index: index, Raw: netip.MustParseAddr(addr).As16(), Type: verbs.GIDRoCEv2, NetDev: "eth0"}
}

func gidTableItem(mono int64, entries ...verbs.GID) verbs.Item {
	return verbs.Item{GIDs: &verbs.GIDTable{Port: 1, Mono: mono, Entries: entries}}
}

func TestAMovedGIDIsEmittedAndCounted(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	local, host := gidAt(0, "fe80::1"), gidAt(3, "::ffff:10.4.0.1")
	h.batch(sup, gidTableItem(10*ms, local, host))
	require.Empty(t, h.sink.takePoints(), "the baseline")
	h.mono.Store(500 * ms)
	h.batch(sup, gidTableItem(100*ms, local), gidTableItem(500*ms, local, gidAt(5, "::ffff:10.4.0.1")))
	items := h.sink.takePoints()
	changes := pointsOf[measure.GIDChange](items)
	require.Len(t, changes, 2)
	require.Equal(t, verbs.GIDRemoved, changes[0].Action)
	require.Equal(t, time.Unix(0, epoch+100*ms), changes[0].At)
	require.Equal(t, measure.GIDChange{
		Device: "mlx5_0", Port: 1, Action: verbs.GIDMoved, GID: gidAt(5, "::ffff:10.4.0.1"), From: 3, To: 5, AwayNS: 400 * ms,
		Changes: 1, At: time.Unix(0, epoch+500*ms),
	}, changes[1])
	v := pointsOf[measure.Port](items)
	require.Len(t, v, 1, "the port's counter is there at once")
	require.EqualValues(t, 1, v[0].GIDMoves)
	require.Equal(t, 2, v[0].GIDs)
	require.EqualValues(t, 1, h.gather().Hosts[0].GIDMoves)
}

// The kernel moves the default GIDs when the MAC address changes. Such moves do not count, since nothing uses these GIDs as addresses.
func TestAMovedLinkLocalGIDIsEmittedAndNotCounted(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.batch(sup, gidTableItem(10*ms, gidAt(0, "fe80::1")), gidTableItem(20*ms, gidAt(2, "fe80::1")))
	require.Len(t, pointsOf[measure.GIDChange](h.sink.takePoints()), 1)
	require.Zero(t, findPort(h.gather(), "mlx5_0", 1).GIDMoves)
}

// A pod's address comes back at another index with the next pod, and no program has the former index.
func TestAMovedGIDOfAPodIsEmittedAndNotCounted(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	host, before, after := gidAt(3, "::ffff:10.4.0.1"), gidAt(5, "::ffff:10.4.0.9"), gidAt(7, "::ffff:10.4.0.9")
	before.NetDev, before.OtherNetns, after.NetDev, after.OtherNetns = "net1", true, "net1", true
	h.batch(sup, gidTableItem(10*ms, host, before), gidTableItem(20*ms, host), gidTableItem(30*ms, host, after))
	changes := pointsOf[measure.GIDChange](h.sink.takePoints())
	require.Len(t, changes, 2)
	require.Equal(t, []any{verbs.GIDMoved, 5, 7}, []any{changes[1].Action, changes[1].From, changes[1].To})
	require.Zero(t, findPort(h.gather(), "mlx5_0", 1).GIDMoves)
}

func TestChangesAtTheSameMomentHaveDifferentTimes(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.batch(sup, gidTableItem(10*ms, gidAt(0, "fe80::1"), gidAt(1, "fe80::2")), gidTableItem(20*ms))
	changes := pointsOf[measure.GIDChange](h.sink.takePoints())
	require.Len(t, changes, 2)
	require.True(t, changes[1].At.After(changes[0].At), "a database keeps one point of a series and time")
}

func TestAnAttributeIsComparedWhileThePortIsActive(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	attr := func(mono int64, state verbs.PortState, mtu int, width string) verbs.Item {
		return verbs.Item{Reading: &verbs.Reading{Port: 1, Mono: mono, Attr: verbs.PortAttr{
			State: state, RateGbps: 100, MTU: mtu, Width: width,
		}}}
	}
	at := func(mono int64, items ...verbs.Item) []measure.AttrChange {
		h.mono.Store(mono)
		h.batch(sup, items...)
		return pointsOf[measure.AttrChange](h.sink.takePoints())
	}
	require.Empty(t, at(100*ms, attr(100*ms, verbs.PortActive, 4096, "4x")), "the first value is no change")
	require.Empty(t, at(200*ms, attr(200*ms, verbs.PortDown, 256, "1x")), "the port is down")
	require.Empty(t, at(300*ms, attr(300*ms, verbs.PortActive, 4096, "4x")))
	require.Equal(t, []measure.AttrChange{
		{Device: "mlx5_0", Port: 1, Attr: "mtu", From: "4096", To: "1024", Changes: 1, At: time.Unix(0, epoch+400*ms)},
		{Device: "mlx5_0", Port: 1, Attr: "width", From: "4x", To: "2x", Changes: 1, At: time.Unix(0, epoch+400*ms+1)},
	}, at(400*ms, attr(400*ms, verbs.PortActive, 1024, "2x")))
	require.Empty(t, at(500*ms, attr(350*ms, verbs.PortActive, 4096, "4x")), "an answer that is older")
}

func TestAnotherFirmwareIsAChange(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	device := func(firmware string) verbs.Item {
		it := openedItem("mlx5_0", 2)
		it.Opened.Firmware = firmware
		return it
	}
	h.batch(sup, device("22.39"), device("22.39"))
	require.Empty(t, pointsOf[measure.AttrChange](h.sink.takePoints()))
	h.batch(sup, device("22.41"))
	changes := pointsOf[measure.AttrChange](h.sink.takePoints())
	require.Len(t, changes, 1)
	require.Equal(t, []any{0, "firmware", "22.39", "22.41"},
		[]any{changes[0].Port, changes[0].Attr, changes[0].From, changes[0].To})
}
