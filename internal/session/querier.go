package session

import (
	"context"
	"errors"
	"maps"
	"time"

	"rdma_events/internal/clock"
	"rdma_events/internal/portstate"
	"rdma_events/internal/verbs"
)

// settle is how long after the last event a port is looked at again: right
// after an event the driver's answer may be older than the event.
const settle = 100 * time.Millisecond

// lookDelay is how long after an event a port is first looked at. The query and
// its reading of sysfs would else compete with the event on its way to the host,
// which took half as long again.
const lookDelay = 10 * time.Millisecond

// confirm is how long after an answer that no event announced a port is looked at
// again. Such an answer is a doubt, and makes a transition when another one says the
// same: the event was lost, and the next StateInterval would be late.
const confirm = portstate.Settle + 10*time.Millisecond

// query is the second witness of port state: it looks at a port soon after its
// events, again when they have settled, and every StateInterval; and once more where
// one of the latter two has another answer than the look before.
func (s *session) query(ctx context.Context) error {
	soon, settled, again := stopped(), stopped(), stopped()
	defer soon.Stop()
	defer settled.Stop()
	defer again.Stop()
	waiting := false // soon is running
	var tick <-chan time.Time
	if s.o.StateInterval > 0 {
		t := time.NewTicker(s.o.StateInterval)
		defer t.Stop()
		tick = t.C
	}
	recent, doubtful := map[*port]bool{}, map[*port]bool{}
	doubts := func(p *port) {
		if len(doubtful) == 0 {
			again.Reset(confirm)
		}
		doubtful[p] = true
	}
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
			}, nil)
		case <-settled.C:
			err = s.lookAt(func(p *port) bool { return recent[p] }, doubts)
			for p := range recent {
				p.changed(&p.settled)
			}
			clear(recent)
		case <-again.C:
			asked := maps.Clone(doubtful)
			clear(doubtful)
			err = s.lookAt(func(p *port) bool { return asked[p] }, doubts)
		case <-tick:
			err = s.lookAt(func(*port) bool { return true }, doubts)
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

// lookAt looks at some ports, and calls changed, unless it is nil, for each whose
// state is another one than at the last look.
func (s *session) lookAt(want func(*port) bool, changed func(*port)) error {
	for _, p := range s.ports {
		if !want(p) {
			continue
		}
		news, err := s.look(p)
		if err != nil {
			return err
		}
		if news && changed != nil {
			changed(p)
		}
	}
	return nil
}

// look queries one port and sends the answer, also a failed one. It reports whether
// the state is another one than at the last look. Only what ends the watch comes back
// as an error.
func (s *session) look(p *port) (changed bool, err error) {
	r := &verbs.Reading{Port: p.number, Mono: clock.Monotonic()}
	r.Attr, err = s.dev.QueryPort(p.number)
	r.Took = clock.Monotonic() - r.Mono
	switch {
	case errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrClosed):
		return false, err
	case err != nil: // it says nothing of the port, and so nothing of its probes
		r.Err = err.Error()
	default:
		p.layer.Store(int32(r.Attr.LinkLayer))
		last := verbs.PortState(p.state.Swap(int32(r.Attr.State)))
		if (last == verbs.PortActive) != (r.Attr.State == verbs.PortActive) {
			p.changed(&p.seen)
		}
		changed = last != r.Attr.State
	}
	s.out.add(verbs.Item{Reading: r})
	return changed, nil
}
