//go:build guest

package guest

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ManagementNetwork is a TCP network beside a Network, between the same hosts and without their RDMA devices. Each host has a
// network namespace with one netdev and one address, and a bridge in the guest's first namespace is the switch. A program in the
// namespace of a host reaches other hosts by TCP through that switch alone. It opens all RDMA devices nevertheless: the kernel shares
// them between namespaces unless it is told otherwise (rdma-system(8)), and their packets go by the netdevs of the first namespace.
type ManagementNetwork struct {
	t       testing.TB
	hosts   int
	silent  map[int]bool    // hosts from which the switch drops all packets
	refused map[[2]int]bool // hosts, and those that they have no route to
}

// AddManagementNetwork makes a management network. It is taken away at the end of the test, by when the test must have ended the
// programs in the namespaces.
func AddManagementNetwork(t testing.TB, hosts int) *ManagementNetwork {
	t.Helper()
	RequireGuest(t)
	Modprobe(t, "veth", "bridge", "sch_netem", "sch_ingress", "cls_u32", "act_gact", "tcp_diag")
	m := &ManagementNetwork{t: t, hosts: hosts, silent: map[int]bool{}, refused: map[[2]int]bool{}}
	IP(t, "link", "add", "M", "type", "bridge")
	t.Cleanup(func() { IP(t, "link", "delete", "M") })
	IP(t, "link", "set", "M", "up")
	for i := 1; i <= hosts; i++ {
		m.addHost(i)
	}
	m.setQueues(m.allHosts(), "add", "")
	m.batch(tcProgram, m.allHosts(), func(port string) string { return "qdisc add dev " + port + " clsact" })
	return m
}

func (m *ManagementNetwork) addHost(host int) {
	m.t.Helper()
	name, port, netdev := hostNamespace(host), switchPort(host), "mgmt0"
	IP(m.t, "netns", "add", name)
	m.t.Cleanup(func() { IP(m.t, "netns", "delete", name) })
	IP(m.t, "link", "add", port, "type", "veth", "peer", "name", netdev, "netns", name)
	m.t.Cleanup(func() { IP(m.t, "link", "delete", port) }) // with its namespace it would go some time later
	IP(m.t, "link", "set", port, "master", "M", "up")
	IP(m.t, "-n", name, "link", "set", "lo", "up")
	IP(m.t, "-n", name, "addr", "add", fmt.Sprintf("%s/24", m.Address(host)), "dev", netdev)
	IP(m.t, "-n", name, "link", "set", netdev, "up")
}

func hostNamespace(host int) string { return fmt.Sprintf("h%d", host) }
func switchPort(host int) string    { return fmt.Sprintf("m%d", host) }

// On returns the same network for a subtest, which fails if a command does.
func (m *ManagementNetwork) On(t testing.TB) *ManagementNetwork {
	other := *m
	other.t = t
	return &other
}

// allHosts returns the numbers of all hosts.
func (m *ManagementNetwork) allHosts() (hosts []int) {
	for i := 1; i <= m.hosts; i++ {
		hosts = append(hosts, i)
	}
	return hosts
}

// Address returns the address of a host.
func (m *ManagementNetwork) Address(host int) string { return fmt.Sprintf("10.8.0.%d", host) }

// hostOf returns the host of an address with a port, 0 if there is none.
func (m *ManagementNetwork) hostOf(address string) int {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0
	}
	for _, i := range m.allHosts() {
		if m.Address(i) == a.Addr().Unmap().String() {
			return i
		}
	}
	return 0
}

// Enter returns the command line that runs the program behind it in the namespace of a host, in the same process. The program sees
// the sysfs of that namespace.
func (m *ManagementNetwork) Enter(host int) []string {
	return []string{ipProgram, "netns", "exec", hostNamespace(host)}
}

// Cut drops all packets from and to some hosts at the switch, without a word to them, until Heal is called.
func (m *ManagementNetwork) Cut(hosts ...int) {
	m.t.Helper()
	m.CutTo(hosts...)
	m.batch(tcProgram, hosts, func(port string) string {
		return fmt.Sprintf("filter add dev %s ingress protocol all prio 1 u32 match u32 0 0 action drop", port)
	})
	for _, i := range hosts {
		m.silent[i] = true
	}
}

// CutAll drops all packets of all hosts.
func (m *ManagementNetwork) CutAll() {
	m.t.Helper()
	m.Cut(m.allHosts()...)
}

// CutTo drops all packets to some hosts, which go on to be heard.
func (m *ManagementNetwork) CutTo(hosts ...int) {
	m.t.Helper()
	m.setQueues(hosts, "change", "loss 100%")
}

// Unplug takes the link of some hosts down, which they notice.
func (m *ManagementNetwork) Unplug(hosts ...int) {
	m.t.Helper()
	m.setLinks(hosts, "down")
}

// Slow delays all packets to all hosts, so that a round trip takes twice the delay.
func (m *ManagementNetwork) Slow(delay time.Duration) {
	m.t.Helper()
	m.setQueues(m.allHosts(), "change", fmt.Sprintf("delay %dms", delay.Milliseconds()))
}

// Refuse lets each of two hosts find the other one unreachable. Connections between them stay, and are as good as cut.
func (m *ManagementNetwork) Refuse(a, b int) {
	m.t.Helper()
	for _, way := range [][2]int{{a, b}, {b, a}} {
		if !m.refused[way] {
			m.refused[way] = true
			IP(m.t, "-n", hostNamespace(way[0]), "route", "add", "unreachable", m.Address(way[1]))
		}
	}
}

// Heal ends all faults.
func (m *ManagementNetwork) Heal() {
	m.t.Helper()
	m.setQueues(m.allHosts(), "change", "")
	m.setLinks(m.allHosts(), "up")
	m.batch(tcProgram, slices.Sorted(maps.Keys(m.silent)), func(port string) string {
		return fmt.Sprintf("filter delete dev %s ingress protocol all prio 1", port)
	})
	clear(m.silent)
	for way := range m.refused {
		IP(m.t, "-n", hostNamespace(way[0]), "route", "delete", "unreachable", m.Address(way[1]))
	}
	clear(m.refused)
}

func (m *ManagementNetwork) setLinks(hosts []int, state string) {
	m.t.Helper()
	m.batch(ipProgram, hosts, func(port string) string { return fmt.Sprintf("link set dev %s %s", port, state) })
}

// setQueues adds or changes the queues of what goes to some hosts, which lose or delay packets.
func (m *ManagementNetwork) setQueues(hosts []int, action, how string) {
	m.t.Helper()
	m.batch(tcProgram, hosts, func(port string) string {
		return fmt.Sprintf("qdisc %s dev %s root netem limit 10000 %s", action, port, how)
	})
}

// batch runs a command for the switch port of each of some hosts, in one process.
func (m *ManagementNetwork) batch(program string, hosts []int, command func(port string) string) {
	m.t.Helper()
	var b strings.Builder
	for _, i := range hosts {
		b.WriteString(command(switchPort(i)) + "\n")
	}
	runBatch(m.t, program, b.String())
}

// Reset resets the TCP connections from and to a port of all hosts, all of them at once: each end has an error, and sends a reset.
func (m *ManagementNetwork) Reset(port int) {
	m.t.Helper()
	failed := make([]error, m.hosts+1)
	var resets sync.WaitGroup
	for _, i := range m.allHosts() {
		resets.Go(func() {
			number := fmt.Sprintf(":%d", port)
			_, failed[i] = commandOutput("ss", "-N", hostNamespace(i), "-K", "-H", "-t", "-n", "sport = "+number, "or", "dport = "+number)
		})
	}
	resets.Wait()
	if err := errors.Join(failed...); err != nil {
		m.t.Fatal(err)
	}
}

// Listens reports whether a program in the namespace of a host listens at a port.
func (m *ManagementNetwork) Listens(host, port int) bool {
	m.t.Helper()
	text, err := commandOutput("ss", "-N", hostNamespace(host), "-H", "-l", "-t", "-n", fmt.Sprintf("sport = :%d", port))
	if err != nil {
		m.t.Fatal(err)
	}
	return text != ""
}

// Connection is a TCP connection from a host to a port of another one.
type Connection struct {
	From, To int
	Local    string // the address of the end that has connected
}

// Connections returns the established connections to a port. A connection that was cut is established until one of its ends has
// noticed.
func (m *ManagementNetwork) Connections(port int) map[Connection]bool {
	m.t.Helper()
	all := map[Connection]bool{}
	for _, i := range m.allHosts() {
		text, err := commandOutput("ss", "-N", hostNamespace(i), "-H", "-t", "-n", "state", "established", fmt.Sprintf("dport = :%d", port))
		if err != nil {
			m.t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			f := strings.Fields(line) // bytes received and sent that wait, and the addresses of both ends
			if len(f) < 4 || m.hostOf(f[3]) == 0 {
				m.t.Fatalf("%s: want a connection to a host, got %q", filepath.Join("/run/netns", hostNamespace(i)), line)
			}
			all[Connection{i, m.hostOf(f[3]), f[2]}] = true
		}
	}
	return all
}
