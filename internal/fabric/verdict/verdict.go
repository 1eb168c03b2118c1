package verdict

import "time"

// Verdict is what is said of a pair, or of the host's own port.
type Verdict string

// The verdicts of a pair. Verdicts says what each means.
const (
	VerdictOK           Verdict = "ok"
	VerdictStarting     Verdict = "starting"
	VerdictPath         Verdict = "path"
	VerdictPeerPort     Verdict = "peer_port"
	VerdictPeerDown     Verdict = "peer_down"
	VerdictPeerBusy     Verdict = "peer_busy"
	VerdictPartial      Verdict = "partial"
	VerdictLossyForward Verdict = "lossy_forward"
	VerdictLossyReverse Verdict = "lossy_reverse"
	VerdictLossyBoth    Verdict = "lossy_both"
)

// IsNetwork reports whether a verdict blames the network.
func (v Verdict) IsNetwork() bool {
	row := v.tableRow()
	return row != nil && row.Blames == BlameNetwork
}

// Direction returns in which direction packets are lost by a verdict: "forward" (to the peer), "reverse" or "both"; "" where it is
// not known.
func (v Verdict) Direction() string {
	if row := v.tableRow(); row != nil {
		return row.Direction
	}
	return ""
}

// IsUnanswered reports whether a pair with this verdict gets no echo at all.
func (v Verdict) IsUnanswered() bool {
	row := v.tableRow()
	return row != nil && row.Unanswered
}

// IsBlackhole reports whether the network passes nothing, at least on one path.
func (v Verdict) IsBlackhole() bool {
	row := v.tableRow()
	return row != nil && row.Blackhole
}

func (v Verdict) isLossy() bool { return v.Direction() != "" }

// weight orders verdicts by their evidence: a pair never turns from one to one of less weight before it is well.
func (v Verdict) weight() int {
	if row := v.tableRow(); row != nil {
		return row.Precedence
	}
	return -1
}

// Sample is what a worker knows of a pair at one moment. Moments are CLOCK_MONOTONIC ns, 0 is never. Counts are those since
// the pair met.
type Sample struct {
	At int64

	Silent      int   // probes without an echo, since the last that came
	SilentSince int64 // when the first of these was sent
	Echoed      int64 // when an echo came last

	WriteSince  int64 // when the write was posted that is outstanding
	WriteDone   int64 // when one was acknowledged last
	WriteFailed bool  // its queue pair is in state error

	// WriteStranded: the queue pair of the writes is in state error, and the hosts cannot talk, without which it is not connected anew. The
	// echo is the only witness until then.
	WriteStranded bool

	Answers    int64 // when the peer's process answered State last
	PeerActive bool  // the peer's port was active then
	PeerGone   bool  // the peer's process said last that what was met there is no more

	Sent, ForwardLost, ReverseLost uint64
	Paths                          []PathSample
}

// IsMissing reports whether an echo is missing.
func (s *Sample) IsMissing() bool { return s.Silent > 0 && IsMissing(s.SilentSince, s.At) }

// PathSample is one path of a pair, that of the write included.
type PathSample struct {
	Missed   int // in a row, each overtaken by an answer on another path, while no queue was dry
	Answered int // in a row
}

// The times and numbers of the verdicts.
const (
	silentProbes   = 3
	silentFor      = int64(250 * time.Millisecond)
	busySilentFor  = int64(2 * time.Second)
	afterBusyFor   = int64(time.Second) // a write of a peer that was busy has to be silent for so long
	stateFor       = int64(750 * time.Millisecond)
	startsFor      = int64(10 * time.Second)
	wellFor        = int64(5 * time.Second)
	missedInARow   = 8
	answeredInARow = 4
	lossWindow     = int64(time.Minute)
	leastLost      = 3
	lossyShare     = 0.02
	cleanShare     = 0.005
)

// Judge says what is wrong with one pair. It is for one goroutine.
type Judge struct {
	began   int64 // when the pair met
	met     bool  // both witnesses have answered
	verdict Verdict
	since   int64 // of the verdict
	well    int64 // since when both witnesses have answered; 0: they do not
	path    int   // that is silent, with VerdictPartial
	losses  []counts
}

// counts are the counts of a moment.
type counts struct {
	at                     int64
	sent, forward, reverse uint64
}

// NewJudge returns the Judge of a pair that has met at a moment.
func NewJudge(at int64) *Judge {
	return &Judge{began: at, verdict: VerdictStarting, since: at, path: -1}
}

// Verdict returns the verdict, and the moment since when it has held.
func (j *Judge) Verdict() (v Verdict, since int64) { return j.verdict, j.since }

// Path returns the index of the path that is silent, -1 if no single one is.
func (j *Judge) Path() int { return j.path }

// See takes the next sample, and reports whether the verdict has changed.
func (j *Judge) See(s *Sample) (changed bool) {
	j.remember(s)
	found, path := j.found(s)
	switch {
	case j.verdict == VerdictStarting:
		// A pair whose device has sent no probe yet says nothing about anything.
		if j.met = s.Echoed != 0 && s.WriteDone != 0; !j.met && (s.Sent == 0 || s.At-j.began < startsFor) {
			return false
		}
	case s.PeerGone && j.verdict == VerdictPath && found == VerdictPeerDown:
		// The process had answered before it knew. That is no healing, which takes longer, but a correction.
	case found.weight() < j.verdict.weight() && !j.isOver(s):
		return false
	case found.weight() < j.verdict.weight() && !j.verdict.isLossy():
		// What was lost meanwhile was said already, and is no loss of the way that is whole again.
		j.losses = j.losses[len(j.losses)-1:]
		found, path = j.found(s)
	}
	if found == j.verdict {
		return false
	}
	j.verdict, j.since, j.path = found, s.At, path
	return true
}

// found returns what the sample says, whatever was said before.
func (j *Judge) found(s *Sample) (v Verdict, path int) {
	if v := j.silence(s); v != VerdictOK {
		return v, -1
	}
	for i, p := range s.Paths {
		if p.Missed >= missedInARow {
			return VerdictPartial, i
		}
	}
	return j.loss(lossyShare, leastLost), -1
}

// silence judges by the witnesses that say nothing.
func (j *Judge) silence(s *Sample) Verdict {
	if s.Silent < silentProbes {
		return VerdictOK
	}
	silent := s.At - s.SilentSince
	enough := silentFor
	if j.verdict == VerdictPeerBusy {
		enough = afterBusyFor
	}
	switch writeSilent := s.WriteFailed || s.WriteSince != 0 && s.At-s.WriteSince >= enough; {
	case !writeSilent && silent >= busySilentFor && s.WriteDone > s.SilentSince:
		return VerdictPeerBusy
	case !writeSilent || silent < silentFor:
		return VerdictOK
	}
	switch answers := s.Answers > s.SilentSince; {
	case answers && s.PeerActive:
		return VerdictPath
	case answers:
		return VerdictPeerPort
	case silent >= stateFor:
		return VerdictPeerDown
	}
	return VerdictOK // the third witness has time left
}

// remember keeps what loss is counted from, and since when the pair is well.
func (j *Judge) remember(s *Sample) {
	j.losses = append(j.losses, counts{s.At, s.Sent, s.ForwardLost, s.ReverseLost})
	for len(j.losses) > 1 && j.losses[1].at <= s.At-lossWindow {
		j.losses = j.losses[1:]
	}
	writes := s.WriteStranded || !s.WriteFailed && s.WriteDone != 0 && (s.WriteSince == 0 || s.At-s.WriteSince < silentFor)
	switch answered := !s.IsMissing() && s.Echoed != 0 && writes; {
	case !answered:
		j.well = 0
	case j.well == 0:
		j.well = s.At
	}
}

// loss returns the verdict on a minute in which at least so many, and this share, were lost in a direction.
func (j *Judge) loss(share float64, least uint64) Verdict {
	first, last := j.losses[0], j.losses[len(j.losses)-1]
	sent := last.sent - first.sent
	lost := func(n uint64) bool { return n >= least && float64(n) >= share*float64(sent) && n > 0 }
	forward, reverse := lost(last.forward-first.forward), lost(last.reverse-first.reverse)
	switch {
	case forward && reverse:
		return VerdictLossyBoth
	case forward:
		return VerdictLossyForward
	case reverse:
		return VerdictLossyReverse
	}
	return VerdictOK
}

// isOver reports whether what the verdict says is over.
func (j *Judge) isOver(s *Sample) bool {
	if j.well == 0 || s.At-j.well < wellFor {
		return false
	}
	switch j.verdict {
	case VerdictPartial:
		return j.path >= len(s.Paths) || s.Paths[j.path].Answered >= answeredInARow
	case VerdictLossyForward, VerdictLossyReverse, VerdictLossyBoth:
		return s.At-j.since >= lossWindow && j.loss(cleanShare, 1) == VerdictOK
	}
	return true
}
