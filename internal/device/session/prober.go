package session

import (
	"context"
	"runtime"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// prober runs the probe of one port and completion vector, one round at a time. It chooses the
// method again and recreates the probe when the port or its addresses change, when a round has
// made the probe unusable, and when it is time to retry a refused method.
type prober struct {
	*Choice
	s      *session
	next   time.Time   // when the next round is due
	nudged wake.Signal // holds a token after nudge, for a prober without a probe
}

// makeProbers creates one prober for each watched port and completion vector.
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
				Device: s.dev, Options: s.o.Probe, Asker: s.asker, Port: p.probedPort, Vector: v,
				Report: func(i verbs.ProbeItem) { s.out.add(verbs.Item{Probe: &i}) },
			})}
			p.probers = append(p.probers, one)
			all = append(all, one)
		}
	}
	return all
}

// run runs the rounds until ctx ends. index spreads the first rounds of the probers over the interval.
func (p *prober) run(ctx context.Context, index int) error {
	interval := p.s.o.Probe.Interval
	if !sleep(ctx, interval*time.Duration(index%16)/16) {
		return nil
	}
	// A prober keeps its thread. Otherwise it may continue in a thread on another CPU, whose caches are cold. With a thread
	// of its own a prober's 99th percentile equals that of a C program; without, it is 1.2 times as long
	// (docs/explanation/performance.md).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.next = time.Now()
	for ctx.Err() == nil {
		if err := p.runNext(ctx); err != nil {
			return err
		}
	}
	return nil // the device closes its probes
}

// nextPause returns the time until the next round. Rounds stay on a grid: if a round took longer
// than the interval, the rounds that were due meanwhile are skipped. The plan is never more than
// one interval ahead, even if rounds take no time.
func (p *prober) nextPause() time.Duration {
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

// sleep waits for d, and reports false if ctx ends first. It creates no timer if d is zero or negative: Go's race detector crashes if many
// goroutines in a synctest bubble receive from expired timers (https://go.dev/issue/78156).
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// runNext chooses a method if that is due, waits for the port to change if there is no probe, or runs rounds.
func (p *prober) runNext(ctx context.Context) error {
	if p.Outdated() {
		return p.chooseAgain(ctx)
	}
	if !p.HasProbe() {
		p.waitForRetry(ctx)
		return nil
	}
	interval := p.s.o.Probe.Interval
	n, err := p.Rounds(verbs.Pace{Pause: p.nextPause(), Interval: interval, For: p.untilRetry()})
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

// maxCallTime is the longest time for which one call runs rounds. During the call the thread stays in C, where a round costs two
// wake-ups; a call for each round would cost twice as many. Whatever affects the probe ends the call earlier, by a nudge.
const maxCallTime = time.Hour

// untilRetry returns how long rounds may be run before the method must be chosen again.
func (p *prober) untilRetry() time.Duration {
	if !p.fallback {
		return maxCallTime
	}
	return min(maxCallTime, max(0, p.retry.at.Sub(p.now())))
}

// awaitAnswers waits until the device answers its commands. Creating or destroying a queue pair is a
// command, too, and a worker that hangs in it cannot recover.
func (p *prober) awaitAnswers(ctx context.Context) {
	for !p.s.asker.Answers() && sleep(ctx, verbs.AnswerLimit) {
	}
}

// waitForRetry waits until the port changes or it is time to retry a refused method. The prober
// has no probe meanwhile.
func (p *prober) waitForRetry(ctx context.Context) {
	due := time.NewTimer(time.Until(p.retry.at))
	defer due.Stop()
	select {
	case <-ctx.Done():
	case <-p.nudged:
	case <-due.C:
	}
}

// chooseAgain chooses the method again when the next round is due, and not before. Otherwise a
// flapping link would determine how often queue pairs are created.
func (p *prober) chooseAgain(ctx context.Context) error {
	p.awaitAnswers(ctx)
	if err := p.Drop(); err != nil {
		return err
	}
	if !sleep(ctx, p.nextPause()) {
		return nil
	}
	p.next = p.next.Add(p.s.o.Probe.Interval)
	p.Outdated() // the choice considers all changes so far, so mark them as seen
	return p.Choose()
}
