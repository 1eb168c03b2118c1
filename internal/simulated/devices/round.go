package devices

import (
	"syscall"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// decision determines the course of a round. It is made before the waits of the round.
type decision struct {
	outcome verbs.Outcome
	failure
	events    uint64 // events read in this round
	stray     uint64 // events of these without a completion
	lateEvent bool   // the event arrives after the deadline
	breaks    bool   // the queue pair ends in state error
	until     int64  // end of the round; 0: it ends at once, without waiting for the drawn durations
}

// failure is the cause of a failed round: the call that fails with EIO, or the status of its completion.
type failure struct {
	call       ledger.Call // CallNone: none
	completion int
}

// flushed is the status IBV_WC_WR_FLUSH_ERR.
const flushed = 5

// Round implements verbs.Probe.
func (p *probe) Round(pause time.Duration) (verbs.Round, error) {
	canceled := verbs.Round{Outcome: verbs.OutcomeCanceled}
	if p.gate.enter() {
		defer p.gate.leave()
		if p.pauseUntilNudge(pause) {
			return canceled, nil
		}
		if r, ok := p.runRound(); ok {
			return r, nil
		}
	}
	return canceled, opError("probe", p.d.attr.Name, p.c.Port, verbs.ErrClosed)
}

// Rounds implements verbs.Probe.
func (p *probe) Rounds(pace verbs.Pace) (last verbs.Round, done int, err error) {
	due := p.d.w.clock() + int64(pace.Pause)
	end := due + int64(pace.For)
	for {
		last, err = p.Round(time.Duration(due - p.d.w.clock()))
		if err != nil || last.Outcome == verbs.OutcomeCanceled {
			return last, done, err
		}
		done++
		due += int64(pace.Interval)
		due += int64(verbs.MissedIntervals(time.Duration(p.d.w.clock()-due), pace.Interval))
		if last.Outcome != verbs.OutcomeSuccess || pace.Interval <= 0 || due > end {
			return last, done, nil
		}
	}
}

// pauseUntilNudge waits for pause. It returns true if Nudge ended the wait. Close ends it
// too; the next round then finds the gate shut.
func (p *probe) pauseUntilNudge(pause time.Duration) bool {
	if pause <= 0 {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.gate.closing:
	case <-p.nudge:
		return true
	}
	return false
}

// Nudge implements verbs.Probe.
func (p *probe) Nudge() { p.nudge.Send() }

func (p *probe) runRound() (verbs.Round, bool) {
	if p.gate.isShutting() {
		return verbs.Round{}, false
	}

	p.rounds++
	start := p.d.w.clock()
	s := p.drawStages()
	if !p.hangIfDue(start, &s) {
		return verbs.Round{}, false
	}
	d := p.decideRound(start, &s)
	if d.until > 0 && !p.d.w.Sleep(d.until, p.gate.closing) {
		return verbs.Round{}, false
	}
	r := p.recordRound(start, s, d)
	p.setThreadState(ledger.CallNone, p.d.w.clock())
	return r, true
}

// hangIfDue blocks the round in a verbs call while a hang_round lasts. It returns false
// if the probe closes meanwhile.
func (p *probe) hangIfDue(start int64, s *stages) bool {
	f, end := p.fault(hangRound, start)
	if f == nil {
		return true
	}
	p.setThreadState(ledger.CallReqNotifyCQ, start)
	if !p.d.w.Sleep(end, p.gate.abandoned) {
		return false
	}
	p.setThreadState(ledger.CallNone, p.d.w.clock())
	s.arm += p.d.w.clock() - start
	return !p.gate.isShutting()
}

func (p *probe) fault(kind faultKind, now int64) (*fault, int64) {
	return p.d.h.fault(kind, p.c.Port, p.c.Vector, now)
}

// decideRound decides the course of the round, first by the state of the device, then by
// the faults in effect at its start.
func (p *probe) decideRound(start int64, s *stages) decision {
	gone, dropped := p.linkState()
	switch {
	case gone:
		return decision{outcome: verbs.OutcomeError, failure: failure{call: p.firstCall()}, breaks: true}
	case dropped:
		return decision{outcome: verbs.OutcomeError, failure: failure{completion: flushed}, events: 1, breaks: true}
	}
	deadline := start + int64(p.c.Timeout)
	if f, _ := p.fault(disturbed, start); f != nil {
		return decision{outcome: verbs.OutcomeDisturbed, until: deadline}
	}
	if o := p.d.h.ports[p.c.Port-1].flush; p.c.Method == verbs.MethodFlush && o != verbs.OutcomeSuccess {
		return givenUp(o, deadline)
	}
	if f, _ := p.fault(lostCompletion, start); f != nil {
		return givenUp(verbs.OutcomeLostCompletion, deadline)
	}
	if f, _ := p.fault(lostEvent, start); f != nil {
		return givenUp(verbs.OutcomeLostEvent, deadline)
	}
	if f, _ := p.fault(late, start); f != nil {
		return givenUpLate(deadline)
	}
	if f, _ := p.fault(completionError, start); f != nil {
		return decision{
			outcome: verbs.OutcomeError, failure: failure{completion: f.status}, events: 1,
			breaks: p.c.Method != verbs.MethodFlush,
		}
	}
	d := decision{events: 1}
	if f, _ := p.fault(slow, start); f != nil {
		s.wake = int64(float64(s.wake) * f.factor)
		d.until = start + s.wake
	}
	if s.wake >= int64(p.c.Timeout) {
		return givenUpLate(deadline)
	}
	if f, _ := p.fault(spurious, start); f != nil {
		d.events, d.stray = 2, 1
	}
	return d
}

func givenUp(o verbs.Outcome, deadline int64) decision {
	return decision{outcome: o, until: deadline}
}

func givenUpLate(deadline int64) decision {
	d := givenUp(verbs.OutcomeLostEvent, deadline)
	d.lateEvent = true
	return d
}

// linkState reports whether the device has been removed, and whether the link was lost
// after the queue pair was connected. The method flush has no connection.
func (p *probe) linkState() (gone, dropped bool) {
	h := p.d.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advance(p.d.w.clock())
	dropped = p.broken.Load() || h.ports[p.c.Port-1].lost != p.lost
	return p.d.gone, dropped && p.c.Method != verbs.MethodFlush
}

// firstCall returns the call that fails first in a round on a removed device.
func (p *probe) firstCall() ledger.Call {
	if p.c.Method == verbs.MethodFlush {
		return ledger.CallCreateQP
	}
	return ledger.CallPostSend
}

// recordRound counts the round and sets its durations.
func (p *probe) recordRound(start int64, s stages, d decision) verbs.Round {
	r := ledger.Round{Outcome: int32(d.outcome), Call: d.call, Completion: int32(d.completion), Start: start}
	if d.call != ledger.CallNone {
		r.Errno = int32(syscall.EIO)
	}
	c := ledger.ProbeCounts{Events: d.events + p.late, Late: p.late, Spurious: d.stray}
	// The next round reads the event of an abandoned round.
	p.late = 0
	if d.lateEvent {
		p.late = 1
	}
	if p.unacked == 0 {
		p.oldest = start + s.wake
	}
	p.unacked += c.Events
	if d.events > 0 {
		r.Wake, r.Get, r.Arm, r.Drain = s.wake, s.get, s.arm, s.drain
		r.Total = s.wake + s.arm + s.drain
	}
	if p.unacked >= uint64(p.c.AckBatch) {
		c.Acked, p.unacked = p.unacked, 0
		if d.events > 0 {
			r.Ack = s.ack
			r.Total += s.ack
			r.Hold = start + r.Total - p.oldest
		}
	}
	if d.breaks {
		p.broken.Store(true)
	}
	if p.c.Trial {
		countOutcome(&p.held, d.outcome)
	} else {
		countOutcome(&c, d.outcome)
	}
	p.d.led.AddProbeCounts(p.slot, c)
	if p.c.Trial {
		p.last = &r
	} else {
		p.listRound(r)
	}
	return verbs.RoundFromRing(&r)
}

func (p *probe) listRound(r ledger.Round) {
	p.d.led.WriteRound(p.slot, r, verbs.Outcome(r.Outcome) != verbs.OutcomeSuccess)
}

func countOutcome(c *ledger.ProbeCounts, o verbs.Outcome) {
	c.Rounds++
	switch o {
	case verbs.OutcomeSuccess:
		c.Successes++
	case verbs.OutcomeError:
		c.Errors++
	case verbs.OutcomeLostEvent:
		c.LostEvents++
	case verbs.OutcomeLostCompletion:
		c.LostCompletions++
	case verbs.OutcomeDisturbed:
		c.Disturbed++
	}
}
