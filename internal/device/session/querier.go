package session

import (
	"context"
	"errors"
	"maps"
	"time"

	"rdma_events/internal/device/portstate"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// settle is how long after its last event a port is queried again. Right after an event
// the driver's answer may be older than the event.
const settle = 100 * time.Millisecond

// queryDelay is how long after an event a port is first queried. Without this delay the
// query and its reading of sysfs compete with the event on its way to the host; the event
// then took 1.5 times as long.
const queryDelay = 10 * time.Millisecond

// confirm is how long after an answer that no event announced a port is queried again.
// Such an answer is a doubt. It makes a transition when a second answer is the same: then
// the event was lost, and the next StateInterval would be late.
const confirm = portstate.Settle + 10*time.Millisecond

// query is the second source of the port states, after the events. It queries each port
// once for its baseline, soon after its events, again when they have settled, and every StateInterval. If one of the
// latter two answers differs from the answer before, query asks once more, and again as
// long as the answers differ. After device_speed_change it queries the rates alone.
func (s *session) query(ctx context.Context) error {
	due, again := newAlarms(s.o.StateInterval, s.began), stopped()
	defer due.stop()
	defer again.Stop()
	if err := s.queryBaseline(ctx); err != nil {
		return err
	}
	recent, rates, doubtful := map[*port]bool{}, map[*port]bool{}, map[*port]bool{}
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
		case <-s.querierWake:
			due.event()
		case <-due.soon.C:
			due.waiting = false
			err = s.queryPorts(func(p *port) bool {
				had := p.due.Swap(false)
				if had {
					recent[p] = true
				}
				return had
			}, nil)
			if err == nil {
				err = s.queryRates(func(p *port) bool {
					had := p.rateDue.Swap(false)
					if had {
						rates[p] = true
					}
					return had && !recent[p]
				})
			}
		case <-due.settled.C:
			err = s.queryPorts(func(p *port) bool { return recent[p] }, doubts)
			for p := range recent {
				s.probesMayChange(p, &p.settled)
			}
			if err == nil {
				err = s.queryRates(func(p *port) bool { return rates[p] && !recent[p] })
			}
			clear(recent)
			clear(rates)
		case <-again.C:
			asked := maps.Clone(doubtful)
			clear(doubtful)
			if err = s.queryPorts(func(p *port) bool { return asked[p] }, doubts); err == nil {
				s.kickUnannounced(asked, doubtful)
			}
		case <-due.tick:
			due.ticker.Next()
			err = s.queryPorts(func(*port) bool { return true }, doubts)
		}
		if err != nil {
			return err
		}
	}
}

// kickUnannounced asks for snapshots of the ports for which two queries had an answer that no
// event announced. One that came shortly before, or between the two, has a snapshot of its own.
func (s *session) kickUnannounced(asked, doubtful map[*port]bool) {
	for p := range asked {
		if quiet := time.Duration(s.elapsed() - p.event.Load()); !doubtful[p] && !p.due.Load() && quiet > confirm+settle {
			s.asks.Kick(p.number, verbs.TriggerState, clock.Monotonic())
		}
	}
}

// queryBaseline queries all ports once the events that were queued before are read.
func (s *session) queryBaseline(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.drained:
	}
	err := s.queryPorts(func(*port) bool { return true }, nil)
	if err == nil {
		close(s.baselineDone)
	}
	return err
}

// queryPorts queries the ports that want accepts, or has them queried later if one would wait for
// a call of our own. It calls onChange, unless that is nil,
// for each port whose state differs from that of the query before.
func (s *session) queryPorts(want func(*port) bool, onChange func(*port)) error {
	for _, p := range s.ports {
		if !want(p) {
			continue
		}
		if s.asks.HoldsRTNL() {
			p.due.Store(true) // and the end of that wakes the querier
			continue
		}
		changed, err := s.queryPort(p)
		if err != nil {
			return err
		}
		if changed && onChange != nil {
			onChange(p)
		}
	}
	return nil
}

// queryRates queries the ports that want accepts and sends the answers, which say nothing about their states.
func (s *session) queryRates(want func(*port) bool) error {
	for _, p := range s.ports {
		if !want(p) {
			continue
		}
		if s.asks.HoldsRTNL() {
			p.rateDue.Store(true)
			continue
		}
		r, err := s.asks.QueryPort(p.number)
		switch {
		case errors.Is(err, verbs.ErrRefused):
			continue
		case errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrClosed):
			return err
		}
		r.RateOnly = true
		s.asks.ReportQuery(r, err)
	}
	return nil
}

// queryPort queries one port and sends the answer, also if the query failed. It reports
// whether the state differs from that of the query before. It returns an error only if
// the error ends the watch.
func (s *session) queryPort(p *port) (changed bool, err error) {
	r, err := s.asks.QueryPort(p.number)
	switch {
	case errors.Is(err, verbs.ErrRefused):
		return false, nil // it was not asked
	case errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrClosed):
		return false, err
	case err == nil: // a failed query has no information about the port or its probes
		p.layer.Store(int32(r.Attr.LinkLayer))
		last := verbs.PortState(p.state.Swap(int32(r.Attr.State)))
		if (last == verbs.PortActive) != (r.Attr.State == verbs.PortActive) {
			s.probesMayChange(p, &p.seen)
		}
		if lid := int64(r.Attr.LID); p.lid.Swap(lid) != lid {
			s.portChanged(p)
		}
		changed = last != r.Attr.State
	}
	s.asks.ReportQuery(r, err)
	return changed, nil
}
