//go:build guest

package guest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// Place is a netdev whose queue loses what it is asked to: on the way from a host, to a host, or from leaf to leaf.
type Place string

// From is the way from a host to its leaf.
func (n *Network) From(host int) Place { return Place(n.Netdev(host)) }

// To is the way from the leaf to a host.
func (n *Network) To(host int) Place { return Place(n.SwitchPort(host)) }

// Spine is the way from a leaf to the other one.
func Spine(leaf int) Place { return Place(fmt.Sprintf("s%d", leaf)) }

// Kind is a kind of packets, each of which has a queue of its own in each Place. It is the minor number of the queue's class.
type Kind int

// The kinds.
const (
	Others    Kind = iota + 1 // all that is no RoCE v2
	Probes                    // datagrams of the fabric that ask
	Echoes                    // and those that answer
	Writes                    // requests of reliable connections
	Acks                      // and their acknowledgements
	Datagrams                 // other datagrams of RoCE v2
	kinds     = int(Datagrams)
)

// Everything are all kinds, RoCE those of RoCE v2.
var (
	Everything = []Kind{Others, Probes, Echoes, Writes, Acks, Datagrams}
	RoCE       = Everything[1:]
)

// of returns the selector that finds packets of a kind in an IPv4 header of 20 bytes and what follows: the UDP header, the base
// transport header, whose first byte is the opcode, and in datagrams the DETH of 8 bytes. A datagram of the fabric has the
// magic first (native_fabric.h), and its type in the sixth byte.
func (k Kind) of() string {
	const roce, fabric = "match ip dport 4791 0xffff", " match u8 0x64 0xff at 28 match u32 0x52444d46 0xffffffff at 48"
	return roce + map[Kind]string{
		Probes:    fabric + " match u8 1 0xff at 53",
		Echoes:    fabric + " match u8 2 0xff at 53",
		Datagrams: " match u8 0x60 0xe0 at 28",
		Acks:      " match u8 0x10 0xfc at 28", // the last opcodes of RC: 0x11 is an acknowledgement
		Writes:    "",
	}[k]
}

const tcProgram = "/usr/sbin/tc"

// addQueues gives each Place its queues. Each one is a netem, which drops what it loses without a word to the sender, and
// counts it.
func (n *Network) addQueues() {
	n.t.Helper()
	var b strings.Builder
	for _, p := range n.Places() {
		fmt.Fprintf(&b, "qdisc add dev %s root handle 1: prio bands %d priomap%s\n", p, kinds, strings.Repeat(" 0", 16))
		for _, k := range Everything {
			fmt.Fprintf(&b, "qdisc add dev %s parent 1:%d handle %x: netem limit 10000\n", p, k, k.handle())
		}
		for order, k := range []Kind{Probes, Echoes, Datagrams, Acks, Writes} {
			fmt.Fprintf(&b, "filter add dev %s parent 1: protocol ip prio %d u32 %s flowid 1:%d\n", p, 10+order, k.of(), k)
		}
	}
	runBatch(n.t, tcProgram, b.String())
	for _, p := range n.Places() {
		nic, err := net.InterfaceByName(string(p))
		if err != nil {
			n.t.Fatal(err)
		}
		n.index[p] = int32(nic.Index)
	}
}

// handle returns the major number of the kind's queue, which tc has in hexadecimal.
func (k Kind) handle() int { return 16 * int(k) }

// Places returns all Places.
func (n *Network) Places() []Place {
	all := []Place{Spine(1), Spine(2)}
	for i := 1; i <= n.hosts; i++ {
		all = append(all, n.From(i), n.To(i))
	}
	return all
}

// Lose makes a Place lose a share of packets of some kinds, from 0 to 1, by chance. It takes the kernel less than a millisecond.
func (n *Network) Lose(p Place, share float64, what ...Kind) {
	n.t.Helper()
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, time.Second)
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	for _, k := range what {
		// The kernel answers a change with nothing but its acknowledgement.
		err := conn.Ask(unix.RTM_NEWQDISC, 0, n.change(p, k, share), func([]byte) error { return nil })
		if err != nil {
			n.t.Fatalf("lose %v of %d on %s: %v", share, k, p, err)
		}
	}
	n.lossy[p] = true
}

// change returns the body of the message that changes the share that is lost of a kind: struct tcmsg of linux/rtnetlink.h, and
// struct tc_netem_qopt of linux/pkt_sched.h.
func (n *Network) change(p Place, k Kind, share float64) []byte {
	const kind, options = unix.TCA_KIND, unix.TCA_OPTIONS
	word := binary.NativeEndian.AppendUint32
	body := word(nil, unix.AF_UNSPEC)
	body = word(body, uint32(n.index[p]))
	body = word(body, uint32(k.handle())<<16)
	body = word(body, 1<<16|uint32(k))
	body = word(body, 0)
	var netem []byte
	for _, value := range []uint32{0, 10000, uint32(math.Round(share * math.MaxUint32)), 0, 0, 0} { // latency, limit, loss, gap, duplicate, jitter
		netem = word(netem, value)
	}
	body = netlink.Attribute(body, kind, netlink.Text("netem"))
	return netlink.Attribute(body, options, netem)
}

// Cut makes Places lose everything, and returns when it began, after which no packet passed.
func (n *Network) Cut(places ...Place) (began time.Time) {
	n.t.Helper()
	began = time.Now()
	for _, p := range places {
		n.Lose(p, 1, Everything...)
	}
	return began
}

// Heal makes all Places lose nothing any more.
func (n *Network) Heal() {
	n.t.Helper()
	for p := range n.lossy {
		n.Lose(p, 0, Everything...)
	}
	clear(n.lossy)
}

// Blackhole makes a Place drop the RoCE v2 packets that fit a selector of tc-u32(8), as in "match ip src 10.9.0.1/32", until
// the test's end or until heal is called.
func (n *Network) Blackhole(p Place, selector string) (heal func()) {
	n.t.Helper()
	filter := []string{"dev", string(p), "parent", "1:", "protocol", "ip", "prio", "1"}
	args := append(append([]string{"filter", "add"}, filter...), "u32", "match", "ip", "dport", "4791", "0xffff")
	args = append(append(args, strings.Fields(selector)...), "action", "drop")
	mustRun(n.t, tcProgram, args...)
	there := true
	heal = func() {
		if there {
			there = false
			mustRun(n.t, tcProgram, append([]string{"filter", "delete"}, filter...)...)
		}
	}
	n.t.Cleanup(heal)
	return heal
}

// Passed are packets of a kind at a Place: those that passed with their bytes, and those that were dropped.
type Passed struct{ Packets, Bytes, Dropped int64 }

// Sub returns what came after before.
func (p Passed) Sub(before Passed) Passed {
	return Passed{p.Packets - before.Packets, p.Bytes - before.Bytes, p.Dropped - before.Dropped}
}

// Passed returns what tc counts of all kinds at a Place, since the network was made. Bytes are those of frames without the frame check
// sequence.
func (n *Network) Passed(p Place) map[Kind]Passed {
	n.t.Helper()
	text, err := commandOutput(tcProgram, "-s", "-j", "qdisc", "show", "dev", string(p))
	if err != nil {
		n.t.Fatal(err)
	}
	all := parsePassed([]byte(text))
	if len(all) != kinds {
		n.t.Fatalf("%s: want the queues of %d kinds, got %v of %s", p, kinds, all, text)
	}
	return all
}

// parsePassed parses what tc prints of the queues of a Place. What it cannot parse is not in the answer.
func parsePassed(text []byte) map[Kind]Passed {
	var queues []struct {
		Kind, Parent          string
		Packets, Bytes, Drops int64
	}
	if json.Unmarshal(text, &queues) != nil {
		return nil
	}
	all := map[Kind]Passed{}
	for _, q := range queues {
		_, minor, _ := strings.Cut(q.Parent, ":")
		if k, err := strconv.Atoi(minor); err == nil && q.Kind == "netem" {
			all[Kind(k)] = Passed{q.Packets, q.Bytes, q.Drops}
		}
	}
	return all
}

// Dropped adds up what was dropped of a kind at all Places.
func (n *Network) Dropped(k Kind) (sum int64) {
	n.t.Helper()
	for _, p := range n.Places() {
		sum += n.Passed(p)[k].Dropped
	}
	return sum
}
