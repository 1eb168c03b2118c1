package verdict

import "time"

// Verdict is the result of evaluating a pair, or a port of this host.
type Verdict string

// The verdicts of a pair. The function Verdicts returns their meanings.
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

// Direction returns the direction in which packets are lost: "forward" (to the peer), "reverse" or "both". It returns "" if the direction is
// not known or no packets are lost.
func (v Verdict) Direction() string {
	if row := v.tableRow(); row != nil {
		return row.Direction
	}
	return ""
}

// IsUnanswered reports whether a pair with this verdict receives no echo at all.
func (v Verdict) IsUnanswered() bool {
	row := v.tableRow()
	return row != nil && row.Unanswered
}

// IsBlackhole reports whether the network delivers nothing on at least one path.
func (v Verdict) IsBlackhole() bool {
	row := v.tableRow()
	return row != nil && row.Blackhole
}

func (v Verdict) isLossy() bool { return v.Direction() != "" }

// precedence returns the rank of the verdict's evidence. A pair never changes to a verdict of lower precedence before it has recovered.
func (v Verdict) precedence() int {
	if row := v.tableRow(); row != nil {
		return row.Precedence
	}
	return -1
}

// Sample holds what is known about a pair at one time. Times are CLOCK_MONOTONIC ns, and 0 means never. Counts start when the pair is
// connected.
type Sample struct {
	At int64

	Silent      int   // probes without an echo since the last echo
	SilentSince int64 // time at which the first of these probes was sent
	Echoed      int64 // time of the last echo

	WriteSince  int64 // time at which the outstanding write was posted
	WriteDone   int64 // time of the last acknowledgement of a write
	WriteFailed bool  // the queue pair of the writes is in state error

	// WriteStranded is set while the queue pair of the writes is in state error and the hosts have no TCP connection, without which they
	// cannot reconnect it. Until then only echoes are evaluated.
	WriteStranded bool

	Answers    int64 // time at which the peer's process last answered State
	PeerActive bool  // the peer's port was active in that answer
	PeerGone   bool  // the last answer said that the connected port or session no longer exists

	Sent, ForwardLost, ReverseLost uint64
	Paths                          []PathSample
}

// IsMissing reports whether an echo is missing.
func (s *Sample) IsMissing() bool { return s.Silent > 0 && IsMissing(s.SilentSince, s.At) }

// PathSample is the state of one path of a pair. The write has a path of its own.
type PathSample struct {
	Missed   int // consecutive missing probes that an answer on another path overtook while no receive queue was empty
	Answered int // consecutive answered probes
}

// The thresholds of the verdicts. Times are in ns.
const (
	minUnanswered       = 3
	minSilence          = int64(250 * time.Millisecond)
	minBusySilence      = int64(2 * time.Second)
	minSilenceAfterBusy = int64(time.Second) // of a write to a peer that was busy
	stateTimeout        = int64(750 * time.Millisecond)
	startTimeout        = int64(10 * time.Second)
	recoveryTime        = int64(5 * time.Second)
	minMissedInRow      = 8
	minAnsweredInRow    = 4
	lossWindow          = int64(time.Minute)
	minLost             = 3
	lossyShare          = 0.02
	cleanShare          = 0.005
)

// Judge determines the verdict of one pair. It must not be used concurrently.
type Judge struct {
	connectedAt    int64 // time at which the pair was connected
	verdict        Verdict
	since          int64          // start of the verdict
	answeringSince int64          // time since which echo and write are answered; 0: at least one is not
	silentPath     int            // index of the silent path of VerdictPartial; -1: none
	history        []countReading // the counts of the last lossWindow, the oldest first
}

// countReading is a reading of the counts of a pair.
type countReading struct {
	at                     int64
	sent, forward, reverse uint64
}

// NewJudge returns the Judge of a pair that was connected at time at.
func NewJudge(at int64) *Judge {
	return &Judge{connectedAt: at, verdict: VerdictStarting, since: at, silentPath: -1}
}

// Verdict returns the current verdict and the time at which it began.
func (j *Judge) Verdict() (v Verdict, since int64) { return j.verdict, j.since }

// Path returns the index of the silent path if the verdict is VerdictPartial, and -1 otherwise.
func (j *Judge) Path() int { return j.silentPath }

// Update evaluates the next sample and reports whether the verdict has changed.
func (j *Judge) Update(s *Sample) (changed bool) {
	j.recordSample(s)
	found, path := j.assessSample(s)
	switch {
	case j.verdict == VerdictStarting:
		// There is no evidence until the device has sent a probe.
		answered := s.Echoed != 0 && s.WriteDone != 0
		if !answered && (s.Sent == 0 || s.At-j.connectedAt < startTimeout) {
			return false
		}
	case s.PeerGone && j.verdict == VerdictPath && found == VerdictPeerDown:
		// The peer's process answered before it noticed the end of its worker. This corrects the verdict; the pair has not recovered.
	case found.precedence() < j.verdict.precedence() && !j.faultHasEnded(s):
		return false
	case found.precedence() < j.verdict.precedence() && !j.verdict.isLossy():
		// The outage already accounts for these losses; do not count them against the recovered path.
		j.history = j.history[len(j.history)-1:]
		found, path = j.assessSample(s)
	}
	if found == j.verdict {
		if found == VerdictPartial && j.isPathAnswered(s) {
			j.silentPath = path
		}
		return false
	}
	j.verdict, j.since, j.silentPath = found, s.At, path
	return true
}

// assessSample returns the verdict that the sample alone supports, whatever the current verdict is.
func (j *Judge) assessSample(s *Sample) (v Verdict, path int) {
	if v := j.judgeSilence(s); v != VerdictOK {
		return v, -1
	}
	for i, p := range s.Paths {
		if p.Missed >= minMissedInRow {
			return VerdictPartial, i
		}
	}
	return j.judgeLoss(lossyShare, minLost), -1
}

// judgeSilence returns the verdict that unanswered probes, writes and State requests support.
func (j *Judge) judgeSilence(s *Sample) Verdict {
	if s.Silent < minUnanswered {
		return VerdictOK
	}
	silent := s.At - s.SilentSince
	enough := minSilence
	if j.verdict == VerdictPeerBusy {
		enough = minSilenceAfterBusy
	}
	switch writeSilent := s.WriteFailed || s.WriteSince != 0 && s.At-s.WriteSince >= enough; {
	case !writeSilent && silent >= minBusySilence && s.WriteDone > s.SilentSince:
		return VerdictPeerBusy
	case !writeSilent || silent < minSilence:
		return VerdictOK
	}
	switch answers := s.Answers > s.SilentSince; {
	case answers && s.PeerActive:
		return VerdictPath
	case answers:
		return VerdictPeerPort
	case silent >= stateTimeout:
		return VerdictPeerDown
	}
	return VerdictOK // the peer's process may still answer
}

// recordSample keeps the counts of the sample for judgeLoss and tracks since when echo and write are answered.
func (j *Judge) recordSample(s *Sample) {
	j.history = append(j.history, countReading{s.At, s.Sent, s.ForwardLost, s.ReverseLost})
	for len(j.history) > 1 && j.history[1].at <= s.At-lossWindow {
		j.history = j.history[1:]
	}
	writes := s.WriteStranded || !s.WriteFailed && s.WriteDone != 0 && (s.WriteSince == 0 || s.At-s.WriteSince < minSilence)
	switch answered := !s.IsMissing() && s.Echoed != 0 && writes; {
	case !answered:
		j.answeringSince = 0
	case j.answeringSince == 0:
		j.answeringSince = s.At
	}
}

// judgeLoss returns the lossy verdict of the last lossWindow. A direction is lossy if it lost at least least probes and at least share of the
// probes sent.
func (j *Judge) judgeLoss(share float64, least uint64) Verdict {
	first, last := j.history[0], j.history[len(j.history)-1]
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

// faultHasEnded reports whether the fault that the verdict names has ended.
func (j *Judge) faultHasEnded(s *Sample) bool {
	if j.answeringSince == 0 || s.At-j.answeringSince < recoveryTime {
		return false
	}
	switch j.verdict {
	case VerdictPartial:
		return j.isPathAnswered(s)
	case VerdictLossyForward, VerdictLossyReverse, VerdictLossyBoth:
		return s.At-j.since >= lossWindow && j.lossHasEnded()
	}
	return true
}

// isPathAnswered reports whether the path that was silent is answered again.
func (j *Judge) isPathAnswered(s *Sample) bool {
	return j.silentPath >= len(s.Paths) || s.Paths[j.silentPath].Answered >= minAnsweredInRow
}

// lossHasEnded reports whether the loss has ended in the direction that the verdict names. Of VerdictLossyBoth one direction may have ended
// while the other one is still lossy.
func (j *Judge) lossHasEnded() bool {
	switch left := j.judgeLoss(cleanShare, 1); j.verdict {
	case VerdictLossyForward:
		return left == VerdictOK || left == VerdictLossyReverse
	case VerdictLossyReverse:
		return left == VerdictOK || left == VerdictLossyForward
	default:
		return left == VerdictOK || left != VerdictLossyBoth && left == j.judgeLoss(lossyShare, minLost)
	}
}
