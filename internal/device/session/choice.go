package session

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
)

const (
	// maxRetryDelay is the longest time that a port without a probe waits for the next
	// attempt. Each attempt costs the device several commands.
	maxRetryDelay = 5 * time.Minute
	// secondChoiceTime and secondChoiceMax are the first and the longest time for which a probe
	// of a second choice is kept before the first choice is tried again. The first choice may
	// have failed for two bad seconds of a path, and no event reports their end.
	secondChoiceTime = time.Minute
	secondChoiceMax  = 30 * time.Minute
	// maxRepeats limits how often a disturbed first round of a probe is repeated. Such a round says
	// nothing about the method.
	maxRepeats = 2
	// maxCommands is the largest number of firmware commands a minute for the rounds of a port.
	maxCommands = 120
)

// ChoiceConfig is the configuration of a Choice. All fields are required.
type ChoiceConfig struct {
	Device  verbs.Device
	Options verbs.ProbeOptions
	Asker   *Asker
	Port    func() ProbedPort
	Vector  int
	Report  func(verbs.ProbeItem) // is called with each choice
}

// ProbedPort is the state of a port as a Choice needs it.
type ProbedPort struct {
	Number  int
	Probers int             // number of the port's probers
	State   verbs.PortState // by the last successful query
	Layer   verbs.LinkLayer // by the last successful query
	Seen    uint64          // counts the events and state changes that may affect probes
	Settled uint64          // counts the queries made after the port's events had settled
}

// Choice chooses the method of the probe of one port and completion vector, and keeps the probe. It uses the clock of the
// Asker. Only one goroutine may use it, except that any may call Nudge.
type Choice struct {
	ChoiceConfig
	seen, settled uint64 // the port's counts at the last check
	mu            sync.Mutex
	probe         verbs.Probe // under mu, for Nudge; only the goroutine of the Choice writes it
	method        verbs.Method
	fallback      bool         // the first choice was refused
	retry         retryPlan    // when a refused method is tried again
	failed        verbs.Method // the first method that failed its round when none was kept
	lostEvent     bool         // the last round of a method other than flush lost its event
	reported      string       // the last choice reported, with its reason
}

// NewChoice returns a Choice without a probe.
func NewChoice(c ChoiceConfig) *Choice { return &Choice{ChoiceConfig: c} }

// HasProbe reports whether there is a probe.
func (c *Choice) HasProbe() bool { return c.probe != nil }

// Nudge ends the pause of the probe, if there is one.
func (c *Choice) Nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe != nil {
		c.probe.Nudge()
	}
}

func (c *Choice) setProbe(probe verbs.Probe) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe = probe
}

// Rounds runs rounds of the probe, which must exist. It returns the number of rounds that were not canceled.
func (c *Choice) Rounds(pace verbs.Pace) (int, error) {
	last, n, err := c.probe.Rounds(pace)
	switch {
	case last.Outcome != verbs.OutcomeCanceled:
		c.recordOutcome(last.Outcome)
	case n > 0:
		c.recordOutcome(verbs.OutcomeSuccess)
	}
	return n, err
}

// recordOutcome records the outcome of the last of several rounds. All earlier rounds have succeeded.
func (c *Choice) recordOutcome(o verbs.Outcome) {
	c.recordLostEvent(o)
	c.Asker.HandleOutcome(c.Port().Number, o)
}

// Outdated reports whether Choose must be called again. Right after an event a port may refuse
// a method that it accepts a moment later. A second choice is therefore outdated as soon as the
// port has settled.
func (c *Choice) Outdated() bool {
	p := c.Port()
	changed := p.Seen != c.seen || c.fallback && p.Settled != c.settled
	c.seen, c.settled = p.Seen, p.Settled
	if changed {
		c.retry, c.failed = retryPlan{}, verbs.MethodNone
	}
	if c.fallback {
		return changed || !c.now().Before(c.retry.at)
	}
	return changed || c.probe == nil
}

func (c *Choice) now() time.Time { return c.Asker.Clock.Now() }

// IsBroken reports whether a round has made the probe unusable.
func (c *Choice) IsBroken() bool { return !c.probe.Usable() }

// Discard closes a broken probe. Outdated then returns true.
func (c *Choice) Discard() error {
	c.fallback = false
	return c.Drop()
}

// Drop closes the probe, if there is one.
func (c *Choice) Drop() error {
	if c.probe == nil {
		return nil
	}
	probe := c.probe
	c.setProbe(nil)
	err := probe.Close(closeTimeout)
	if errors.Is(err, verbs.ErrStuck) || errors.Is(err, verbs.ErrClosed) {
		return err
	}
	return nil // other errors are ignored: a failed destroy cannot be repaired, and Device.Close reports its own error
}

// retryPlan plans when a refused method is tried again.
type retryPlan struct {
	at           time.Time
	first, delay time.Duration
}

// plan plans the next attempt. The first call plans it at now+first, and each further call
// doubles the delay, up to limit. If first has changed since the last call, the delay starts
// over, since then another number of methods was refused.
func (a *retryPlan) plan(now time.Time, first, limit time.Duration) {
	if a.first != first {
		*a = retryPlan{first: first}
	}
	a.delay = min(max(2*a.delay, first), max(limit, first))
	a.at = now.Add(a.delay)
}

// Choose keeps the first candidate whose probe can be created and whose first round gives no
// reason against it (isUnfit). If no candidate is kept although the port is up, the port has a
// fault, which must show in the counts: the next call of Choose then counts the round of the
// method that failed first (c.failed), even if it does not keep that method either.
func (c *Choice) Choose() error {
	reason, second, failed := "as preferred", false, verbs.MethodNone
	counted := c.failed
	if c.Asker.refusals.Refused(c.Port().Number, verbs.ReadQueryPort) {
		c.fallback = true
		c.retry.plan(c.now(), c.Options.Interval, maxRetryDelay)
		c.reportChoice(verbs.MethodNone, "the firmware refuses queries of the port, which a probe needs")
		return nil
	}
	if c.Port().State != verbs.PortActive {
		counted = verbs.MethodNone
	}
	for _, one := range c.candidates() {
		if one.refused != "" {
			reason = one.refused
			continue
		}
		refused, ran, err := c.tryMethod(one.method, c.isAutomatic() && one.method != counted)
		if err != nil {
			return err
		}
		if refused == "" {
			// A probe that its first round made unusable is created again, as after any other round.
			c.fallback, c.failed = second && c.probe != nil, verbs.MethodNone
			switch {
			case c.fallback:
				c.retry.plan(c.now(), secondChoiceTime, secondChoiceMax)
			case !second:
				c.retry = retryPlan{}
			}
			c.reportChoice(one.method, reason)
			return nil
		}
		reason, second = refused, true
		if ran && failed == verbs.MethodNone {
			failed = one.method
		}
	}
	c.fallback, c.failed = true, failed
	c.retry.plan(c.now(), c.Options.Interval, maxRetryDelay)
	c.reportChoice(verbs.MethodNone, reason)
	return nil
}

// tryMethod creates a probe of method m and runs its first round. If the method is not kept,
// refused is the reason. ran reports whether the round was run. err ends the session. A method
// from the configuration is always kept; an automatic choice is kept unless the outcome is a
// reason against it (isUnfit). With trial the round is counted only if the method is kept;
// without trial it is always counted.
func (c *Choice) tryMethod(m verbs.Method, trial bool) (refused string, ran bool, err error) {
	probe, unable := c.Device.NewProbe(c.probeConfig(m, trial))
	if errors.Is(unable, verbs.ErrClosed) || errors.Is(unable, verbs.ErrNoDevice) {
		return "", false, unable
	}
	if unable != nil {
		return unable.Error(), false, nil //nolint:nilerr // a refusal is a result, not a failure
	}
	c.setProbe(probe)
	c.method = m
	r, err := probe.Round(0)
	for range maxRepeats {
		if err != nil || r.Outcome != verbs.OutcomeDisturbed || !probe.Usable() {
			break
		}
		r, err = probe.Round(0)
	}
	if err != nil {
		return "", true, err
	}
	if r.Outcome == verbs.OutcomeCanceled && !probe.Usable() {
		return fmt.Sprintf("%s has no address to send from (%s)", m, r.Status), false, c.Drop()
	}
	unfit := c.isAutomatic() && c.isUnfit(r.Outcome)
	if !unfit {
		probe.Keep()
	}
	if r.Outcome == verbs.OutcomeCanceled {
		return "", true, nil
	}
	if !unfit || !trial {
		c.recordOutcome(r.Outcome)
	}
	if unfit {
		c.recordLostEvent(r.Outcome)
		return fmt.Sprintf("the first round of %s ended as %s (%s)", m, r.Outcome, r.Status), true, c.Drop()
	}
	if !probe.Usable() {
		return "", true, c.Drop()
	}
	return "", true, nil
}

func (c *Choice) isAutomatic() bool { return c.Options.Method == verbs.MethodAuto }

// isUnfit reports whether a trial's outcome is a reason against the method. A lost event is
// usually no reason, since all methods need the interrupt. It is a reason against flush,
// unless another method lost its event too: some drivers flush in their library without
// raising an event (bnxt_re, mana).
func (c *Choice) isUnfit(o verbs.Outcome) bool {
	return o == verbs.OutcomeError || o == verbs.OutcomeLostCompletion ||
		o == verbs.OutcomeLostEvent && c.method == verbs.MethodFlush && !c.lostEvent
}

// recordLostEvent records for isUnfit whether a round of a method other than flush lost its event.
func (c *Choice) recordLostEvent(o verbs.Outcome) {
	if c.method != verbs.MethodFlush {
		c.lostEvent = o == verbs.OutcomeLostEvent
	}
}

func (c *Choice) probeConfig(m verbs.Method, trial bool) verbs.ProbeConfig {
	o := c.Options
	return verbs.ProbeConfig{
		ProbeKey: c.probeKey(m), Timeout: o.Timeout,
		AckBatch: o.AckBatch, GIDIndex: o.GIDIndex, PKeyIndex: o.PKeyIndex, Trial: trial,
	}
}

func (c *Choice) probeKey(m verbs.Method) verbs.ProbeKey {
	return verbs.ProbeKey{Port: c.Port().Number, Vector: c.Vector, Method: m}
}

// reportChoice reports a choice, unless the last report was the same. reason tells why no
// earlier candidate was chosen.
func (c *Choice) reportChoice(m verbs.Method, reason string) {
	if choice := fmt.Sprint(m, reason); choice != c.reported {
		c.reported = choice
		c.Report(verbs.ProbeItem{ProbeKey: c.probeKey(m), Reason: reason})
	}
}

// candidate is a method to try, or the reason why it must not be tried.
type candidate struct {
	method  verbs.Method
	refused string
}

// candidates lists the methods in order of preference. On RoCE datagrams come first: they
// hold an address only during a round, while a connection holds its address permanently. On
// InfiniBand a connection holds no address. An automatic choice never uses flush if the driver
// counts flush errors, since these may alert an operator.
func (c *Choice) candidates() []candidate {
	if !c.isAutomatic() {
		return []candidate{{method: c.Options.Method}}
	}
	flush := candidate{method: verbs.MethodFlush}
	if c.Device.Attr().CountsFlushes {
		flush.refused = "the driver counts flushed work requests as errors"
	}
	write := candidate{method: verbs.MethodRCWrite}
	switch c.Port().Layer {
	case verbs.LinkInfiniBand:
		return []candidate{write, flush}
	case verbs.LinkEthernet:
		return []candidate{{verbs.MethodUDSend, c.reasonAgainstHandles()}, write, flush}
	}
	return []candidate{{method: verbs.MethodUDSend}, flush} // EFA has no connections
}

// reasonAgainstHandles returns why ud_send would need too many firmware commands for its address
// handles on this port; "" if it would not.
func (c *Choice) reasonAgainstHandles() string {
	n := verbs.AddressHandleCommands(c.Device.Attr().Driver) * c.Port().Probers * int(time.Minute) / int(c.Options.Interval)
	if n <= maxCommands {
		return ""
	}
	return fmt.Sprintf("an address handle is a command to this device, and ud_send would need %d a minute on this port (at most %d)",
		n, maxCommands)
}
