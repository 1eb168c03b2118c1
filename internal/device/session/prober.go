package session

import (
	"context"
	"runtime"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// prober runs the probe of one port and completion vector, one round at a time. It
// recreates the probe, and chooses the method again, when the port or its addresses
// change, when a round made the probe unusable, and when a refused method is due again.
type prober struct {
	*Choice
	s      *session
	next   time.Time   // when the next round is due
	nudged wake.Signal // holds a token of nudge, for a prober without a probe
}

// makeProbers makes one prober for each watched port and completion vector.
func (s *session) makeProbers() []*prober {
	if s.o.Probe.Interval <= 0 || s.o.Probe.Method == verbs.MethodNone {
		return nil
	}
	vectors := s.o.Probe.Vectors
	if len(vectors) == 1 && vectors[0] == -1 {
		vectors = nil
		for v := range s.dev.Attr().Vectors {
			vectors = append(vectors, v)
		}
	}
	var all []*prober
	for _, p := range s.ports {
		for _, v := range vectors {
			one := &prober{s: s, nudged: wake.New(), Choice: NewChoice(ChoiceConfig{
				Device: s.dev, Options: s.o.Probe, Asker: s.asks, Port: p.probed, Vector: v,
				Report: func(i verbs.ProbeItem) { s.out.add(verbs.Item{Probe: &i}) },
			})}
			p.probers = append(p.probers, one)
			all = append(all, one)
		}
	}
	return all
}

// run probes every interval; index spreads the probers over the interval.
func (p *prober) run(ctx context.Context, index int) error {
	interval := p.s.o.Probe.Interval
	if !wait(ctx, interval*time.Duration(index%16)/16) {
		return nil
	}
	// A prober keeps its thread: another thread is on another CPU, where the next rounds are cold. With a thread of
	// its own a prober's slowest hundredth takes as long as a C program's, and without 1.2 times that
	// (docs/explanation/performance.md).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.next = time.Now()
	for ctx.Err() == nil {
		if err := p.round(ctx); err != nil {
			return err
		}
	}
	return nil // the device closes its probes
}

// pause returns how long to wait for the next round. Rounds keep to a grid; a round that
// took longer than the interval skips the rounds that it missed. The plan is never more
// than an interval ahead, even if rounds took no time.
func (p *prober) pause() time.Duration {
	interval := p.s.o.Probe.Interval
	late := time.Since(p.next)
	if late < -interval {
		p.next = time.Now().Add(interval)
		return interval
	}
	p.next = p.next.Add(verbs.MissedIntervals(late, interval))
	return max(-late, 0)
}

// nudge makes the prober check again whether its probe is outdated.
func (p *prober) nudge() {
	p.nudged.Send()
	p.Nudge()
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (p *prober) round(ctx context.Context) error {
	if p.Outdated() {
		return p.renew(ctx)
	}
	if !p.HasProbe() {
		p.waitForRetry(ctx)
		return nil
	}
	interval := p.s.o.Probe.Interval
	n, err := p.Rounds(verbs.Pace{Pause: p.pause(), Interval: interval, For: p.untilRetry()})
	p.next = p.next.Add(interval * time.Duration(n))
	if err != nil {
		return err
	}
	if p.IsBroken() {
		p.awaitAnswers(ctx)
		return p.Discard()
	}
	return nil
}

// longest is how long rounds are run in one call at most. Meanwhile the thread stays in C, where a round costs two wake-ups; a call
// for each round costs twice as many. All that changes what a probe does ends the call earlier, by a nudge.
const longest = time.Hour

// untilRetry returns for how long rounds may be run before the method has to be chosen again.
func (p *prober) untilRetry() time.Duration {
	if !p.fallback {
		return longest
	}
	return min(longest, max(0, p.again.at.Sub(p.now())))
}

// awaitAnswers waits until the device answers its commands. To make or destroy a queue pair is one too,
// and a worker that hangs in one is lost.
func (p *prober) awaitAnswers(ctx context.Context) {
	for !p.s.asks.Answers() && wait(ctx, verbs.AnswerLimit) {
	}
}

// waitForRetry waits, without a probe, until the port changes or a refused method is due
// again.
func (p *prober) waitForRetry(ctx context.Context) {
	due := time.NewTimer(time.Until(p.again.at))
	defer due.Stop()
	select {
	case <-ctx.Done():
	case <-p.nudged:
	case <-due.C:
	}
}

// renew chooses again when the next round is due, and not before. Otherwise a link that
// goes down and up quickly would decide how often queue pairs are made.
func (p *prober) renew(ctx context.Context) error {
	p.awaitAnswers(ctx)
	if err := p.Drop(); err != nil {
		return err
	}
	if !wait(ctx, p.pause()) {
		return nil
	}
	p.next = p.next.Add(p.s.o.Probe.Interval)
	p.Outdated() // the choice takes account of all changes until now
	return p.Choose()
}
