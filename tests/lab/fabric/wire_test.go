//go:build guest

package fabric

import (
	"maps"
	"slices"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
)

// The sizes of frames with their frame check sequence of four bytes, which the kernel does not count: an acknowledgement, a write
// of no bytes, and a probe or an echo of 40 bytes.
const (
	fcs           = 4
	ackSize       = 66
	writeSize     = 78
	datagramSize  = 110
	packetsARound = 4 // of both witnesses
)

// TestPacketsAndBytesAreAsPromised counts what a host sends and receives, by the kernel's own counters, while nothing is wrong.
func TestPacketsAndBytesAreAsPromised(t *testing.T) {
	f := startFleet(t, plan{})
	f.settleProbes()
	const host = 2
	out, in := f.pairsOf(host)
	lasting := time.Minute
	if testing.Short() {
		lasting = 20 * time.Second
	}
	began, wire := time.Now(), f.net.Statistics(host)
	sent, received := f.net.Passed(f.net.From(host)), f.net.Passed(f.net.To(host))
	sizes := map[int]int{}
	guest.Capture(t, f.net.Netdev(host), lasting, func(frame guest.Frame) bool {
		sizes[frame.Size+fcs]++
		return true
	})
	after, took := f.net.Statistics(host), time.Since(began)
	away, back := subtractPassed(f.net.Passed(f.net.From(host)), sent), subtractPassed(f.net.Passed(f.net.To(host)), received)
	t.Logf("in %v h%d, with %d pairs out and %d in, has sent %d frames of %d bytes and received %d of %d; sizes with FCS: %v",
		took.Round(time.Millisecond), host, out, in, after.TxPackets-wire.TxPackets, after.TxBytes-wire.TxBytes,
		after.RxPackets-wire.RxPackets, after.RxBytes-wire.RxBytes, sizes)
	t.Logf("by kind: sent %v, received %v", away, back)

	// A round every half second of each pair, and one more at most, since the counters are not read at one moment.
	rounds := int64(took/(500*time.Millisecond)) + 2
	for _, c := range []struct {
		name       string
		kind       guest.Kind
		sent       int64
		pairs      int
		answers    guest.Kind // that are received for it
		answeredBy int64
	}{
		{"probes", guest.Probes, away[guest.Probes].Packets, out, guest.Echoes, back[guest.Echoes].Packets},
		{"writes", guest.Writes, away[guest.Writes].Packets, out, guest.Acks, back[guest.Acks].Packets},
		{"probes of others", guest.Probes, back[guest.Probes].Packets, in, guest.Echoes, away[guest.Echoes].Packets},
		{"writes of others", guest.Writes, back[guest.Writes].Packets, in, guest.Acks, away[guest.Acks].Packets},
	} {
		if c.sent == 0 || c.sent > rounds*int64(c.pairs) {
			t.Errorf("%s: want at most %d of %d pairs, got %d", c.name, rounds*int64(c.pairs), c.pairs, c.sent)
		}
		if abs(c.sent-c.answeredBy) > int64(c.pairs) {
			t.Errorf("%s: %d, and %d answers", c.name, c.sent, c.answeredBy)
		}
	}
	if want := []int{ackSize, writeSize, datagramSize}; !slices.Equal(slices.Sorted(maps.Keys(sizes)), want) {
		t.Errorf("want frames of %v bytes, got %v", want, sizes)
	}
	// Others are ARP's.
	if n := away[guest.Others].Packets + away[guest.Datagrams].Packets; n > int64(out+in)*4 {
		t.Errorf("%d packets are none of the fabric's", n)
	}
	promised := int64(packetsARound/2) * rounds * int64(out+in)
	if n := after.TxPackets - wire.TxPackets - away[guest.Others].Packets; n > promised {
		t.Errorf("want at most %d packets out, got %d", promised, n)
	}
}

// pairsOf returns how many pairs a host probes, and how many probe it.
func (f *fleet) pairsOf(host int) (out, in int) {
	for _, p := range f.pairs {
		if p.from == host {
			out++
		}
		if p.to == host {
			in++
		}
	}
	return out, in
}

func subtractPassed(after, before map[guest.Kind]guest.Passed) map[guest.Kind]guest.Passed {
	for k, p := range before {
		after[k] = after[k].Sub(p)
	}
	return after
}
