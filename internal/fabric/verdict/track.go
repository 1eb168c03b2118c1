package verdict

// mostOpen is how many probes of a path are remembered while it is silent: minutes of them.
const mostOpen = 256

// writeLate is longer than the ACK timeout of 4.096 us << 14 after which the device sends a write again.
const writeLate = 4096 << 14

// Counts counts the probes and writes of a pair, or of several, by their outcome. Every probe has one:
// Sent = Answered + ForwardLost + ReverseLost + BusyLost + UnknownLost + Pending.
type Counts struct {
	Sent        uint64 `json:"sent"`
	Answered    uint64 `json:"answered"`
	ForwardLost uint64 `json:"forward_lost"` // on the way there
	ReverseLost uint64 `json:"reverse_lost"` // on the way back
	BusyLost    uint64 `json:"busy_lost"`    // while a receive queue was used up, or refused by the peer: no loss of the network
	UnknownLost uint64 `json:"unknown_lost"` // the pair ended before it was known
	Pending     uint64 `json:"pending"`      // neither answered nor lost yet

	Writes      uint64 `json:"writes"`
	WritesOK    uint64 `json:"writes_ok"`
	WritesLate  uint64 `json:"writes_late"` // of these, longer than the ACK timeout: the NIC retried
	WriteErrors uint64 `json:"write_errors"`
	Reconnects  uint64 `json:"reconnects"` // of the queue pair of the writes
}

// Lost returns how many probes were lost in the network, in both directions.
func (c *Counts) Lost() uint64 { return c.ForwardLost + c.ReverseLost }

// Add adds the counts of other pairs.
func (c *Counts) Add(o *Counts) {
	c.Sent += o.Sent
	c.Answered += o.Answered
	c.ForwardLost += o.ForwardLost
	c.ReverseLost += o.ReverseLost
	c.BusyLost += o.BusyLost
	c.UnknownLost += o.UnknownLost
	c.Pending += o.Pending
	c.Writes += o.Writes
	c.WritesOK += o.WritesOK
	c.WritesLate += o.WritesLate
	c.WriteErrors += o.WriteErrors
	c.Reconnects += o.Reconnects
}

// Echo is what comes back of a probe. Received and Posted count probes and echoes of this path, this one included.
type Echo struct {
	Path     int
	Seq      uint64 // that Tracker.Probe returned
	Received uint64 // probes that reached the peer
	Posted   uint64 // echoes that it sent
	Dry      bool   // a receive queue was used up since the last echo, there or here
}

// Tracker follows the probes and writes of a pair: what is answered, lost in which direction, and silent since when. Packets
// of one path keep their order, so an echo proves lost what was sent before it on its path. It is for one goroutine.
type Tracker struct {
	counts Counts // without Pending, which follows from the others
	paths  []path
	seq    uint64
	echoed int64 // when the last echo came

	writeSince, writeDone int64
	writeFailed           bool
	hostsApart            bool // no queue pair can be connected anew
	writeMissed           int  // rounds that were answered while the write was silent
	writesInARow          int
}

// path is one path of the probes.
type path struct {
	open               []probe // neither answered nor proved lost, the oldest first
	sent               uint64
	forgotten          uint64 // older than open, and neither answered nor proved lost either
	forward, refused   uint64 // that the peer's counts have said so far
	surplus            uint64 // by which the peer's count of received probes is too high: it counted probes that arrived twice
	missed, answeredIn int    // in a row
}

type probe struct {
	seq, nth  uint64 // nth of its path
	at        int64
	overtaken bool
}

// NewTracker returns the Tracker of a pair with a number of paths.
func NewTracker(paths int) *Tracker { return &Tracker{paths: make([]path, paths)} }

// Counts returns the counts of now.
func (t *Tracker) Counts() Counts {
	c := t.counts
	c.Pending = c.Sent - c.Answered - c.ForwardLost - c.ReverseLost - c.BusyLost - c.UnknownLost
	return c
}

// Probe notes that a probe was sent on a path, and returns its number, which its echo brings back.
func (t *Tracker) Probe(on int, at int64) (seq uint64) {
	p := &t.paths[on]
	t.seq++
	p.sent++
	t.counts.Sent++
	if len(p.open) == mostOpen {
		p.open = p.open[1:]
		p.forgotten++
	}
	p.open = append(p.open, probe{seq: t.seq, nth: p.sent, at: at})
	return t.seq
}

// Echo takes an echo, and reports whether it answers a probe that is open. What it says of another one is from before, or
// forged, and changes nothing.
func (t *Tracker) Echo(e Echo, at int64) bool {
	if e.Path < 0 || e.Path >= len(t.paths) {
		return false
	}
	p := &t.paths[e.Path]
	i := p.find(e.Seq)
	if i < 0 || e.Posted > e.Received {
		return false
	}
	nth := p.open[i].nth
	p.correct(&e, nth)
	lost := uint64(i) + p.forgotten
	p.open, p.forgotten = p.open[i+1:], 0
	if lost > 0 {
		p.answeredIn = 0
	}
	p.answeredIn++
	p.missed = 0
	t.counts.Answered++
	t.echoed = at
	t.blame(p, lost, nth, e)
	t.overtake(e, at)
	return true
}

// correct takes out of an echo's counts what the peer has counted twice. A network may deliver a datagram twice, and a peer of
// an older release counts and echoes it twice. No more than nth probes were sent, so what is beyond is surplus from then on.
func (p *path) correct(e *Echo, nth uint64) {
	if e.Received < p.surplus { // the peer's count went back
		p.surplus = 0
	}
	if e.Received > nth+p.surplus {
		p.surplus = e.Received - nth
	}
	refused := e.Received - e.Posted
	e.Received -= p.surplus
	e.Posted = e.Received - min(refused, e.Received)
}

func (p *path) find(seq uint64) int {
	for i := range p.open {
		if p.open[i].seq == seq {
			return i
		}
	}
	return -1
}

// blame says where n probes of a path were lost, before the nth was answered. Of what was sent, that is lost forward which did
// not arrive, and in reverse what the peer has answered.
func (t *Tracker) blame(p *path, n, nth uint64, e Echo) {
	forward, refused := nth-e.Received-p.forward, e.Received-e.Posted-p.refused
	p.forward, p.refused = nth-e.Received, e.Received-e.Posted
	switch {
	case e.Dry:
		t.counts.BusyLost += n
	case forward > n || refused > n-forward: // the peer's counts went back
		t.counts.UnknownLost += n
	default:
		t.counts.ForwardLost += forward
		t.counts.BusyLost += refused
		t.counts.ReverseLost += n - forward - refused
	}
}

// overtake counts as missed what was sent on other paths before this echo's probe and is missing.
func (t *Tracker) overtake(e Echo, at int64) {
	for i := range t.paths {
		p := &t.paths[i]
		for k := range p.open {
			o := &p.open[k]
			if i == e.Path || o.seq > e.Seq || o.overtaken || !IsMissing(o.at, at) {
				continue
			}
			o.overtaken = true
			p.answeredIn = 0
			if p.missed++; e.Dry {
				p.missed = 0
			}
		}
	}
	if t.writeFailed && !t.hostsApart || t.writeSince != 0 && at-t.writeSince >= silentFor {
		t.writeMissed++
		t.writesInARow = 0
	}
}

// WritePosted notes that a write was posted. No other one is outstanding.
func (t *Tracker) WritePosted(at int64) {
	t.counts.Writes++
	t.writeSince, t.writeFailed = at, false
}

// WriteDone notes that the peer's NIC acknowledged the write, which took so many ns.
func (t *Tracker) WriteDone(at, took int64) {
	t.counts.WritesOK++
	if took > writeLate {
		t.counts.WritesLate++
	}
	t.writeSince, t.writeDone = 0, at
	t.writeMissed = 0
	t.writesInARow++
}

// WriteFailed notes that the write ended in an error, and its queue pair with it.
func (t *Tracker) WriteFailed() {
	t.counts.WriteErrors++
	t.writeSince, t.writeFailed = 0, true
	t.writesInARow = 0
}

// HostsApart notes whether the hosts cannot talk, without which a queue pair in state error is not connected anew. Until it is, nothing is
// written on it, and so no write is missing.
func (t *Tracker) HostsApart(apart bool) { t.hostsApart = apart }

// Reconnected notes that the queue pair of the writes was connected again after an error.
func (t *Tracker) Reconnected() { t.counts.Reconnects++ }

// Writing reports whether a write is outstanding, or its queue pair in state error.
func (t *Tracker) Writing() (outstanding, failed bool) { return t.writeSince != 0, t.writeFailed }

// Missing returns when the oldest probe was sent that has no echo and of which nothing later is answered, and how many there
// are; 0, 0 if there is none.
func (t *Tracker) Missing() (since int64, n int) {
	for i := range t.paths {
		for _, o := range t.paths[i].open {
			if o.at < t.echoed || o.overtaken {
				continue
			}
			if n++; since == 0 || o.at < since {
				since = o.at
			}
		}
	}
	return since, n
}

// Sample fills in what the Judge wants to know of the probes and writes at a moment. It leaves alone what the peer's process
// has answered.
func (t *Tracker) Sample(s *Sample, at int64) {
	s.At = at
	s.SilentSince, s.Silent = t.Missing()
	s.Echoed = t.echoed
	s.WriteSince, s.WriteDone, s.WriteFailed = t.writeSince, t.writeDone, t.writeFailed
	s.WriteStranded = t.writeFailed && t.hostsApart
	s.Sent, s.ForwardLost, s.ReverseLost = t.counts.Sent, t.counts.ForwardLost, t.counts.ReverseLost
	s.Paths = s.Paths[:0]
	for i := range t.paths {
		s.Paths = append(s.Paths, PathSample{Missed: t.paths[i].missed, Answered: t.paths[i].answeredIn})
	}
	s.Paths = append(s.Paths, PathSample{Missed: t.writeMissed, Answered: t.writesInARow})
}

// End counts as lost for an unknown reason what is pending, when the pair ends or begins anew. A write that is missing stays so
// until one is acknowledged: connections that are made anew again and again do not hide it.
func (t *Tracker) End() {
	t.counts.UnknownLost += t.Counts().Pending
	*t = Tracker{counts: t.counts, paths: make([]path, len(t.paths)), writeMissed: t.writeMissed, hostsApart: t.hostsApart}
}

// Late excuses the pair from what its prober was too late for: what is open counts as sent by so much later.
func (t *Tracker) Late(by int64) {
	for i := range t.paths {
		for k := range t.paths[i].open {
			t.paths[i].open[k].at += by
		}
	}
	if t.writeSince != 0 {
		t.writeSince += by
	}
}

// Unreported counts probes and writes of which only the number is known that were sent: whoever sent them is gone.
func (t *Tracker) Unreported(probes, writes uint64) {
	t.counts.Sent += probes
	t.counts.Writes += writes
}
