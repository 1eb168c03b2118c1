package watch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/verbs"
)

// prober runs the probe of one port and completion vector, one round at a
// time. It makes the probe anew, and with it the choice of method, when the
// port or its addresses change and when a round spoilt it.
type prober struct {
	s             *session
	port          *port
	vector        int
	seen, settled uint64    // the port's counts at the choice
	next          time.Time // of the round to come
	mu            sync.Mutex
	probe         verbs.Probe // under mu, for nudge; written by the prober alone
	method        verbs.Method
	fallback      bool   // method is not the first choice
	told          string // the last reason reported
	rounds        []verbs.Round
}

// probers returns one prober for each watched port and completion vector.
func (s *session) probers() []*prober {
	if s.o.Probe.Interval <= 0 || s.o.Probe.Method == verbs.MethodNone.String() {
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
			one := &prober{s: s, port: p, vector: v}
			p.probers = append(p.probers, one)
			all = append(all, one)
		}
	}
	return all
}

// run probes every interval, once the port is known; index spreads the probers
// over the interval.
func (p *prober) run(ctx context.Context, index int) error {
	interval := p.s.o.Probe.Interval
	select {
	case <-ctx.Done():
		return nil
	case <-p.s.based:
	}
	if !wait(ctx, interval*time.Duration(index%16)/16) {
		return nil
	}
	// On another thread the next rounds are cold, since it is on another CPU: with a thread of its own a prober's
	// slowest hundredth takes as long as a C program's, and without 1.2 times that (docs/performance.md).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.rounds = make([]verbs.Round, min(roundsWait/interval+1, maxRounds))
	p.next = time.Now()
	for ctx.Err() == nil {
		if err := p.round(ctx); err != nil {
			return unlessClosed(ctx, err)
		}
	}
	return nil // the device closes its probes
}

// pause returns how long to wait for the next round. Rounds keep to a grid; one
// that took longer than the interval skips what it missed. The plan is never more
// than an interval ahead, whatever rounds took no time.
func (p *prober) pause() time.Duration {
	interval := p.s.o.Probe.Interval
	late := time.Since(p.next)
	switch {
	case late > interval:
		p.next = p.next.Add(late.Truncate(interval))
	case late < -interval:
		p.next = time.Now().Add(interval)
		return interval
	}
	return max(-late, 0)
}

// nudge makes the prober look again whether its probe is outdated.
func (p *prober) nudge() {
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
	interval := p.s.o.Probe.Interval
	n, err := p.probe.Rounds(p.rounds, verbs.Pace{Pause: p.pause(), Interval: interval, For: roundsWait})
	done := slices.DeleteFunc(p.rounds[:n], func(r verbs.Round) bool { return r.Outcome == verbs.OutcomeCanceled })
	p.next = p.next.Add(interval * time.Duration(len(done)))
	p.report(done...)
	if err != nil {
		return err
	}
	if !p.probe.Usable() {
		return p.drop()
	}
	return nil
}

func (p *prober) report(rounds ...verbs.Round) {
	p.s.out.addRounds(RoundItem{Port: p.port.number, Vector: p.vector, Method: p.method}, rounds...)
}

// renew chooses again when the next round is due, and not before: a link that
// flutters would have queue pairs made at its own pace.
func (p *prober) renew(ctx context.Context) error {
	if err := p.drop(); err != nil {
		return err
	}
	if !wait(ctx, p.pause()) {
		return nil
	}
	p.next = p.next.Add(p.s.o.Probe.Interval)
	p.outdated() // the choice knows of what has changed until now
	return p.choose()
}

// outdated reports whether to choose again. Right after an event a port may
// still refuse what it can do a moment later, so a second choice is not kept
// once the port has settled.
func (p *prober) outdated() bool {
	seen, settled := p.port.seen.Load(), p.port.settled.Load()
	old := p.probe == nil || seen != p.seen || p.fallback && settled != p.settled
	p.seen, p.settled = seen, settled
	return old
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
	return nil // a destroy that failed has nobody to act upon it; the device's Close reports its own
}

// choose takes the first method that can be made and whose first round, which is
// a round like any other, comes to its end.
func (p *prober) choose() error {
	reason := "no method is left to try"
	for i, c := range p.candidates() {
		if c.refused != "" {
			reason = c.refused
			continue
		}
		refused, err := p.try(c.method)
		if err != nil {
			return err
		}
		if refused == "" {
			p.fallback = i > 0
			p.tell(c.method, reason)
			return nil
		}
		reason = refused
	}
	p.tell(verbs.MethodNone, reason)
	return nil
}

// try makes a probe of method m and runs its first round. A method that the
// configuration names is kept however that ends; an automatic choice is not
// kept when the completion fails or never comes. A lost event is no reason
// against it: every method needs the interrupt.
func (p *prober) try(m verbs.Method) (refused string, err error) {
	probe, unable := p.s.dev.NewProbe(p.config(m))
	if errors.Is(unable, verbs.ErrClosed) || errors.Is(unable, verbs.ErrNoDevice) {
		return "", unable
	}
	if unable != nil {
		return unable.Error(), nil //nolint:nilerr // to be refused is an answer
	}
	p.set(probe)
	p.method = m
	r, err := probe.Round(0)
	if err != nil || r.Outcome == verbs.OutcomeCanceled {
		return "", err
	}
	p.report(r)
	if p.s.o.Probe.Method == "auto" && (r.Outcome == verbs.OutcomeError || r.Outcome == verbs.OutcomeLostCompletion) {
		return fmt.Sprintf("the first round of %s ended as %s (%s)", m, r.Outcome, r.Status), p.drop()
	}
	if !probe.Usable() {
		return "", p.drop()
	}
	return "", nil
}

func (p *prober) config(m verbs.Method) verbs.ProbeConfig {
	o := p.s.o.Probe
	return verbs.ProbeConfig{
		Port: p.port.number, Vector: p.vector, Method: m, Timeout: o.Timeout,
		AckBatch: o.AckBatch, GIDIndex: o.GIDIndex, PKeyIdx: o.PKeyIdx,
	}
}

// tell reports a choice once; reason is why not an earlier candidate.
func (p *prober) tell(m verbs.Method, reason string) {
	if m == verbs.MethodRCWrite || p.s.o.Probe.Method == m.String() {
		reason = "as preferred"
	}
	if told := fmt.Sprint(m, reason); told != p.told {
		p.told = told
		p.s.out.add(Item{Probe: &ProbeItem{Port: p.port.number, Vector: p.vector, Method: m, Reason: reason}})
	}
}

// candidate is a method to try, or why it is not to be tried.
type candidate struct {
	method  verbs.Method
	refused string
}

// candidates lists the methods in order of preference. An automatic choice
// never flushes where the driver counts flush errors: an operator may be
// alerted by them.
func (p *prober) candidates() []candidate {
	if m, ok := verbs.ParseMethod(p.s.o.Probe.Method); ok {
		return []candidate{{method: m}}
	}
	flush := candidate{method: verbs.MethodFlush}
	if p.s.dev.Attr().CountsFlushes {
		flush.refused = "the driver counts flushed work requests as errors"
	}
	return []candidate{{method: verbs.MethodRCWrite}, flush}
}
