package session

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
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

// ChoiceConfig is the configuration of a Choice. All is set.
type ChoiceConfig struct {
	Device  verbs.Device
	Options verbs.ProbeOptions
	Asker   *Asker
	Port    func() ProbedPort
	Vector  int
	Report  func(verbs.ProbeItem) // gets each choice
}

// ProbedPort is what a Choice has to know of its port.
type ProbedPort struct {
	Number  int
	Probers int             // of the port
	State   verbs.PortState // by the last query that succeeded
	Layer   verbs.LinkLayer // likewise
	Seen    uint64          // counts the events and state changes that may change what a probe can do
	Settled uint64          // counts the queries of the port after its events had settled
}

// Choice keeps the probe of one port and completion vector, and chooses its method. It goes by the clock of the Asker. One
// goroutine uses it, and any may call Nudge.
type Choice struct {
	ChoiceConfig
	seen, settled uint64 // the port's counts at the last check
	mu            sync.Mutex
	probe         verbs.Probe // under mu, for Nudge; only the goroutine of the Choice writes it
	method        verbs.Method
	fallback      bool         // the first choice was refused
	again         again        // when a refused method is tried again
	failed        verbs.Method // the first method that ran and failed when none was kept
	mute          bool         // the last round of a method other than flush lost its event
	reported      string       // the last choice reported, with its reason
}

// NewChoice returns a Choice without a probe.
func NewChoice(c ChoiceConfig) *Choice { return &Choice{ChoiceConfig: c} }

// HasProbe reports whether there is a probe.
func (c *Choice) HasProbe() bool { return c.probe != nil }

// Nudge ends the pause of the probe.
func (c *Choice) Nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe != nil {
		c.probe.Nudge()
	}
}

func (c *Choice) set(probe verbs.Probe) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe = probe
}

// Rounds runs rounds of the probe, which there must be. It returns how many they are without a canceled one.
func (c *Choice) Rounds(pace verbs.Pace) (int, error) {
	last, n, err := c.probe.Rounds(pace)
	switch {
	case last.Outcome != verbs.OutcomeCanceled:
		c.noteOutcome(last.Outcome)
	case n > 0:
		c.noteOutcome(verbs.OutcomeSuccess)
	}
	return n, err
}

// noteOutcome takes account of the last of some rounds; those before it have succeeded.
func (c *Choice) noteOutcome(o verbs.Outcome) {
	c.heard(o)
	c.Asker.NoteRound(c.Port().Number, o)
}

// Outdated reports whether to choose again. Right after an event a port may refuse a
// method that it accepts a moment later. So a second choice is not kept once the port has
// settled.
func (c *Choice) Outdated() bool {
	p := c.Port()
	changed := p.Seen != c.seen || c.fallback && p.Settled != c.settled
	c.seen, c.settled = p.Seen, p.Settled
	if changed {
		c.again, c.failed = again{}, verbs.MethodNone
	}
	if c.fallback {
		return changed || !c.now().Before(c.again.at)
	}
	return changed || c.probe == nil
}

func (c *Choice) now() time.Time { return c.Asker.Clock.Now() }

// IsBroken reports whether a round has made the probe unusable.
func (c *Choice) IsBroken() bool { return !c.probe.Usable() }

// Discard closes a probe that is broken, after which the method is chosen again.
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
	c.set(nil)
	err := probe.Close(closeTimeout)
	if errors.Is(err, verbs.ErrStuck) || errors.Is(err, verbs.ErrClosed) {
		return err
	}
	return nil // nothing can be done about a failed destroy; the device's Close reports its own error
}

// again plans when a refused method is tried again.
type again struct {
	at           time.Time
	first, delay time.Duration
}

// refused plans the next attempt after now: after first, then after twice as long each time, at
// most limit. It starts over when first differs from that of the call before, since then
// more or fewer methods were refused.
func (a *again) refused(now time.Time, first, limit time.Duration) {
	if a.first != first {
		*a = again{first: first}
	}
	a.delay = min(max(2*a.delay, first), max(limit, first))
	a.at = now.Add(a.delay)
}

// Choose keeps the first candidate whose probe can be made and whose first round gives no
// reason against it (unfit). If a call of Choose kept none and the port is up, the port has
// a fault, which the counts have to show: the next call counts the round of the method
// that failed first (c.failed) even if that method is not kept again.
func (c *Choice) Choose() error {
	reason, second, failed := "as preferred", false, verbs.MethodNone
	counted := c.failed
	if c.Asker.refusals.Refused(c.Port().Number, verbs.ReadQueryPort) {
		c.fallback = true
		c.again.refused(c.now(), c.Options.Interval, unprobed)
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
		refused, ran, err := c.try(one.method, c.automatic() && one.method != counted)
		if err != nil {
			return err
		}
		if refused == "" {
			// A probe that its first round made unusable is made again, as after any other round.
			c.fallback, c.failed = second && c.probe != nil, verbs.MethodNone
			switch {
			case c.fallback:
				c.again.refused(c.now(), secondBest, secondBestMax)
			case !second:
				c.again = again{}
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
	c.again.refused(c.now(), c.Options.Interval, unprobed)
	c.reportChoice(verbs.MethodNone, reason)
	return nil
}

// try makes a probe of method m and runs its first round. refused is the reason if the
// method is not kept; ran reports whether its round was run; err ends the session. A
// method that the configuration names is kept whatever the outcome, an automatic choice
// only if the outcome is no reason against it (unfit). With trial the round counts as a
// round of the device only if the method is kept; without trial it always counts.
func (c *Choice) try(m verbs.Method, trial bool) (refused string, ran bool, err error) {
	probe, unable := c.Device.NewProbe(c.config(m, trial))
	if errors.Is(unable, verbs.ErrClosed) || errors.Is(unable, verbs.ErrNoDevice) {
		return "", false, unable
	}
	if unable != nil {
		return unable.Error(), false, nil //nolint:nilerr // to be refused is an answer
	}
	c.set(probe)
	c.method = m
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
		return fmt.Sprintf("%s has no address to send from (%s)", m, r.Status), false, c.Drop()
	}
	unfit := c.automatic() && c.unfit(r.Outcome)
	if !unfit {
		probe.Keep()
	}
	if r.Outcome == verbs.OutcomeCanceled {
		return "", true, nil
	}
	if !unfit || !trial {
		c.noteOutcome(r.Outcome)
	}
	if unfit {
		c.heard(r.Outcome)
		return fmt.Sprintf("the first round of %s ended as %s (%s)", m, r.Outcome, r.Status), true, c.Drop()
	}
	if !probe.Usable() {
		return "", true, c.Drop()
	}
	return "", true, nil
}

func (c *Choice) automatic() bool { return c.Options.Method == verbs.MethodAuto }

// unfit reports whether a trial's outcome is a reason against the method. A lost event is
// no such reason, since all methods need the interrupt. The exception is flush, which
// some drivers do in their library without raising an event (bnxt_re, mana): a lost event
// is a reason against flush unless another method lost its event too.
func (c *Choice) unfit(o verbs.Outcome) bool {
	return o == verbs.OutcomeError || o == verbs.OutcomeLostCompletion ||
		o == verbs.OutcomeLostEvent && c.method == verbs.MethodFlush && !c.mute
}

// heard records how a round ended, for unfit.
func (c *Choice) heard(o verbs.Outcome) {
	if c.method != verbs.MethodFlush {
		c.mute = o == verbs.OutcomeLostEvent
	}
}

func (c *Choice) config(m verbs.Method, trial bool) verbs.ProbeConfig {
	o := c.Options
	return verbs.ProbeConfig{
		ProbeKey: c.key(m), Timeout: o.Timeout,
		AckBatch: o.AckBatch, GIDIndex: o.GIDIndex, PKeyIndex: o.PKeyIndex, Trial: trial,
	}
}

func (c *Choice) key(m verbs.Method) verbs.ProbeKey {
	return verbs.ProbeKey{Port: c.Port().Number, Vector: c.Vector, Method: m}
}

// reportChoice reports a choice, unless the last report was the same. reason is why no
// earlier candidate was chosen.
func (c *Choice) reportChoice(m verbs.Method, reason string) {
	if choice := fmt.Sprint(m, reason); choice != c.reported {
		c.reported = choice
		c.Report(verbs.ProbeItem{ProbeKey: c.key(m), Reason: reason})
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
func (c *Choice) candidates() []candidate {
	if !c.automatic() {
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
		return []candidate{{verbs.MethodUDSend, c.expensive()}, write, flush}
	}
	return []candidate{{method: verbs.MethodUDSend}, flush} // EFA, which has no connections
}

// expensive returns why the address handles of all rounds of a port would cost its device
// too much, "" if they would not.
func (c *Choice) expensive() string {
	n := verbs.AddressHandleCommands(c.Device.Attr().Driver) * c.Port().Probers * int(time.Minute) / int(c.Options.Interval)
	if n <= maxCommands {
		return ""
	}
	return fmt.Sprintf("an address handle is a command to this device, and ud_send would need %d a minute on this port (at most %d)",
		n, maxCommands)
}
