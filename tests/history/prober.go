package history

import (
	"cmp"
	"time"

	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
)

// probeTimeout is the plugin's default.
const probeTimeout = 500 * time.Millisecond

// options returns the options of the probes.
func (c *Config) options() verbs.ProbeOptions {
	return verbs.ProbeOptions{
		Interval: c.ProbeInterval, Timeout: probeTimeout, Method: cmp.Or(c.Method, verbs.MethodAuto), AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
	}
}

// startProber starts the probe of a port on completion vector 0, whose method is the plugin's choice.
func (s *openDevice) startProber(p *port, next int64) {
	choice := session.NewChoice(session.ChoiceConfig{
		Device: s.dev, Options: s.k.h.cfg.options(), Asker: s.asks, Port: func() session.ProbedPort { return p.ProbedPort },
		Report: func(i verbs.ProbeItem) { s.k.h.deliver(s.k, verbs.Item{Probe: &i}) },
	})
	interval := s.k.h.cfg.ProbeInterval
	s.add(s.line.start(next, func() {
		// After a round that took longer than the interval, the rounds are skipped that it missed.
		for runProbe(choice) == nil {
			s.k.collect()
			next += int64(interval)
			next += int64(verbs.MissedIntervals(time.Duration(s.line.now-next), interval))
			if !s.line.wait(next) {
				return
			}
		}
	}))
}

// runProbe runs one round of the probe, if there is one. If the probe is outdated, it chooses a new one instead, which runs its
// first round.
func runProbe(c *session.Choice) error {
	if c.Outdated() {
		if err := c.Drop(); err != nil {
			return err
		}
		return c.Choose()
	}
	if !c.HasProbe() {
		return nil
	}
	if _, err := c.Rounds(verbs.Pace{}); err != nil {
		return err
	}
	if c.IsBroken() {
		return c.Discard()
	}
	return nil
}
