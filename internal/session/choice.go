package session

import (
	"errors"
	"fmt"
	"time"

	"rdma_events/internal/verbs"
)

const (
	// unprobed is the longest time that a port without a probe waits for the next
	// attempt. Each attempt costs the device several commands.
	unprobed = 5 * time.Minute
	// secondBest and secondBestMax are how long a probe of a second choice is kept, at
	// first and at most, before the first choice is tried again. The reason of its
	// refusal may have been two bad seconds of a path, and no event reports their end.
	secondBest    = time.Minute
	secondBestMax = 30 * time.Minute
	// repeats is how often a disturbed first round of a probe is repeated: it says nothing
	// about the method.
	repeats = 2
	// maxCommands is how many commands a minute the rounds of a port may cost its device.
	maxCommands = 120
)

// again plans when a refused method is tried again.
type again struct {
	at           time.Time
	first, delay time.Duration
}

// refused plans the next attempt: after first, then after twice as long each time, at
// most limit. It starts over when first differs from that of the call before, since then
// more or fewer methods were refused.
func (a *again) refused(first, limit time.Duration) {
	if a.first != first {
		*a = again{first: first}
	}
	a.delay = min(max(2*a.delay, first), max(limit, first))
	a.at = time.Now().Add(a.delay)
}

func (a *again) due() bool { return !time.Now().Before(a.at) }

// choose keeps the first candidate whose probe can be made and whose first round gives no
// reason against it (unfit). If a call of choose kept none and the port is up, the port has
// a fault, which the counts have to show: the next call counts the round of the method
// that failed first (p.failed) even if that method is not kept again.
func (p *prober) choose() error {
	reason, second, failed := "as preferred", false, verbs.MethodNone
	counted := p.failed
	if p.s.asks.refusals.Refused(p.port.number, verbs.ReadQueryPort) {
		p.fallback = true
		p.again.refused(p.s.o.Probe.Interval, unprobed)
		p.reportChoice(verbs.MethodNone, "the firmware refuses queries of the port, which a probe needs")
		return nil
	}
	if verbs.PortState(p.port.state.Load()) != verbs.PortActive {
		counted = verbs.MethodNone
	}
	for _, c := range p.candidates() {
		if c.refused != "" {
			reason = c.refused
			continue
		}
		refused, ran, err := p.try(c.method, p.automatic() && c.method != counted)
		if err != nil {
			return err
		}
		if refused == "" {
			p.kept(second)
			p.reportChoice(c.method, reason)
			return nil
		}
		reason, second = refused, true
		if ran && failed == verbs.MethodNone {
			failed = c.method
		}
	}
	p.fallback, p.failed = true, failed
	p.again.refused(p.s.o.Probe.Interval, unprobed)
	p.reportChoice(verbs.MethodNone, reason)
	return nil
}

// kept records a choice. A probe that its first round made unusable is recreated, as
// after any other round.
func (p *prober) kept(second bool) {
	p.fallback, p.failed = second && p.probe != nil, verbs.MethodNone
	switch {
	case p.fallback:
		p.again.refused(secondBest, secondBestMax)
	case !second:
		p.again = again{}
	}
}

// try makes a probe of method m and runs its first round. refused is the reason if the
// method is not kept; ran reports whether its round was run; err ends the session. A
// method that the configuration names is kept whatever the outcome, an automatic choice
// only if the outcome is no reason against it (unfit). With trial the round counts as a
// round of the device only if the method is kept; without trial it always counts.
func (p *prober) try(m verbs.Method, trial bool) (refused string, ran bool, err error) {
	probe, unable := p.s.dev.NewProbe(p.config(m, trial))
	if errors.Is(unable, verbs.ErrClosed) || errors.Is(unable, verbs.ErrNoDevice) {
		return "", false, unable
	}
	if unable != nil {
		return unable.Error(), false, nil //nolint:nilerr // to be refused is an answer
	}
	p.set(probe)
	p.method = m
	r, err := probe.Round(0)
	for range repeats {
		if err != nil || r.Outcome != verbs.OutcomeDisturbed || !probe.Usable() {
			break
		}
		r, err = probe.Round(0)
	}
	if err != nil {
		return "", true, err
	}
	if r.Outcome == verbs.OutcomeCanceled && !probe.Usable() {
		return fmt.Sprintf("%s has no address to send from (%s)", m, r.Status), false, p.drop()
	}
	unfit := p.automatic() && p.unfit(r.Outcome)
	if !unfit {
		probe.Keep()
	}
	if r.Outcome == verbs.OutcomeCanceled {
		return "", true, nil
	}
	if !unfit || !trial {
		p.report(r)
	}
	if unfit {
		p.heard(r.Outcome)
		return fmt.Sprintf("the first round of %s ended as %s (%s)", m, r.Outcome, r.Status), true, p.drop()
	}
	if !probe.Usable() {
		return "", true, p.drop()
	}
	return "", true, nil
}

func (p *prober) automatic() bool { return p.s.o.Probe.Method == verbs.MethodAuto }

// unfit reports whether a trial's outcome is a reason against the method. A lost event is
// no such reason, since all methods need the interrupt. The exception is flush, which
// some drivers do in their library without raising an event (bnxt_re, mana): a lost event
// is a reason against flush unless another method lost its event too.
func (p *prober) unfit(o verbs.Outcome) bool {
	return o == verbs.OutcomeError || o == verbs.OutcomeLostCompletion ||
		o == verbs.OutcomeLostEvent && p.method == verbs.MethodFlush && !p.mute
}

// heard records how a round ended, for unfit.
func (p *prober) heard(o verbs.Outcome) {
	if p.method != verbs.MethodFlush {
		p.mute = o == verbs.OutcomeLostEvent
	}
}

func (p *prober) config(m verbs.Method, trial bool) verbs.ProbeConfig {
	o := p.s.o.Probe
	return verbs.ProbeConfig{
		ProbeKey: verbs.ProbeKey{Port: p.port.number, Vector: p.vector, Method: m}, Timeout: o.Timeout,
		AckBatch: o.AckBatch, GIDIndex: o.GIDIndex, PKeyIndex: o.PKeyIndex, Trial: trial,
	}
}

// reportChoice reports a choice, unless the last report was the same. reason is why no
// earlier candidate was chosen.
func (p *prober) reportChoice(m verbs.Method, reason string) {
	if choice := fmt.Sprint(m, reason); choice != p.reported {
		p.reported = choice
		p.s.out.add(verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: p.port.number, Vector: p.vector, Method: m}, Reason: reason}})
	}
}

// candidate is a method to try, or the reason why it must not be tried.
type candidate struct {
	method  verbs.Method
	refused string
}

// candidates lists the methods in order of preference. On RoCE datagrams come first,
// since they hold an address only during a round, while a connection holds its address
// for good. On InfiniBand a connection holds no address. An automatic choice never
// flushes where the driver counts flush errors, since these may alert an operator.
func (p *prober) candidates() []candidate {
	if !p.automatic() {
		return []candidate{{method: p.s.o.Probe.Method}}
	}
	flush := candidate{method: verbs.MethodFlush}
	if p.s.dev.Attr().CountsFlushes {
		flush.refused = "the driver counts flushed work requests as errors"
	}
	write := candidate{method: verbs.MethodRCWrite}
	switch verbs.LinkLayer(p.port.layer.Load()) {
	case verbs.LinkInfiniBand:
		return []candidate{write, flush}
	case verbs.LinkEthernet:
		return []candidate{{verbs.MethodUDSend, p.expensive()}, write, flush}
	}
	return []candidate{{method: verbs.MethodUDSend}, flush} // EFA, which has no connections
}

// expensive returns why the address handles of all rounds of a port would cost its device
// too much, "" if they would not.
func (p *prober) expensive() string {
	n := verbs.HandleCommands(p.s.dev.Attr().Driver) * len(p.port.probers) * int(time.Minute) / int(p.s.o.Probe.Interval)
	if n <= maxCommands {
		return ""
	}
	return fmt.Sprintf("an address handle is a command to this device, and ud_send would need %d a minute on this port (at most %d)",
		n, maxCommands)
}
