package watch

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/verbs"
)

// settle is how long after the last event a port is looked at again: right
// after an event the driver's answer may be older than the event.
const settle = 100 * time.Millisecond

// lookDelay is how long after an event a port is first looked at. The query and
// its reading of sysfs would else compete with the event on its way to the host,
// which took half as long again.
const lookDelay = 10 * time.Millisecond

// query is the second witness of port state: it looks at a port soon after its
// events, again when they have settled, and every StateInterval.
func (s *session) query(ctx context.Context) error {
	soon, settled := stopped(), stopped()
	defer soon.Stop()
	defer settled.Stop()
	waiting := false // soon is running
	var tick <-chan time.Time
	if s.o.StateInterval > 0 {
		t := time.NewTicker(s.o.StateInterval)
		defer t.Stop()
		tick = t.C
	}
	recent := map[*port]bool{}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
			if !waiting {
				soon.Reset(lookDelay)
				waiting = true
			}
			settled.Reset(settle)
		case <-soon.C:
			waiting = false
			err = s.lookAt(func(p *port) bool {
				due := p.due.Swap(false)
				if due {
					recent[p] = true
				}
				return due
			})
		case <-settled.C:
			err = s.lookAt(func(p *port) bool { return recent[p] })
			for p := range recent {
				p.changed(&p.settled)
			}
			clear(recent)
		case <-tick:
			err = s.lookAt(func(*port) bool { return true })
		}
		if err != nil {
			return unlessClosed(ctx, err)
		}
	}
}

// stopped returns a timer that does not run.
func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func (s *session) lookAt(want func(*port) bool) error {
	for _, p := range s.ports {
		if want(p) {
			if err := s.look(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// look queries one port and reports the answer, also a failed one. Only what
// ends the watch comes back as an error.
func (s *session) look(p *port) error {
	r := &Reading{Port: p.number, Mono: clock(unix.CLOCK_MONOTONIC)}
	var err error
	if r.Attr, err = s.dev.QueryPort(p.number); err != nil {
		r.Err = err.Error()
	}
	if errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrClosed) {
		return err
	}
	// A query that failed says nothing of the port, and so nothing of its probes.
	if active := r.Attr.State == verbs.PortActive; err == nil && p.active.Swap(active) != active {
		p.changed(&p.seen)
	}
	s.out.add(Item{Reading: r})
	return nil
}
