package verdict

import "time"

// These constants define when an echo is missing and how many more probes a Fabric then sends. Times are in ns. EchoWatch applies the rule in
// the simulator. The native backend applies the same rule in C (native_fabric.c) and receives the constants with its configuration.
const (
	// MissingAfter is the time after which an echo is missing.
	MissingAfter = int64(100 * time.Millisecond)
	// WriteSilentAfter is the time after which an outstanding write counts as silent when an echo is missing. It is shorter than
	// MissingAfter because a write is posted just after its probe. A write that was posted recently, with a later probe, does not count.
	WriteSilentAfter = MissingAfter / 2
	// MoreProbes is the number of additional probes sent when both echo and write are silent. The first one is sent at once.
	MoreProbes = 3
	// MoreEvery is the time between two additional probes.
	MoreEvery = int64(50 * time.Millisecond)
	// LateAfter is the longest delay of a Fabric's thread that leaves its deadlines unchanged. After a longer delay, every awaited echo
	// gets the whole MissingAfter again.
	LateAfter = int64(50 * time.Millisecond)
)

// VerdictsWithin is the time, in ns after the first missing echo, by which every verdict that silence can cause has begun.
const VerdictsWithin = minBusySilence + int64(time.Second)

// IsMissing reports whether, at time at, the echo of an unanswered probe sent at time sent is missing.
func IsMissing(sent, at int64) bool { return at-sent >= MissingAfter }

// EchoWatch decides for one pair when an echo is missing and when additional probes are due. It waits for one echo at a time. The zero value
// waits for none. An EchoWatch must not be used concurrently.
type EchoWatch struct {
	newest        uint64 // number of the last probe sent
	newestSent    int64  // time at which newest was sent
	awaited       uint64 // number of the probe whose echo is awaited
	deadline      int64  // time at which the awaited echo is missing; 0: no echo is awaited
	reported      bool   // a missing echo was reported since the last echo
	moreRequested bool   // additional probes were scheduled since the last echo
	moreLeft      int    // additional probes not yet sent
	nextMoreAt    int64  // time at which the next additional probe is due
}

// NoteSent records that a probe was sent. The numbers of probes must rise.
func (w *EchoWatch) NoteSent(seq uint64, at int64) {
	w.newest, w.newestSent = seq, at
	if w.deadline == 0 {
		w.awaited, w.deadline = seq, at+MissingAfter
	}
}

// NoteEcho records the first echo of a probe. If that is the awaited probe or a later one, the newest unanswered probe is awaited next.
func (w *EchoWatch) NoteEcho(seq uint64) {
	w.reported, w.moreRequested, w.moreLeft = false, false, 0
	if seq < w.awaited {
		return
	}
	w.deadline = 0
	if seq < w.newest {
		w.awaited, w.deadline = w.newest, w.newestSent+MissingAfter
	}
}

// RestartDeadline gives the awaited echo the whole MissingAfter again. Call it when the thread ran too late to have seen the echo.
func (w *EchoWatch) RestartDeadline(at int64) {
	if w.deadline != 0 {
		w.deadline = at + MissingAfter
	}
}

// CheckMissing reports whether an echo has become missing, at most once until the next echo. If the write is silent as well, CheckMissing
// schedules additional probes, also once until the next echo. A peer whose device acknowledges writes is only busy and gets no additional
// probes. writeSince is the time at which the outstanding write was posted, or 0 if no write is outstanding.
func (w *EchoWatch) CheckMissing(at, writeSince int64, writeFailed bool) (missing bool) {
	if w.deadline == 0 || at < w.deadline {
		return false
	}
	w.deadline = 0
	writeSilent := writeFailed || writeSince != 0 && at-writeSince >= WriteSilentAfter
	if writeSilent && !w.moreRequested {
		w.moreRequested, w.moreLeft, w.nextMoreAt = true, MoreProbes, at
	}
	missing, w.reported = !w.reported, true
	return missing
}

// TakeMoreProbe reports whether an additional probe is due. If so, the caller must send it.
func (w *EchoWatch) TakeMoreProbe(at int64) bool {
	if w.moreLeft == 0 || at < w.nextMoreAt {
		return false
	}
	w.moreLeft--
	w.nextMoreAt = at + MoreEvery
	return true
}

// NextDeadline returns the time of the next call of CheckMissing or TakeMoreProbe that has an effect, or until if that is earlier.
func (w *EchoWatch) NextDeadline(until int64) int64 {
	if w.deadline != 0 {
		until = min(until, w.deadline)
	}
	if w.moreLeft > 0 {
		until = min(until, w.nextMoreAt)
	}
	return until
}
