package history

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// Fabric is what the hosts of a fabric report of the probes between them. Each host has one device of one port, sim0. It is
// written and not simulated: a test says what the hosts find. All times are since Start.
type Fabric struct {
	Groups, Size int
	Name         func(host int) string     // in the list; nil: node0001 and so on
	Tag          func(h FabricHost) string // the tag host; nil: Name
	Peers        int                       // that each host pings; 0: 8
	Tags         map[string]string         // of all points, besides host

	Start, End time.Time
	Interval   time.Duration
	From       time.Duration // nothing is reported before; may be negative

	// Pair says what a host finds of another one. nil: all pairs are well.
	Pair func(since time.Duration, from, to FabricHost) FabricPair
	// Port says what a host finds of its own port. nil: all ports are well.
	Port func(since time.Duration, h FabricHost) FabricPort
}

// FabricHost is a host of a Fabric. Hosts are counted from 0, group by group.
type FabricHost struct {
	Name, Group string
	Number, In  int // of the host, and of its group
}

// FabricPair is what is found of a pair. The zero value is a pair that is well.
type FabricPair struct {
	Verdict verdict.Verdict // "": ok
	Reason  verdict.Reason  // they have not met
	Path    int             // that is silent
}

// FabricPort is what a host finds of its own port. The zero value is a port that is well.
type FabricPort struct {
	Off     bool // the host reports nothing
	OwnLink bool
	List    string // the digest of another list than that of most
	WriteNS int64  // of its writes; 0: UsualWriteNS
}

// UsualWriteNS is how long a write takes.
const UsualWriteNS = 6000

// Span is a time from From until before To.
type Span struct{ From, To time.Duration }

// Has reports whether a time is in the span.
func (s Span) Has(at time.Duration) bool { return s.From <= at && at < s.To }

// FabricGroup returns the name of a group.
func FabricGroup(group int) string { return fmt.Sprintf("g%02d", group) }

// written is a Fabric while it is written.
type written struct {
	*Fabric
	hosts  []FabricHost
	pings  [][]target
	digest string
}

// target is one peer of a host, and what became of the probes.
type target struct {
	FabricHost
	scope  pinglist.Scope
	said   FabricPair // at the interval before
	since  time.Duration
	counts measure.FabricCounts
}

// Write writes the points host by host. The error is that of w, or about the names.
func (f *Fabric) Write(w io.Writer) error {
	return f.Each(func(_ FabricHost, lines []byte) error {
		_, err := w.Write(lines)
		return err
	})
}

// Each calls do with the lines of each host that has some, in the order of their times. The lines are do's only until it
// returns. The error is that of do, or about the names.
func (f *Fabric) Each(do func(h FabricHost, lines []byte) error) error {
	all, err := f.arranged()
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for i, h := range all.hosts {
		lines.Reset()
		if err := all.write(&lines, i); err != nil {
			return err
		}
		if lines.Len() == 0 {
			continue
		}
		if err := do(h, lines.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// write writes the points of a host.
func (f *written) write(w io.Writer, host int) error {
	tags := map[string]string{"host": f.hosts[host].Name}
	if f.Tag != nil {
		tags["host"] = f.Tag(f.hosts[host])
	}
	maps.Copy(tags, f.Tags)
	out, err := NewRecording(w, tags)
	if err != nil {
		return err
	}
	for since := f.From + f.Interval; !f.Start.Add(since).After(f.End) && out.err == nil; since += f.Interval {
		for _, p := range f.interval(host, since) {
			p.Lines(func(l measure.Line) { out.AddFields(l.Name, l.Fields, l.Tags, p.Time()) })
		}
	}
	return out.err
}

// arranged returns the hosts, and whom each of them pings.
func (f *Fabric) arranged() (*written, error) {
	all := &written{Fabric: f}
	var text strings.Builder
	numbers := map[string]int{}
	for i := range f.Groups * f.Size {
		h := FabricHost{Name: fmt.Sprintf("node%04d", i+1), Number: i, In: i / f.Size}
		if f.Name != nil {
			h.Name = f.Name(i)
		}
		h.Group = FabricGroup(h.In)
		all.hosts = append(all.hosts, h)
		numbers[h.Name] = i
		fmt.Fprintln(&text, h.Name, h.Group)
	}
	list, err := pinglist.ParseList(strings.NewReader(text.String()))
	if err != nil {
		return nil, fmt.Errorf("arrange hosts: %w", err)
	}
	all.digest = list.Digest()
	peers := 8
	if f.Peers > 0 {
		peers = f.Peers
	}
	for _, h := range all.hosts {
		var targets []target
		for _, p := range list.Pings(h.Name, peers) {
			targets = append(targets, target{FabricHost: all.hosts[numbers[p.Name]], scope: p.Scope, since: f.From})
		}
		all.pings = append(all.pings, targets)
	}
	return all, nil
}

// interval returns the points of a host at an interval.
func (f *written) interval(host int, since time.Duration) []measure.Point {
	h, port := f.hosts[host], FabricPort{}
	if f.Port != nil {
		port = f.Port(since, h)
	}
	if port.Off {
		return nil
	}
	at := f.Start.Add(since)
	latencies := latenciesOf(port.WriteNS)
	own := &measure.FabricPort{
		Device: "sim0", Port: 1, OwnGroup: h.Group, FabricLatencies: latencies, Verdict: verdict.VerdictOK, Bad: port.OwnLink,
		VerdictAgeNS: int64(since - f.From), List: f.digest, At: at,
	}
	if port.OwnLink {
		own.Verdict = verdict.VerdictOwnLink
	}
	if port.List != "" {
		own.List = port.List
	}
	points := []measure.Point{own}
	groups := map[string]*measure.Fabric{}
	for i := range f.pings[host] {
		t := &f.pings[host][i]
		if p := f.peer(h, t, port.OwnLink, since); p != nil {
			points = append(points, p)
		}
		own.Add(&t.counts)
		g := groups[t.Group]
		if g == nil {
			g = &measure.Fabric{OwnGroup: h.Group, PeerGroup: t.Group, Scope: t.scope, FabricLatencies: latencies, At: at}
			groups[t.Group] = g
			points = append(points, g)
		}
		g.Add(&t.counts)
	}
	own.FabricProberCounts = laneOf(&own.FabricCounts)
	return points
}

func latenciesOf(write int64) measure.FabricLatencies {
	if write == 0 {
		write = UsualWriteNS
	}
	ranks := func(ns int64) aggregate.Percentiles {
		return aggregate.Percentiles{Count: 600, P50: ns, P90: ns + ns/10, P99: 2 * ns}
	}
	return measure.FabricLatencies{EchoP: ranks(2 * write), EchoMax: 5 * write, ResponderP: ranks(3000), WriteP: ranks(write), WriteMax: 4 * write}
}

// laneOf returns what the prober of a port counts while it sends and echoes so much.
func laneOf(c *measure.FabricCounts) measure.FabricProberCounts {
	events := c.Answered + c.Sent + c.WritesOK
	return measure.FabricProberCounts{
		FabricCounts: ledger.FabricCounts{
			Events: events, Acked: events, Echoed: c.Sent, Refused: c.BusyLost / 10, Foreign: c.UnknownLost / 10, Dry: c.BusyLost / 20,
		},
	}
}

// peer counts what became of the probes of an interval, and returns the point of the pair, nil if it is and was well.
func (f *written) peer(h FabricHost, t *target, ownLink bool, since time.Duration) measure.Point {
	var said FabricPair
	if f.Pair != nil {
		said = f.Pair(since, h, t.FabricHost)
	}
	before := t.said
	if said != before {
		t.said, t.since = said, since
	}
	addPairCounts(&t.counts, said, uint64(2*f.Interval/time.Second))
	bad := said.Reason == "" && said.Verdict.IsNetwork() && !ownLink
	t.counts.PairsBad = 0
	if bad {
		t.counts.PairsBad = 1
	}
	if said == before && (said == (FabricPair{}) || said.lacksDevice()) {
		return nil
	}
	p := &measure.FabricPeer{
		Device: "sim0", Port: 1, OwnGroup: h.Group, PeerHost: t.Name, PeerDevice: "sim0", PeerGroup: t.Group, Scope: t.scope, Bad: bad,
		AgeNS: int64(since - t.since), Path: said.Path, Probes: t.counts.Counts, Direction: said.Verdict.Direction(), State: "active", Reason: said.Reason,
		At: f.Start.Add(since),
	}
	switch {
	case said.Reason != "":
		p.PeerDevice, p.State = "", ""
	case said.Verdict == "":
		p.Verdict = verdict.VerdictOK
	case ownLink && said.Verdict.IsNetwork():
		p.Verdict = verdict.VerdictOwnLink
	default:
		p.Verdict = said.Verdict
	}
	return p
}

// lacksDevice reports whether the peer has no device for the pair, which is said once and counted nowhere.
func (p FabricPair) lacksDevice() bool { return p.Reason == verdict.ReasonUnsupported }

// addPairCounts adds n probes and writes to the counts, with the losses that fit the verdict or reason of the pair.
func addPairCounts(c *measure.FabricCounts, said FabricPair, n uint64) {
	c.Pairs, c.PairsMet, c.PairsBusy, c.PairsDown = 1, 1, 0, 0
	if said.Reason != "" {
		c.PairsMet = 0
		if said.lacksDevice() {
			c.Pairs = 0
		}
		return
	}
	c.Sent += n
	c.Writes += n
	forward, reverse, busy, unknown, late := uint64(0), uint64(0), uint64(0), uint64(0), uint64(0)
	switch said.Verdict {
	case verdict.VerdictPath:
		forward = n
	case verdict.VerdictPartial:
		forward = n / 4
	case verdict.VerdictLossyForward:
		forward, late = n/10, n/10
	case verdict.VerdictLossyReverse:
		reverse, late = n/10, n/10
	case verdict.VerdictLossyBoth:
		forward, reverse, late = n/10, n/10, n/5
	case verdict.VerdictPeerBusy:
		busy, c.PairsBusy = n, 1
	case verdict.VerdictPeerDown, verdict.VerdictPeerPort:
		unknown, c.PairsDown = n, 1
	}
	c.ForwardLost += forward
	c.ReverseLost += reverse
	c.BusyLost += busy
	c.UnknownLost += unknown
	c.Answered += n - forward - reverse - busy - unknown
	c.WritesLate += late
	if said.Verdict == verdict.VerdictPath || unknown > 0 {
		c.WriteErrors++
		c.Reconnects++
		n = 0
	}
	c.WritesOK += n
}
