package bonds

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
	"rdma_events/tests/prerequisite"
)

// device describes a network device in a message of the kernel.
type device struct {
	family                 byte
	index, master, below   int
	name, kind, slaveKind  string
	carrier, foreign       bool
	mode, state, miiStatus byte
}

func (d device) message() []byte {
	body := make([]byte, unix.SizeofIfInfomsg)
	body[0] = d.family
	binary.NativeEndian.PutUint32(body[4:], uint32(d.index))
	body = netlink.Attribute(body, unix.IFLA_IFNAME, netlink.Text(d.name))
	body = netlink.Attribute(body, unix.IFLA_OPERSTATE, []byte{6})
	carrier := byte(0)
	if d.carrier {
		carrier = 1
	}
	body = netlink.Attribute(body, unix.IFLA_CARRIER, []byte{carrier})
	if d.master != 0 {
		body = netlink.Attribute(body, unix.IFLA_MASTER, netlink.Word(uint32(d.master)))
	}
	if d.below != 0 {
		body = netlink.Attribute(body, unix.IFLA_LINK, netlink.Word(uint32(d.below)))
	}
	if d.foreign {
		body = netlink.Attribute(body, unix.IFLA_LINK_NETNSID, netlink.Word(0))
	}
	var info []byte
	if d.kind != "" {
		info = netlink.Attribute(info, unix.IFLA_INFO_KIND, netlink.Text(d.kind))
		info = netlink.Attribute(info, unix.IFLA_INFO_DATA|unix.NLA_F_NESTED, netlink.Attribute(nil, bondMode, []byte{d.mode}))
	}
	if d.slaveKind != "" {
		data := netlink.Attribute(netlink.Attribute(nil, slaveState, []byte{d.state}), slaveMIIStatus, []byte{d.miiStatus})
		info = netlink.Attribute(info, unix.IFLA_INFO_SLAVE_KIND, netlink.Text(d.slaveKind))
		info = netlink.Attribute(info, unix.IFLA_INFO_SLAVE_DATA|unix.NLA_F_NESTED, data)
	}
	return netlink.Attribute(body, unix.IFLA_LINKINFO|unix.NLA_F_NESTED, info)
}

func bondMember(index int, name string, master int) device {
	return device{index: index, name: name, master: master, slaveKind: "bond", carrier: true}
}

// tableAfter returns a Table after messages about devices.
func tableAfter(devices ...device) *Table {
	t := &Table{links: map[int]link{}}
	for _, d := range devices {
		t.updateLink(unix.RTM_NEWLINK, d.message())
	}
	return t
}

func requireLegs(t *testing.T, table *Table, netdev string, legs, up int) {
	t.Helper()
	gotLegs, gotUp, ok := table.Legs(netdev)
	require.True(t, ok, netdev)
	require.Equal(t, []int{legs, up}, []int{gotLegs, gotUp}, netdev)
}

func TestLegsAreThoseOfTheBondItsLegsAndItsVLANs(t *testing.T) {
	table := tableAfter(
		device{index: 9, name: "bond0", kind: "bond", carrier: true}, bondMember(2, "eth0", 9), bondMember(3, "eth1", 9),
		device{index: 10, name: "bond0.7", kind: "vlan", below: 9}, device{index: 11, name: "bond0.7.8", kind: "vlan", below: 10},
		device{index: 12, name: "elsewhere", kind: "vlan", below: 9, foreign: true},
		device{index: 20, name: "team0", kind: "team"}, device{index: 21, name: "eth2", master: 20, slaveKind: "team"},
		device{index: 30, name: "eth3", carrier: true}, device{index: 31, name: "port", master: 32, slaveKind: "bridge"},
	)
	for _, netdev := range []string{"bond0", "eth0", "eth1", "bond0.7", "bond0.7.8"} {
		requireLegs(t, table, netdev, 2, 2)
	}
	requireLegs(t, table, "team0", 1, 0)
	for _, netdev := range []string{"eth3", "port", "elsewhere", "unknown", ""} {
		_, _, ok := table.Legs(netdev)
		require.False(t, ok, netdev)
	}
	require.Len(t, table.links, 8, "others are not kept")
}

func TestALegIsUpIfItCanCarryTraffic(t *testing.T) {
	const backup, failing, otherMode = 1, 2, 1
	for name, row := range map[string]struct {
		mode   byte
		change func(*device)
		up     int
	}{
		"no carrier":            {otherMode, func(d *device) { d.carrier = false }, 1},
		"found down":            {otherMode, func(d *device) { d.miiStatus = failing }, 1},
		"a backup":              {otherMode, func(d *device) { d.state = backup }, 2},
		"no partner of 802.3ad": {mode8023AD, func(d *device) { d.state = backup }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			second := bondMember(3, "eth1", 9)
			row.change(&second)
			requireLegs(t, tableAfter(device{index: 9, name: "bond0", kind: "bond", mode: row.mode}, bondMember(2, "eth0", 9), second), "bond0", 2, row.up)
		})
	}
}

func TestMessagesChangeTheTable(t *testing.T) {
	table := tableAfter(device{index: 9, name: "bond0", kind: "bond"}, bondMember(2, "eth0", 9), bondMember(3, "eth1", 9))
	tell := func(kind uint16, d device) bool { return table.updateLink(kind, d.message()) }
	require.False(t, tell(unix.RTM_NEWLINK, bondMember(3, "eth1", 9)), "nothing new")
	require.False(t, tell(unix.RTM_NEWLINK, device{family: unix.AF_BRIDGE, index: 3, name: "eth1"}), "what a bridge says of its port")
	require.False(t, tell(unix.RTM_DELLINK, device{family: unix.AF_BRIDGE, index: 3, name: "eth1"}))
	requireLegs(t, table, "bond0", 2, 2)
	require.True(t, tell(unix.RTM_NEWLINK, bondMember(3, "renamed", 9)))
	requireLegs(t, table, "renamed", 2, 2)
	require.True(t, tell(unix.RTM_NEWLINK, device{index: 3, name: "renamed", carrier: true}), "no leg any more")
	requireLegs(t, table, "bond0", 1, 1)
	require.True(t, tell(unix.RTM_DELLINK, bondMember(2, "eth0", 9)))
	requireLegs(t, table, "bond0", 0, 0)
	require.True(t, tell(unix.RTM_DELLINK, device{index: 9, name: "bond0", kind: "bond"}))
	require.Empty(t, table.links)
}

func TestRunFollowsTheKernelUntilItIsEnded(t *testing.T) {
	if c, err := netlink.Dial(unix.NETLINK_ROUTE, time.Second); errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, os.ErrPermission) {
		prerequisite.Missing(t, prerequisite.Netlink, "no netlink sockets: "+err.Error())
	} else if err == nil {
		c.Close()
	}
	table, calls, done := &Table{}, atomic.Int32{}, make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer close(done)
		table.Run(ctx, func() { calls.Add(1) }, func(err error) { t.Errorf("warned: %v", err) })
	}()
	require.Eventually(t, func() bool { return calls.Load() > 0 }, time.Minute, time.Millisecond)
	_, _, ok := table.Legs("lo")
	require.False(t, ok)
	stop()
	<-done
}

// A service that may not open netlink sockets must not log a line every minute.
func TestTheSameFailureIsWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var warned []string
		calls := 0
		runRepeatedly(ctx, func() error {
			switch calls++; calls {
			case 5:
				time.Sleep(time.Hour) // it works for a while
			case 8:
				return errors.New("another one")
			case 10:
				stop()
			}
			return unix.EAFNOSUPPORT
		}, func(err error) { warned = append(warned, errors.Unwrap(err).Error()) })
		no := unix.EAFNOSUPPORT.Error()
		require.Equal(t, []string{no, no, "another one", no}, warned)
	})
}

func FuzzMessagesAreReadOrRefused(f *testing.F) {
	f.Add(device{index: 9, name: "bond0", kind: "bond", mode: mode8023AD}.message())
	f.Add(bondMember(2, "eth0", 9).message())
	f.Add(device{index: 10, name: "bond0.7", kind: "vlan", below: 9}.message())
	f.Fuzz(func(_ *testing.T, body []byte) {
		table := tableAfter(device{index: 9, name: "bond0", kind: "bond"})
		table.updateLink(unix.RTM_NEWLINK, body) // must neither panic nor hang
		table.updateLink(unix.RTM_DELLINK, body)
		for _, l := range table.links {
			table.Legs(l.name)
		}
	})
}
