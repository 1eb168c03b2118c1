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

// query is the second witness of port state: it looks at a port after each
// batch of its events, again when they have settled, and every StateInterval.
func (s *session) query(ctx context.Context) error {
	settled := time.NewTimer(settle)
	settled.Stop()
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
			settled.Stop()
			return nil
		case <-s.kick:
			err = s.lookAt(func(p *port) bool {
				due := p.due.Swap(false)
				if due {
					recent[p] = true
				}
				return due
			})
			settled.Reset(settle)
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
	if active := r.Attr.State == verbs.PortActive; p.active.Swap(active) != active {
		p.changed(&p.seen)
	}
	s.out.add(Item{Reading: r})
	return nil
}
