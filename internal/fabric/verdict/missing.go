package verdict

import "time"

// The times, in ns, and the number by which a Fabric decides that an echo is missing and sends more probes. EchoWatch applies them in
// the simulator. The native backend applies the same rule in C (native_fabric.c) and receives them with its configuration.
const (
	// MissingAfter is the time after which an echo is missing.
	MissingAfter = int64(100 * time.Millisecond)
	// WriteSilentAfter is the time after which a write counts as silent beside a missing echo. The write of the awaited probe was
	// posted a moment after it, and is silent then. One that was posted with a later probe a moment ago is not.
	WriteSilentAfter = MissingAfter / 2
	// MoreProbes is the number of probes that follow when both echo and write are silent, the first of them at once.
	MoreProbes = 3
	// MoreEvery is the time between two of these probes.
	MoreEvery = int64(50 * time.Millisecond)
	// LateAfter is the delay of a Fabric's thread up to which its deadlines hold. After a longer one every awaited echo has
	// MissingAfter once more.
	LateAfter = int64(50 * time.Millisecond)
)

// VerdictsWithin is the time after the first missing echo, in ns, by which every verdict that silence can bring has begun.
const VerdictsWithin = busySilentFor + int64(time.Second)

// IsMissing reports whether the echo of a probe is missing that was sent at one moment and is unanswered at another.
func IsMissing(sent, at int64) bool { return at-sent >= MissingAfter }

// EchoWatch decides for one pair when an echo is missing and when more probes are due because of that. It awaits one echo at a time.
// The zero value awaits none. It is for one goroutine.
type EchoWatch struct {
	newest   uint64 // the probe that was sent last
	sent     int64  // when
	awaited  uint64 // the probe whose echo is awaited
	deadline int64  // when that echo is missing; 0: none is awaited
	reported bool   // a missing echo, since the last echo
	asked    bool   // more probes, since the last echo
	more     int    // probes that are still to be sent because of that
	nextMore int64  // when the next of them is due
}

// Sent notes that a probe was sent. Probes have rising numbers.
func (w *EchoWatch) Sent(seq uint64, at int64) {
	w.newest, w.sent = seq, at
	if w.deadline == 0 {
		w.awaited, w.deadline = seq, at+MissingAfter
	}
}

// Echoed notes the echo of a probe that had none. If it answers the awaited probe or a later one, the newest probe is awaited next.
func (w *EchoWatch) Echoed(seq uint64) {
	w.reported, w.asked, w.more = false, false, 0
	if seq < w.awaited {
		return
	}
	w.deadline = 0
	if seq < w.newest {
		w.awaited, w.deadline = w.newest, w.sent+MissingAfter
	}
}

// Excuse gives the awaited echo all of its time once more, because the thread looked too late.
func (w *EchoWatch) Excuse(at int64) {
	if w.deadline != 0 {
		w.deadline = at + MissingAfter
	}
}

// Look reports whether an echo is newly missing: the first since the last echo. If the write is silent too, it schedules more probes,
// once until the next echo. A peer whose device acknowledges writes is merely busy, and gets no more probes. writeSince is when the
// outstanding write was posted, 0 if there is none.
func (w *EchoWatch) Look(at, writeSince int64, writeFailed bool) (missing bool) {
	if w.deadline == 0 || at < w.deadline {
		return false
	}
	w.deadline = 0
	writeSilent := writeFailed || writeSince != 0 && at-writeSince >= WriteSilentAfter
	if writeSilent && !w.asked {
		w.asked, w.more, w.nextMore = true, MoreProbes, at
	}
	missing, w.reported = !w.reported, true
	return missing
}

// TakeMore reports whether another probe is due now because of a missing echo, and expects the caller to send it.
func (w *EchoWatch) TakeMore(at int64) bool {
	if w.more == 0 || at < w.nextMore {
		return false
	}
	w.more--
	w.nextMore = at + MoreEvery
	return true
}

// Next returns when Look or TakeMore has something to do next, at most until.
func (w *EchoWatch) Next(until int64) int64 {
	if w.deadline != 0 {
		until = min(until, w.deadline)
	}
	if w.more > 0 {
		until = min(until, w.nextMore)
	}
	return until
}
