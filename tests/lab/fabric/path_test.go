//go:build guest

package fabric

import (
	"fmt"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
)

// paths of a fleet's probes. The path of the writes comes behind them.
const paths = 4

// TestOnePathOfFourThatIsSilentIsNamed drops the packets of one UDP source port on the way from leaf to leaf, as a switch does whose
// link to the spine is broken and that knows nothing of it.
func TestOnePathOfFourThatIsSilentIsNamed(t *testing.T) {
	f := startFleet(t, plan{})
	ports := f.sourcePorts(1)
	t.Logf("source ports of h1, by path: %v", ports)
	for path := range paths {
		for other := range path {
			if ports[path] == 0 || ports[path] == ports[other] {
				t.Fatalf("want a source port for each path, got %v", ports)
			}
		}
	}
	const silent = 2
	// What h1 sends by the path is lost: its probes, and its echoes of the probes of others.
	concerned := func(p pair) bool {
		return (p.from == 1 || p.to == 1) && f.net.Leaf(p.from) != f.net.Leaf(p.to)
	}
	f.partial(fmt.Sprintf("path %d of h1 on the spine", silent), silent, concerned,
		guest.Spine(1), fmt.Sprintf("match ip src %s/32 match ip sport %d 0xffff", f.net.Address(1), ports[silent]))
	// What asks for an acknowledgement by a device, and nothing else.
	probes := func(p pair) bool { return concerned(p) && p.from == 1 }
	f.partial("the writes of h1 on the spine", paths, probes,
		guest.Spine(1), fmt.Sprintf("match ip src %s/32 match u8 0x0a 0xff at 28", f.net.Address(1)))
}

// partial drops what fits a selector, and requires that the pairs for which of returns true, and no others, have a silent path.
func (f *fleet) partial(what string, path int, of func(pair) bool, at guest.Place, selector string) {
	f.t.Helper()
	f.settle(2) // a pair that has recovered is listed in one more interval
	began := time.Now()
	heal := f.net.Blackhole(at, selector)
	found := f.awaitVerdict("partial", began, 2*time.Minute, of)
	checkDuration(f.t, what+": the first partial of "+fmt.Sprint(len(found)), earliestOf(found).Sub(began), 30*time.Second)
	checkDuration(f.t, what+": the last", latestOf(found).Sub(began), 30*time.Second)
	for _, s := range f.since(began) {
		if s.verdict == "partial" && s.Int("path") != int64(path) {
			f.t.Errorf("%s: %s of %s names path %d", what, s.by, s.of, s.Int("path"))
		}
	}
	heal()
	healed := time.Now()
	well := f.awaitVerdict("ok", healed, 5*time.Minute, of)
	f.t.Logf("%s: well %v to %v after", what, elapsedBetween(healed, earliestOf(well)), elapsedBetween(healed, latestOf(well)))
	for _, wrong := range f.others(began, "partial", 0, of) {
		f.t.Errorf("%s: %s", what, wrong)
	}
}

// sourcePorts returns the UDP source ports of a host's probes and echoes, by path.
func (f *fleet) sourcePorts(host int) (ports [paths]uint16) {
	f.t.Helper()
	known := 0
	guest.Capture(f.t, f.net.Netdev(host), time.Minute, func(frame guest.Frame) bool {
		d, ok := parseDatagram(frame.Payload)
		if !ok || !frame.Sent || d.path >= paths {
			return true
		}
		if ports[d.path] == 0 {
			known++
		}
		ports[d.path] = frame.SourcePort
		return known < paths
	})
	return ports
}
