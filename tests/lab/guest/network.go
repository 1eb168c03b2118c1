//go:build guest

package guest

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Network is hosts in one guest: host i, from 1, has the RDMA device Device(i) on a veth. The other ends of the veths are ports
// of two bridges, the leaves: those of the first half of the hosts are in the first leaf. A veth joins the leaves, as the spine.
// All hosts are in the guest's one network namespace, since rxe of Linux 6.1 has devices in no other. A rule sends
// what a device sends to another host out of its netdev, before the kernel sees that the address is its own.
type Network struct {
	t     testing.TB
	hosts int
	lossy map[Place]bool // where something is lost
	index map[Place]int32
}

// AddNetwork makes a network and returns once all ports are active. It is taken away at the end of the test, by when the test
// must have closed everything that it opened on its devices.
func AddNetwork(t testing.TB, hosts int) *Network {
	t.Helper()
	n := AddNetworkWithoutDevices(t, hosts)
	for i := 1; i <= hosts; i++ {
		n.AddDevice(i)
	}
	return n
}

// AddNetworkWithoutDevices is AddNetwork for a test that adds the RDMA devices itself.
func AddNetworkWithoutDevices(t testing.TB, hosts int) *Network {
	t.Helper()
	RequireGuest(t)
	LoadDriver(t, "rxe")
	LoadCore(t)
	Modprobe(t, "veth", "bridge", "sch_prio", "sch_netem", "cls_u32", "act_gact")
	n := &Network{t: t, hosts: hosts, lossy: map[Place]bool{}, index: map[Place]int32{}}
	n.allowOwnAddresses()
	n.addLinks()
	n.addQueues()
	t.Cleanup(n.deleteDevices)
	return n
}

// AddDevice makes a host's RDMA device and returns once its port is active.
func (n *Network) AddDevice(host int) {
	n.t.Helper()
	AddLink(n.t, n.Device(host), "rxe", n.Netdev(host))
	Eventually(n.t, n.Device(host)+": port active", 10*time.Second, func() bool {
		state, err := os.ReadFile(filepath.Join(devicePath(n.Device(host)), "ports", "1", "state"))
		return err == nil && string(state) == "4: ACTIVE\n"
	})
}

func (n *Network) deleteDevices() {
	for i := 1; i <= n.hosts; i++ {
		if HasDevice(n.Device(i)) {
			DeleteLink(n.t, n.Device(i))
		}
	}
}

// On returns the same network for a subtest, which fails if a command does.
func (n *Network) On(t testing.TB) *Network {
	other := *n
	other.t = t
	return &other
}

// Hosts returns the number of hosts.
func (n *Network) Hosts() int { return n.hosts }

// Leaf returns the leaf of a host, 1 or 2.
func (n *Network) Leaf(host int) int {
	if host <= (n.hosts+1)/2 {
		return 1
	}
	return 2
}

// Device returns the RDMA device of a host.
func (n *Network) Device(host int) string { return fmt.Sprintf("r%d", host) }

// Netdev returns the network device of a host.
func (n *Network) Netdev(host int) string { return fmt.Sprintf("v%d", host) }

// Address returns the address of a host's network device.
func (n *Network) Address(host int) string { return fmt.Sprintf("10.9.0.%d", host) }

// GIDIndex returns the index in the device's GID table of the host's address, for RoCE v2.
func (n *Network) GIDIndex(host int) string {
	n.t.Helper()
	return GIDIndex(n.t, n.Device(host), n.Address(host))
}

// GIDIndex returns the index in a device's GID table of an IPv4 address, for RoCE v2.
func GIDIndex(t testing.TB, device, address string) string {
	t.Helper()
	want := gidOf(address)
	for i := range 16 {
		dir := filepath.Join(devicePath(device), "ports", "1")
		gid, err := os.ReadFile(filepath.Join(dir, "gids", fmt.Sprint(i)))
		if err != nil || strings.TrimSpace(string(gid)) != want {
			continue
		}
		if kind, err := os.ReadFile(filepath.Join(dir, "gid_attrs", "types", fmt.Sprint(i))); err == nil && string(kind) == "RoCE v2\n" {
			return fmt.Sprint(i)
		}
	}
	t.Fatalf("%s has no GID %s of RoCE v2", device, want)
	return ""
}

// gidOf returns the GID of an IPv4 address as sysfs prints it.
func gidOf(address string) string {
	a := netip.MustParseAddr(address).As4()
	return fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", a[0], a[1], a[2], a[3])
}

// SwitchPort returns the port of a host's leaf. While it is down, the host's device has no link.
func (n *Network) SwitchPort(host int) string { return fmt.Sprintf("p%d", host) }

// settings of the kernel for hosts that share its addresses: it takes packets from them, answers ARP on the netdev of the
// address alone, and does not ask in the name of another one. Without IPv6 no netdev sends anything on its own.
var settings = map[string]string{
	"net/ipv4/conf/all/accept_local":     "1",
	"net/ipv4/conf/all/rp_filter":        "0",
	"net/ipv4/conf/default/rp_filter":    "0",
	"net/ipv4/conf/all/arp_ignore":       "1",
	"net/ipv4/conf/all/arp_announce":     "2",
	"net/ipv6/conf/default/disable_ipv6": "1",
}

const (
	localTable = 1000 // priority of the rule for the kernel's own addresses
	firstTable = 100  // number of the routing table before that of host 1
)

func (n *Network) allowOwnAddresses() {
	n.t.Helper()
	for name, value := range settings {
		path := filepath.Join("/proc/sys", name)
		before, err := os.ReadFile(path)
		if err != nil {
			n.t.Fatal(err)
		}
		set := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0); err != nil {
				n.t.Errorf("set %s: %v", name, err)
			}
		}
		set(value)
		n.t.Cleanup(func() { set(string(before)) })
	}
	// The kernel has this rule first, at 0.
	IP(n.t, "rule", "add", "pref", fmt.Sprint(localTable), "lookup", "local")
	IP(n.t, "rule", "delete", "pref", "0")
	n.t.Cleanup(func() {
		IP(n.t, "rule", "add", "pref", "0", "lookup", "local")
		IP(n.t, "rule", "delete", "pref", fmt.Sprint(localTable))
	})
}

// addLinks makes what network there is below the RDMA devices, in one call of ip: each takes 60 ms.
func (n *Network) addLinks() {
	n.t.Helper()
	var add, remove strings.Builder
	fmt.Fprint(&add, "link add L1 type bridge\nlink add L2 type bridge\nlink set L1 up\nlink set L2 up\n",
		"link add s1 type veth peer name s2\nlink set s1 master L1 up\nlink set s2 master L2 up\n")
	fmt.Fprint(&remove, "link delete s1\nlink delete L1\nlink delete L2\n")
	for i := 1; i <= n.hosts; i++ {
		v, table := n.Netdev(i), firstTable+i
		fmt.Fprintf(&add, "link add %s type veth peer name %s\nlink set %s master L%d up\n", v, n.SwitchPort(i), n.SwitchPort(i), n.Leaf(i))
		fmt.Fprintf(&add, "addr add %s/24 dev %s noprefixroute\nlink set %s up\n", n.Address(i), v, v)
		fmt.Fprintf(&add, "rule add pref %d oif %s lookup %d\nroute add 10.9.0.0/24 dev %s table %d\n", table, v, table, v, table)
		fmt.Fprintf(&remove, "link delete %s\nrule delete pref %d\n", v, table)
	}
	runBatch(n.t, ipProgram, add.String())
	n.t.Cleanup(func() { runBatch(n.t, ipProgram, remove.String()) })
}

// runBatch runs commands, one a line, in one process of an iproute2 program. The process ends at the first command that fails.
func runBatch(t testing.TB, program, lines string) {
	t.Helper()
	cmd := exec.Command(program, "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("run %s -batch: %v: %s", program, err, out)
	}
}

// Statistics are the kernel's counters of a netdev: all frames and their bytes, without the frame check sequence.
type Statistics struct{ RxPackets, RxBytes, TxPackets, TxBytes int64 }

// Statistics returns what a host has sent (Tx) and received (Rx), as the veth counts it.
func (n *Network) Statistics(host int) (s Statistics) {
	n.t.Helper()
	for name, to := range map[string]*int64{
		"rx_packets": &s.RxPackets, "rx_bytes": &s.RxBytes, "tx_packets": &s.TxPackets, "tx_bytes": &s.TxBytes,
	} {
		text, err := os.ReadFile(filepath.Join(netdevPath(n.Netdev(host)), "statistics", name))
		if err == nil {
			_, err = fmt.Sscan(string(text), to)
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
	return s
}

// SetSwitchPort sets the port of a host's leaf down or up, and returns when the host's device has seen it.
func (n *Network) SetSwitchPort(host int, up bool) {
	n.t.Helper()
	state := map[bool]string{false: "down", true: "up"}[up]
	IP(n.t, "link", "set", n.SwitchPort(host), state)
	want := map[bool]string{false: "down", true: "active"}[up]
	Eventually(n.t, n.Device(host)+" is "+want, 10*time.Second, func() bool {
		got, _ := LinkState(n.t, n.Device(host), 1)
		return got == want
	})
}
