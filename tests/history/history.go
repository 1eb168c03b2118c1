package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
)

// Config describes a history. Start, End, Interval and Hosts must be set.
type Config struct {
	Start, End time.Time
	Interval   time.Duration // Telegraf's
	Hosts      []Host
	// Exact puts the points of an interval exactly at its end, as for down-sampled
	// points, instead of a moment later.
	Exact bool

	// These are options of the plugin; 0 is the plugin's default.
	ProbeInterval time.Duration
	Method        verbs.Method // of the probes
	Window        time.Duration
	Histogram     bool
}

// Host is one host with the plugin on it. The times of its scenario count from
// Config.Start, so the devices are opened then. docs/reference/scenario.md describes profiles
// and scenarios.
type Host struct {
	Name     string // the tag host; "" leaves it out
	Profile  string // "" is "roce2"
	Scenario string // "" (healthy), a built-in name, or a path
	Timeline string // the text of a scenario, used instead of Scenario unless ""
	Seed     int64

	Expect       []string          // the options of these names
	ExpectedDown []string          // as in "sim0:1"
	Memory       *memory.Memory    // what the host remembers of earlier runs of the plugin; nil: nothing
	Tags         map[string]string // besides host

	// Applications has the plugin report objects and events of applications, by process and unit.
	Applications bool
	EventsAlone  bool // with Applications: no objects, so that the series of an application's events begins with the first one
}

// Write simulates the hosts one after the other and writes the points that each has
// emitted between Start and End, in their order. It blocks as w does. The error is
// that of w or ctx, or names the mistake in the Config or in a scenario.
func (c Config) Write(ctx context.Context, w io.Writer) error {
	if c.Interval <= 0 || !c.Start.Before(c.End) {
		return errors.New("history: want an interval above 0 and a start before the end")
	}
	c.ProbeInterval = orDefault(c.ProbeInterval, time.Second)
	c.Window = orDefault(c.Window, 5*time.Minute)
	for i := range c.Hosts {
		if err := c.play(ctx, w, &c.Hosts[i]); err != nil {
			return fmt.Errorf("history of host %q: %w", c.Hosts[i].Name, err)
		}
	}
	return nil
}

func orDefault(d, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return d
}

func (c *Config) play(ctx context.Context, w io.Writer, of *Host) error {
	h, err := newHost(c, of, w)
	if err != nil {
		return err
	}
	defer h.close()
	h.begin()
	// One check of ctx for each simulated minute is enough: a minute takes milliseconds.
	for at := c.Start; at.Before(c.End) && err == nil; {
		at = at.Add(min(time.Minute, c.End.Sub(at)))
		h.line.run(h.mono(at))
		err = errors.Join(h.err, ctx.Err())
	}
	if err != nil {
		return err
	}
	h.emitter.Close()
	h.flush()
	return h.err
}
