package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Fleet describes many hosts of one kind with the faults of a large installation:
// most of the hosts are healthy.
type Fleet struct {
	Hosts, Devices int           // devices per host, RoCE with one port
	Span           time.Duration // of the history; faults are spread over it
	Seed           int64
}

// share is a kind of fault: how many of a thousand hosts have it, and its entries
// in a scenario.
type share struct {
	perMille int
	entries  func(r *rand.Rand, device string, span time.Duration) string
}

func faultShares() []share {
	return []share{
		{20, flappingLink}, {5, linkDown}, {3, missingDevice}, {5, lossFault("lost_event")}, {2, lossFault("lost_completion")},
		{5, slowDevice}, {2, crashingWorker}, {2, closedDevice},
	}
}

// All returns the hosts, with the names node0001 and so on. A host depends on its
// number, Devices, Span and Seed, and not on Hosts.
func (f Fleet) All() []Host {
	hosts := make([]Host, f.Hosts)
	for i := range hosts {
		hosts[i] = Host{
			Name:     fmt.Sprintf("node%04d", i+1),
			Profile:  fmt.Sprintf("fleet%d", f.Devices),
			Seed:     f.Seed,
			Timeline: f.timeline(i),
		}
	}
	return hosts
}

// timeline returns the scenario of a host. On each host, an address changes.
func (f Fleet) timeline(host int) string {
	r := rand.New(rand.NewPCG(uint64(f.Seed), uint64(host)))
	var b strings.Builder
	fmt.Fprintf(&b, "[[event]]\nat = \"%v\"\ntype = \"gid_change\"\ndevice = %q\n", randomMoment(r, f.Span), f.device(r))
	for _, s := range faultShares() {
		if r.IntN(1000) < s.perMille {
			b.WriteString(s.entries(r, f.device(r), f.Span))
		}
	}
	return b.String()
}

func (f Fleet) device(r *rand.Rand) string { return fmt.Sprintf("sim%d", r.IntN(f.Devices)) }

// randomMoment returns a random moment in the span, in whole milliseconds. It leaves out the beginning, when devices are opened.
func randomMoment(r *rand.Rand, span time.Duration) time.Duration {
	return (span/100 + time.Duration(r.Int64N(int64(span-span/50)))).Truncate(time.Millisecond)
}

func flappingLink(r *rand.Rand, device string, span time.Duration) string {
	return fmt.Sprintf("[[link]]\nat = \"%v\"\nevery = \"%v\"\ntimes = %d\ndevice = %q\ndown_for = \"%dms\"\n",
		randomMoment(r, span/2), span/50, 1+r.IntN(20), device, 20+r.IntN(200))
}

func linkDown(r *rand.Rand, device string, span time.Duration) string {
	return fmt.Sprintf("[[link]]\nat = \"%v\"\ndevice = %q\n", randomMoment(r, span), device)
}

func missingDevice(r *rand.Rand, device string, span time.Duration) string {
	return faultText(r, "removed", device, span)
}

func closedDevice(r *rand.Rand, device string, span time.Duration) string {
	return faultText(r, "open_error", device, span) + "error = \"no_permission\"\n" +
		fmt.Sprintf("[[fault]]\nat = \"0s\"\nkind = \"open_error\"\nerror = \"limit\"\ndevice = %q\nfor = \"%v\"\n", device, span/10)
}

func lossFault(kind string) func(*rand.Rand, string, time.Duration) string {
	return func(r *rand.Rand, device string, span time.Duration) string {
		return faultText(r, kind, device, span) + fmt.Sprintf("for = \"%v\"\n", span/60)
	}
}

func slowDevice(r *rand.Rand, device string, span time.Duration) string {
	return faultText(r, "slow", device, span) + fmt.Sprintf("factor = %d\n", 5+r.IntN(500))
}

func crashingWorker(r *rand.Rand, device string, span time.Duration) string {
	return faultText(r, "crash", device, span) + fmt.Sprintf("every = \"%v\"\ntimes = 10\n", span/60)
}

func faultText(r *rand.Rand, kind, device string, span time.Duration) string {
	return fmt.Sprintf("[[fault]]\nat = \"%v\"\nkind = %q\ndevice = %q\n", randomMoment(r, span), kind, device)
}
