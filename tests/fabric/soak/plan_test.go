package soak

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// plan is what happens to which hosts. It follows from the seed.
type plan struct {
	seed         uint64
	certificates bool // of an authority, which depend on the wall clock; else the hosts have a key file
	hosts        []hostPlan
	faults       []fault
}

type hostPlan struct {
	group   string
	devices []string
	former  bool
	later   bool // it is added to the lists by a fault
}

// kind is what a fault is.
type kind string

const (
	reset      kind = "connections reset"
	cut        kind = "TCP cut"
	restart    kind = "process restarted"
	worker1    kind = "worker restarted"
	unplug     kind = "device unplugged"
	off        kind = "host off"
	truncated  kind = "list truncated"
	removed    kind = "host removed and put back"
	added      kind = "host added"
	newKeys    kind = "new keys"
	clockStep  kind = "wall clock stepped"
	duplicates kind = "packets doubled"
	severLink  kind = "link severed"
	severHost  kind = "all links severed"
)

// fault is one fault. Which of the fields from host on have a meaning follows from kind.
type fault struct {
	kind    kind
	beside  bool          // it begins while the one before lasts; else that ends first
	calm    bool          // the one before has long ended, so that what is said of this one is known
	gap     time.Duration // before it begins
	lasting time.Duration
	host    string // concerned
	peer    string // "": all that are not host
	device  string
	how     ending
	step    time.Duration
}

func (f *fault) String() string {
	text := fmt.Sprintf("%s: %s %s", f.kind, f.host, f.peer)
	for _, part := range []string{f.device, string(f.how)} {
		if part != "" {
			text += " " + part
		}
	}
	if f.step != 0 {
		text += fmt.Sprintf(" by %v", f.step.Round(time.Second))
	}
	return strings.TrimSpace(text) + fmt.Sprintf(", for %v", f.lasting.Round(time.Millisecond))
}

// faultsOfPlan is how many faults a plan has.
const faultsOfPlan = 14

// newPlan returns the plan that follows from a seed.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &plan{seed: seed, certificates: r.IntN(3) == 0}
	hosts, groups, rails := 2+r.IntN(7), 1+r.IntN(2), 1+r.IntN(2)
	for i := range hosts {
		h := hostPlan{group: fmt.Sprintf("g%d", i%groups), later: i >= 2 && r.IntN(6) == 0, former: p.certificates && i > 0 && r.IntN(3) == 0}
		for rail := range rails {
			h.devices = append(h.devices, fmt.Sprintf("d%d", rail))
		}
		if rails > 1 && r.IntN(6) == 0 { // a device is missing for good
			i := r.IntN(rails)
			h.devices = append(h.devices[:i:i], h.devices[i+1:]...)
		}
		p.hosts = append(p.hosts, h)
	}
	severs := r.IntN(3) == 0
	for range faultsOfPlan {
		p.faults = append(p.faults, p.fault(r, severs))
	}
	for i, h := range p.hosts {
		if h.later {
			f := fault{kind: added, host: hostName(i), gap: upTo(r, 5*time.Minute), lasting: upTo(r, time.Minute)}
			at := r.IntN(len(p.faults))
			p.faults = append(p.faults[:at:at], append([]fault{f}, p.faults[at:]...)...)
		}
	}
	return p
}

func upTo(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(limit)))
}

func randomBetween(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + upTo(r, most-least)
}

// oneOf returns one of several.
func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func (p *plan) fault(r *rand.Rand, severs bool) fault {
	host, peer := r.IntN(len(p.hosts)), r.IntN(len(p.hosts)-1)
	if peer >= host {
		peer++
	}
	f := fault{host: hostName(host), beside: r.IntN(4) == 0, gap: upTo(r, oneOf(r, 2*time.Second, time.Minute, 8*time.Minute))}
	one := func() { f.peer = hostName(peer) }
	kinds := []kind{reset, reset, cut, cut, cut, restart, restart, worker1, unplug, off, truncated, truncated, removed, newKeys, clockStep, duplicates}
	if severs {
		kinds = append(kinds, severLink, severLink, severHost)
	}
	if *only != "" {
		kinds = nil
		for _, k := range strings.Split(*only, ",") {
			kinds = append(kinds, kind(k))
		}
	}
	switch f.kind = oneOf(r, kinds...); f.kind {
	case reset:
		if r.IntN(2) == 0 {
			one()
		}
	case cut:
		f.lasting = oneOf(r, 100*time.Millisecond, time.Second, 30*time.Second, 30*time.Second, 15*time.Minute)
		switch r.IntN(3) {
		case 0:
			one()
		case 1:
			f.host = "" // of all
		}
	case restart:
		f.how, f.lasting = oneOf(r, stopped, killed), oneOf(r, upTo(r, time.Second), upTo(r, 20*time.Second))
	case worker1, unplug:
		f.device = oneOf(r, p.hosts[host].devices...)
		f.lasting = oneOf(r, upTo(r, 2*time.Second), upTo(r, 10*time.Second), upTo(r, 3*time.Minute))
	case off:
		f.how, f.lasting, f.calm = poweroff, randomBetween(r, 20*time.Second, 10*time.Minute), r.IntN(2) == 0
	case truncated:
		one()
		f.lasting = randomBetween(r, 2*time.Second, 30*time.Second)
	case removed:
		f.lasting = randomBetween(r, time.Minute, 20*time.Minute)
	case newKeys:
		f.calm, f.lasting = r.IntN(2) == 0, upTo(r, time.Minute)
	case clockStep:
		f.step = randomBetween(r, -30*time.Hour, 30*time.Hour)
		f.lasting = randomBetween(r, time.Second, 30*time.Minute)
	case duplicates:
		one()
		f.lasting = 2 * time.Second
	case severLink:
		one()
		f.calm, f.lasting = true, randomBetween(r, 20*time.Second, 3*time.Minute)
	case severHost:
		f.calm, f.lasting = true, randomBetween(r, 20*time.Second, 3*time.Minute)
	case added:
	}
	return f
}
