package session

import (
	"errors"
	"fmt"
	"time"

	"rdma_events/internal/verbs"
)

const (
	// unprobed bounds how long a port without a probe waits for the next attempt,
	// each of which costs the device several commands.
	unprobed = 5 * time.Minute
	// secondBest and secondBestMax are how long a probe of another than the first
	// choice is kept at first and at most before that is tried again: what refused
	// it may have been two bad seconds of a path, which no event ends.
	secondBest    = time.Minute
	secondBestMax = 30 * time.Minute
	// maxCommands is how many commands a minute the rounds of a port may cost its device.
	maxCommands = 120
	// handleCommands are those of an address handle: to make it and to destroy it.
	handleCommands = 2
)

// again says when what was refused is due again.
type again struct {
	at           time.Time
	first, delay time.Duration
}

// refused plans the next attempt: after first, and twice as long each time. It
// begins anew where first is another, since then less or more was refused before.
func (a *again) refused(first, limit time.Duration) {
	if a.first != first {
		*a = again{first: first}
	}
	a.delay = min(max(2*a.delay, first), max(limit, first))
	a.at = time.Now().Add(a.delay)
}

func (a *again) due() bool { return !time.Now().Before(a.at) }

// choose takes the first method that can be made and whose first round comes to
// its end. A port that is up and was left without a probe has a fault, which the
// counts are to show: the first method that failed on it is no longer on trial.
func (p *prober) choose() error {
	reason, second, failed := "as preferred", false, verbs.MethodNone
	counted := p.failed
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
			p.tell(c.method, reason)
			return nil
		}
		reason, second = refused, true
		if ran && failed == verbs.MethodNone {
			failed = c.method
		}
	}
	p.fallback, p.failed = true, failed
	p.again.refused(p.s.o.Probe.Interval, unprobed)
	p.tell(verbs.MethodNone, reason)
	return nil
}

// kept notes a choice. One that its first round has spoilt is made anew as after
// any other round.
func (p *prober) kept(second bool) {
	p.fallback, p.failed = second && p.probe != nil, verbs.MethodNone
	switch {
	case p.fallback:
		p.again.refused(secondBest, secondBestMax)
	case !second:
		p.again = again{}
	}
}

// try makes a probe of method m and runs its first round; ran says that it came so
// far. A method that the configuration names is kept however that ends. An automatic
// choice is on trial: where it is not kept, its round is no round of the device's,
// and nothing counts it, unless it is no trial.
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

func (p *prober) automatic() bool { return p.s.o.Probe.Method == "auto" }

// unfit reports whether a trial's outcome speaks against the method. A lost event
// does not, since all methods need the interrupt, but for flush, which some drivers
// do in their library without raising an event (bnxt_re, mana): there it has to be
// lost by another method too.
func (p *prober) unfit(o verbs.Outcome) bool {
	return o == verbs.OutcomeError || o == verbs.OutcomeLostCompletion ||
		o == verbs.OutcomeLostEvent && p.method == verbs.MethodFlush && !p.mute
}

// heard notes how a round ended, for unfit.
func (p *prober) heard(o verbs.Outcome) {
	if p.method != verbs.MethodFlush {
		p.mute = o == verbs.OutcomeLostEvent
	}
}

func (p *prober) config(m verbs.Method, trial bool) verbs.ProbeConfig {
	o := p.s.o.Probe
	return verbs.ProbeConfig{
		Port: p.port.number, Vector: p.vector, Method: m, Timeout: o.Timeout,
		AckBatch: o.AckBatch, GIDIndex: o.GIDIndex, PKeyIdx: o.PKeyIdx, Trial: trial,
	}
}

// tell reports a choice once; reason is why not an earlier candidate.
func (p *prober) tell(m verbs.Method, reason string) {
	if told := fmt.Sprint(m, reason); told != p.told {
		p.told = told
		p.s.out.add(verbs.Item{Probe: &verbs.ProbeItem{Port: p.port.number, Vector: p.vector, Method: m, Reason: reason}})
	}
}

// candidate is a method to try, or why it is not to be tried.
type candidate struct {
	method  verbs.Method
	refused string
}

// candidates lists the methods in order of preference. On RoCE datagrams come first,
// since they hold an address during a round only; a connection holds its own for
// good, which on InfiniBand is none. An automatic choice never flushes where the
// driver counts flush errors: an operator may be alerted by them.
func (p *prober) candidates() []candidate {
	if m, ok := verbs.ParseMethod(p.s.o.Probe.Method); ok {
		return []candidate{{method: m}}
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

// expensive says why the address handles of all of a port's rounds would cost its
// device too much, nothing where they do not.
func (p *prober) expensive() string {
	if !verbs.HandleIsCommand(p.s.dev.Attr().Driver) {
		return ""
	}
	n := handleCommands * len(p.port.probers) * int(time.Minute) / int(p.s.o.Probe.Interval)
	if n <= maxCommands {
		return ""
	}
	return fmt.Sprintf("an address handle is a command to this device, and ud_send would need %d a minute on this port (at most %d)",
		n, maxCommands)
}
