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

// settleDelay is the time after its last event when a port is queried again. Right after an event
// the driver's answer may be older than the event.
const settleDelay = 100 * time.Millisecond

// queryDelay is the time after an event when a port is first queried. Without the delay the
// query and its read of sysfs compete with the event on its way to the host; the event then
// took 1.5 times as long.
const queryDelay = 10 * time.Millisecond

// confirmDelay is the time after which a port is queried again if an answer differs and no event
// announced the change. If the second answer confirms the first, the event was lost and the answer
// becomes a transition; waiting for the next StateInterval would delay it.
const confirmDelay = portstate.Settle + 10*time.Millisecond

// watchPorts is the second source of the port states, after the events. It queries each port
// once for its baseline, soon after its events, again when they have settled, and every
// StateInterval. If one of the latter two answers differs from the previous answer, it queries
// again after confirmDelay, and repeats this as long as the answers differ. After
// device_speed_change it queries only the rates.
func (s *session) watchPorts(ctx context.Context) error {
	due, again := newRecheckTimers(s.o.StateInterval, s.began), newStoppedTimer()
	defer due.stop()
	defer again.Stop()
	if err := s.queryBaseline(ctx); err != nil {
		return err
	}
	recent, rates, doubtful := map[*port]bool{}, map[*port]bool{}, map[*port]bool{}
	addDoubtful := func(p *port) {
		if len(doubtful) == 0 {
			again.Reset(confirmDelay)
		}
		doubtful[p] = true
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-s.querierWake:
			due.startAfterEvent()
		case <-due.soon.C:
			due.soonRunning = false
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
			err = s.queryPorts(func(p *port) bool { return recent[p] }, addDoubtful)
			for p := range recent {
				s.invalidateProbes(p, &p.settled)
			}
			if err == nil {
				err = s.queryRates(func(p *port) bool { return rates[p] && !recent[p] })
			}
			clear(recent)
			clear(rates)
		case <-again.C:
			asked := maps.Clone(doubtful)
			clear(doubtful)
			if err = s.queryPorts(func(p *port) bool { return asked[p] }, addDoubtful); err == nil {
				s.requestUnannounced(asked, doubtful)
			}
		case <-due.tick:
			due.ticker.Next()
			err = s.queryPorts(func(*port) bool { return true }, addDoubtful)
		}
		if err != nil {
			return err
		}
	}
}

// requestUnannounced requests snapshots of the ports for which two queries agree on an answer that
// no event announced. If there was an event shortly before or between the queries, it has requested
// a snapshot itself.
func (s *session) requestUnannounced(asked, doubtful map[*port]bool) {
	for p := range asked {
		if quiet := time.Duration(s.elapsed() - p.event.Load()); !doubtful[p] && !p.due.Load() && quiet > confirmDelay+settleDelay {
			s.asker.RequestSnapshot(p.number, verbs.TriggerState, clock.Monotonic())
		}
	}
}

// queryBaseline queries all ports once the initially queued events have been read.
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

// queryPorts queries the ports for which include returns true. While a call of this worker holds
// the RTNL lock, it marks them as due instead, so that they are queried later. It calls onChange,
// unless that is nil, for each port whose state differs from the previous query.
func (s *session) queryPorts(include func(*port) bool, onChange func(*port)) error {
	for _, p := range s.ports {
		if !include(p) {
			continue
		}
		if s.asker.HoldsRTNL() {
			p.due.Store(true) // OnRTNLFree wakes the querier
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

// queryRates queries the ports for which include returns true, and sends the answers as RateOnly.
func (s *session) queryRates(include func(*port) bool) error {
	for _, p := range s.ports {
		if !include(p) {
			continue
		}
		if s.asker.HoldsRTNL() {
			p.rateDue.Store(true)
			continue
		}
		r, err := s.asker.QueryPort(p.number)
		switch {
		case errors.Is(err, verbs.ErrRefused):
			continue
		case errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrClosed):
			return err
		}
		r.RateOnly = true
		s.asker.ReportQuery(r, err)
	}
	return nil
}

// queryPort queries one port and sends the Reading, even if the query failed. It reports
// whether the state differs from the previous query. It returns an error only if the error
// ends the session.
func (s *session) queryPort(p *port) (changed bool, err error) {
	r, err := s.asker.QueryPort(p.number)
	switch {
	case errors.Is(err, verbs.ErrRefused):
		return false, nil // the port was not queried
	case errors.Is(err, verbs.ErrNoDevice) || errors.Is(err, verbs.ErrClosed):
		return false, err
	case err == nil: // a failed query has no information about the port or its probes
		p.layer.Store(int32(r.Attr.LinkLayer))
		last := verbs.PortState(p.state.Swap(int32(r.Attr.State)))
		if (last == verbs.PortActive) != (r.Attr.State == verbs.PortActive) {
			s.invalidateProbes(p, &p.seen)
		}
		if lid := int64(r.Attr.LID); p.lid.Swap(lid) != lid {
			s.portChanged(p)
		}
		changed = last != r.Attr.State
	}
	s.asker.ReportQuery(r, err)
	return changed, nil
}
