package verdict

// maxOpen is the number of unanswered probes remembered for each path. It covers several minutes of silence.
const maxOpen = 256

// lateWrite is the ACK timeout, 4.096 us << 14, in ns. After that time the device retransmits a write.
const lateWrite = 4096 << 14

// Counts counts the probes and writes of one or more pairs by outcome. Every probe has exactly one outcome:
// Sent = Answered + ForwardLost + ReverseLost + BusyLost + UnknownLost + Pending.
type Counts struct {
	Sent        uint64 `json:"sent"`
	Answered    uint64 `json:"answered"`
	ForwardLost uint64 `json:"forward_lost"` // on the way to the peer
	ReverseLost uint64 `json:"reverse_lost"` // echoes lost on the way back
	BusyLost    uint64 `json:"busy_lost"`    // lost while a receive queue was empty, or not echoed by the peer: not a loss in the network
	UnknownLost uint64 `json:"unknown_lost"` // the pair ended before the outcome was known
	Pending     uint64 `json:"pending"`      // neither answered nor lost yet

	Writes      uint64 `json:"writes"`
	WritesOK    uint64 `json:"writes_ok"`
	WritesLate  uint64 `json:"writes_late"` // acknowledged after more than the ACK timeout: the NIC retransmitted
	WriteErrors uint64 `json:"write_errors"`
	Reconnects  uint64 `json:"reconnects"` // reconnections of the queue pair of the writes
}

// Lost returns the number of probes lost in the network, in both directions.
func (c *Counts) Lost() uint64 { return c.ForwardLost + c.ReverseLost }

// Add adds the counts of other pairs to c.
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

// Echo is the answer to a probe. Received and Posted are the peer's counts for the path, including this probe and this echo.
type Echo struct {
	Path     int
	Seq      uint64 // the number of the probe, as returned by Tracker.AddProbe
	Received uint64 // probes that reached the peer
	Posted   uint64 // echoes that the peer sent
	Dry      bool   // a receive queue of this host or of the peer was empty since the last echo
}

// Tracker follows the probes and writes of a pair: which are answered, which are lost and in which direction, and since when the peer is silent.
// The packets of one path keep their order, so an echo proves that earlier unanswered probes on its path are lost. A Tracker must not be used
// concurrently.
type Tracker struct {
	counts Counts // without Pending, which is computed from the others
	paths  []path
	seq    uint64
	echoed int64 // time of the last echo

	writeSince, writeDone int64
	writeFailed           bool
	disconnected          bool // the hosts have no TCP connection, so that no queue pair can be reconnected
	writeMissed           int  // echoes received in a row while the write was silent
	writesInRow           int  // writes acknowledged in a row
}

// path is the state of one path of the probes.
type path struct {
	open             []probe // probes neither answered nor proved lost, the oldest first
	sent             uint64
	forgotten        uint64 // probes older than those in open, also neither answered nor proved lost
	forward, refused uint64 // probes lost on the way to the peer, and probes it did not echo, by its last counts
	duplicates       uint64 // probes that arrived twice and that the peer counted twice
	missed, answered int    // consecutive missed and consecutive answered probes
}

type probe struct {
	seq, number uint64 // number among the probes of the pair, and among those of the path; both start at 1
	at          int64  // time at which it was sent
	overtaken   bool   // a later probe on another path was answered
}

// NewTracker returns the Tracker of a pair with the given number of paths.
func NewTracker(paths int) *Tracker { return &Tracker{paths: make([]path, paths)} }

// Counts returns the current counts.
func (t *Tracker) Counts() Counts {
	c := t.counts
	c.Pending = c.Sent - c.Answered - c.ForwardLost - c.ReverseLost - c.BusyLost - c.UnknownLost
	return c
}

// AddProbe records that a probe was sent on a path and returns the number of the probe. The echo carries the same number.
func (t *Tracker) AddProbe(on int, at int64) (seq uint64) {
	p := &t.paths[on]
	t.seq++
	p.sent++
	t.counts.Sent++
	if len(p.open) == maxOpen {
		p.open = p.open[1:]
		p.forgotten++
	}
	p.open = append(p.open, probe{seq: t.seq, number: p.sent, at: at})
	return t.seq
}

// AddEcho records an echo and reports whether it answers an open probe. AddEcho ignores any other echo: it is outdated or forged.
func (t *Tracker) AddEcho(e Echo, at int64) bool {
	if e.Path < 0 || e.Path >= len(t.paths) {
		return false
	}
	p := &t.paths[e.Path]
	i := p.indexOfOpen(e.Seq)
	if i < 0 || e.Posted > e.Received {
		return false
	}
	nth := p.open[i].number
	p.removeDuplicates(&e, nth)
	lost := uint64(i) + p.forgotten
	p.open, p.forgotten = p.open[i+1:], 0
	if lost > 0 {
		p.answered = 0
	}
	p.answered++
	p.missed = 0
	t.counts.Answered++
	t.echoed = at
	t.countLosses(p, lost, nth, e)
	t.countOvertaken(e, at)
	return true
}

// removeDuplicates subtracts from the counts of an echo the probes that the peer has counted twice. A network may deliver a datagram twice, and
// a peer that runs an older release counts and echoes it twice. Only nth probes were sent, so any count beyond that consists of duplicates.
func (p *path) removeDuplicates(e *Echo, nth uint64) {
	if e.Received < p.duplicates { // the peer's count went back
		p.duplicates = 0
	}
	if e.Received > nth+p.duplicates {
		p.duplicates = e.Received - nth
	}
	refused := e.Received - e.Posted
	e.Received -= p.duplicates
	e.Posted = e.Received - min(refused, e.Received)
}

func (p *path) indexOfOpen(seq uint64) int {
	for i := range p.open {
		if p.open[i].seq == seq {
			return i
		}
	}
	return -1
}

// countLosses attributes n lost probes of a path to a direction when probe number nth is answered. Probes that did not reach the peer are lost
// forward. Probes that the peer has echoed are lost in reverse.
func (t *Tracker) countLosses(p *path, n, nth uint64, e Echo) {
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

// countOvertaken counts as missed all missing probes on other paths that were sent before the probe of this echo.
func (t *Tracker) countOvertaken(e Echo, at int64) {
	for i := range t.paths {
		p := &t.paths[i]
		for k := range p.open {
			o := &p.open[k]
			if i == e.Path || o.seq > e.Seq || o.overtaken || !IsMissing(o.at, at) {
				continue
			}
			o.overtaken = true
			p.answered = 0
			if p.missed++; e.Dry {
				p.missed = 0
			}
		}
	}
	if t.writeFailed && !t.disconnected || t.writeSince != 0 && at-t.writeSince >= minSilence {
		t.writeMissed++
		t.writesInRow = 0
	}
}

// AddWrite records that a write was posted. No other write is outstanding.
func (t *Tracker) AddWrite(at int64) {
	t.counts.Writes++
	t.writeSince, t.writeFailed = at, false
}

// CompleteWrite records that the peer's NIC acknowledged the write after took ns.
func (t *Tracker) CompleteWrite(at, took int64) {
	t.counts.WritesOK++
	if took > lateWrite {
		t.counts.WritesLate++
	}
	t.writeSince, t.writeDone = 0, at
	t.writeMissed = 0
	t.writesInRow++
}

// FailWrite records that the write ended in an error, which puts its queue pair into state error.
func (t *Tracker) FailWrite() {
	t.counts.WriteErrors++
	t.writeSince, t.writeFailed = 0, true
	t.writesInRow = 0
}

// SetDisconnected records whether the hosts have no TCP connection. Without one, they cannot reconnect a queue pair in state error. No write is
// posted on such a queue pair, so no write is missing either.
func (t *Tracker) SetDisconnected(apart bool) { t.disconnected = apart }

// CountReconnect records that the queue pair of the writes was reconnected after an error.
func (t *Tracker) CountReconnect() { t.counts.Reconnects++ }

// WriteState reports whether a write is outstanding and whether the queue pair of the writes is in state error.
func (t *Tracker) WriteState() (outstanding, failed bool) { return t.writeSince != 0, t.writeFailed }

// Unanswered returns the number of probes sent since the last echo that have no echo, and the time at which the oldest of them was sent. It
// returns 0, 0 if there are none.
func (t *Tracker) Unanswered() (since int64, n int) {
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

// FillSample sets all fields of s that describe probes and writes at time at. It leaves the fields unchanged that describe answers of the
// peer's process.
func (t *Tracker) FillSample(s *Sample, at int64) {
	s.At = at
	s.SilentSince, s.Silent = t.Unanswered()
	s.Echoed = t.echoed
	s.WriteSince, s.WriteDone, s.WriteFailed = t.writeSince, t.writeDone, t.writeFailed
	s.WriteStranded = t.writeFailed && t.disconnected
	s.Sent, s.ForwardLost, s.ReverseLost = t.counts.Sent, t.counts.ForwardLost, t.counts.ReverseLost
	s.Paths = s.Paths[:0]
	for i := range t.paths {
		s.Paths = append(s.Paths, PathSample{Missed: t.paths[i].missed, Answered: t.paths[i].answered})
	}
	s.Paths = append(s.Paths, PathSample{Missed: t.writeMissed, Answered: t.writesInRow})
}

// EndSession counts all pending probes as lost in an unknown direction. Call it when a session of the pair ends. Missed writes remain
// missed until a write is acknowledged: repeated reconnections do not hide them.
func (t *Tracker) EndSession() {
	t.counts.UnknownLost += t.Counts().Pending
	*t = Tracker{counts: t.counts, paths: make([]path, len(t.paths)), writeMissed: t.writeMissed, disconnected: t.disconnected}
}

// ShiftTimes treats all open probes and the outstanding write as if they had been sent by ns later. Call it when the prober's thread was delayed.
func (t *Tracker) ShiftTimes(by int64) {
	for i := range t.paths {
		for k := range t.paths[i].open {
			t.paths[i].open[k].at += by
		}
	}
	if t.writeSince != 0 {
		t.writeSince += by
	}
}

// AddUnreported counts probes and writes that a worker sent and did not report before it ended.
func (t *Tracker) AddUnreported(probes, writes uint64) {
	t.counts.Sent += probes
	t.counts.Writes += writes
}
