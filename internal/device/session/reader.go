package session

import (
	"context"
	"time"

	"rdma_events/internal/device/verbs"
)

// readEvents reads all asynchronous events. It first drains the events that were queued before
// the ports' baseline: they are counted but cause no transition.
func (s *session) readEvents(ctx context.Context) error {
	attr := s.dev.Attr()
	s.out.add(verbs.Item{Opened: &attr})
	runs := make([]verbs.Run, 256)
	if err := s.drainEvents(runs); err != nil {
		return err
	}
	close(s.drained)
	s.awaitBaseline(ctx)
	for {
		n, err := s.dev.ReadEvents(runs, -1)
		if err != nil {
			return err
		}
		s.handleRuns(runs[:n])
	}
}

// awaitBaseline waits for the baseline, at most baselineTimeout.
func (s *session) awaitBaseline(ctx context.Context) {
	t := time.NewTimer(baselineTimeout)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-s.baselineDone:
	case <-t.C:
	}
}

// drainEvents reads the queued events. If events arrive as fast as it reads them, it returns after
// baselineTimeout, so that the ports get their baseline; the remaining events count as new.
func (s *session) drainEvents(runs []verbs.Run) error {
	for began := time.Now(); time.Since(began) < baselineTimeout; {
		n, err := s.dev.ReadEvents(runs, 0)
		if err != nil || n == 0 {
			return err
		}
		for i := range runs[:n] {
			if runs[i].Type == verbs.EventDeviceFatal { // an earlier worker may have crashed after this event
				s.asker.HandleRun(&runs[i])
			}
		}
	}
	return nil
}

// handleRuns passes new events to the querier and to the probers of the ports. After
// device_fatal the querier checks whether the device is still present. Only a query can tell:
// the asynchronous descriptor of a removed device stays silent for ever, and a driver may
// report device_fatal for a device that continues to work.
func (s *session) handleRuns(runs []verbs.Run) {
	affectsProbes, now := false, s.elapsed()
	for _, r := range runs {
		affectsProbes = affectsProbes || AffectsProbes(r.Type)
		s.asker.HandleRun(&r)
		if r.Port != 0 || r.Type == verbs.EventDeviceFatal {
			s.asker.refusals.Retry(r.Port)
		}
		for i, p := range s.ports {
			if r.Type == verbs.EventDeviceSpeedChange { // concerns any port; mlx5 sends it before the port's state event
				p.rateDue.Store(true)
				continue
			}
			if r.Port == p.number || r.Type == verbs.EventDeviceFatal && i == 0 {
				p.event.Store(now)
				p.due.Store(true)
				if r.Type == verbs.EventPKeyChange {
					p.pkeys.Add(1)
				}
				if AffectsProbes(r.Type) {
					s.invalidateProbes(p, &p.seen)
				}
			}
		}
	}
	s.querierWake.Send()
	if affectsProbes {
		s.gidsWake.Send()
	}
}

// AffectsProbes reports whether an event of type t may invalidate a probe's method or address.
func AffectsProbes(t verbs.EventType) bool {
	switch t {
	case verbs.EventPortErr, verbs.EventPortActive, verbs.EventGIDChange, verbs.EventLIDChange, verbs.EventPKeyChange:
		return true
	}
	return false
}
