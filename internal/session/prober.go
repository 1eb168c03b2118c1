package session

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/verbs"
	"rdma_events/internal/wake"
)

// prober runs the probe of one port and completion vector, one round at a time. It
// recreates the probe, and chooses the method again, when the port or its addresses
// change, when a round made the probe unusable, and when a refused method is due again.
type prober struct {
	s             *session
	port          *port
	vector        int
	seen, settled uint64    // the port's counts at the last check
	next          time.Time // when the next round is due
	mu            sync.Mutex
	probe         verbs.Probe // under mu, for nudge; only the prober writes it
	method        verbs.Method
	fallback      bool         // the first choice was refused
	again         again        // when a refused method is tried again
	failed        verbs.Method // the first method that ran and failed when none was kept
	nudged        wake.Signal  // holds a token of nudge, for a prober without a probe
	mute          bool         // the last round of a method other than flush lost its event
	reported      string       // the last choice reported, with its reason
	rounds        []verbs.Round
}

// probers returns one prober for each watched port and completion vector.
func (s *session) probers() []*prober {
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
			one := &prober{s: s, port: p, vector: v, nudged: wake.New()}
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
	// (docs/performance.md).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.rounds = make([]verbs.Round, min(roundsWait/interval+1, maxRounds))
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
	p.next = p.next.Add(verbs.Missed(late, interval))
	return max(-late, 0)
}

// nudge makes the prober check again whether its probe is outdated.
func (p *prober) nudge() {
	p.nudged.Send()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probe != nil {
		p.probe.Nudge()
	}
}

func (p *prober) set(probe verbs.Probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probe = probe
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
	if p.outdated() {
		return p.renew(ctx)
	}
	if p.probe == nil {
		p.waitForRetry(ctx)
		return nil
	}
	interval := p.s.o.Probe.Interval
	n, err := p.probe.Rounds(p.rounds, verbs.Pace{Pause: p.pause(), Interval: interval, For: roundsWait})
	done := slices.DeleteFunc(p.rounds[:n], func(r verbs.Round) bool { return r.Outcome == verbs.OutcomeCanceled })
	p.next = p.next.Add(interval * time.Duration(len(done)))
	p.report(done...)
	if err != nil {
		return err
	}
	if !p.probe.Usable() {
		p.fallback = false
		p.park(ctx)
		return p.drop()
	}
	return nil
}

// park waits until the device answers its commands. To make or destroy a queue pair is one too,
// and a worker that hangs in one is lost.
func (p *prober) park(ctx context.Context) {
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

func (p *prober) report(rounds ...verbs.Round) {
	if n := len(rounds); n > 0 {
		p.heard(rounds[n-1].Outcome)
	}
	for i := range rounds {
		p.s.asks.NoteRound(p.port.number, rounds[i].Outcome)
	}
	p.s.out.addRounds(verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: p.port.number, Vector: p.vector, Method: p.method}}, rounds...)
}

// renew chooses again when the next round is due, and not before. Otherwise a link that
// goes down and up quickly would decide how often queue pairs are made.
func (p *prober) renew(ctx context.Context) error {
	p.park(ctx)
	if err := p.drop(); err != nil {
		return err
	}
	if !wait(ctx, p.pause()) {
		return nil
	}
	p.next = p.next.Add(p.s.o.Probe.Interval)
	p.outdated() // the choice takes account of all changes until now
	return p.choose()
}

// outdated reports whether to choose again. Right after an event a port may refuse a
// method that it accepts a moment later. So a second choice is not kept once the port has
// settled.
func (p *prober) outdated() bool {
	seen, settled := p.port.seen.Load(), p.port.settled.Load()
	changed := seen != p.seen || p.fallback && settled != p.settled
	p.seen, p.settled = seen, settled
	if changed {
		p.again, p.failed = again{}, verbs.MethodNone
	}
	if p.fallback {
		return changed || p.again.due()
	}
	return changed || p.probe == nil
}

func (p *prober) drop() error {
	if p.probe == nil {
		return nil
	}
	probe := p.probe
	p.set(nil)
	err := probe.Close(closeTimeout)
	if errors.Is(err, verbs.ErrStuck) || errors.Is(err, verbs.ErrClosed) {
		return err
	}
	return nil // the prober can do nothing about a failed destroy; the device's Close reports its own error
}
