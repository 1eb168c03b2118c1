package session

import (
	"context"
	"time"

	"rdma_events/internal/device/verbs"
)

// read reads every asynchronous event. It first drains the events that were queued before
// the ports' baseline, so that they are counted and make no transition.
func (s *session) read(ctx context.Context) error {
	attr := s.dev.Attr()
	s.out.add(verbs.Item{Opened: &attr})
	runs := make([]verbs.Run, 256)
	if err := s.drain(runs); err != nil {
		return err
	}
	close(s.drained)
	s.awaitBaseline(ctx)
	for {
		n, err := s.dev.ReadEvents(runs, -1)
		if err != nil {
			return err
		}
		s.noteRuns(runs[:n])
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

// drain reads the events that are queued. Events that come as fast as it reads would keep it
// from ever ending, and so the ports from their baseline: after baselineTimeout the rest are
// read as new ones.
func (s *session) drain(runs []verbs.Run) error {
	for began := time.Now(); time.Since(began) < baselineTimeout; {
		n, err := s.dev.ReadEvents(runs, 0)
		if err != nil || n == 0 {
			return err
		}
		for i := range runs[:n] {
			if runs[i].Type == verbs.EventDeviceFatal { // a worker that crashed after it is followed by this one
				s.asks.NoteRun(&runs[i])
			}
		}
	}
	return nil
}

// noteRuns informs the querier and the probers of the events of their ports. After
// device_fatal the querier checks whether the device is still there. Only a query shows
// that: the asynchronous descriptor of a removed device stays silent for ever, and a driver
// may report device_fatal for a device that goes on working.
func (s *session) noteRuns(runs []verbs.Run) {
	moves, now := false, s.elapsed()
	for _, r := range runs {
		moves = moves || MovesProbe(r.Type)
		s.asks.NoteRun(&r)
		if r.Port != 0 || r.Type == verbs.EventDeviceFatal {
			s.asks.refusals.Retry(r.Port)
		}
		for i, p := range s.ports {
			if r.Type == verbs.EventDeviceSpeedChange { // of any port, and with mlx5 before the event of the port's state
				p.rateDue.Store(true)
				continue
			}
			if r.Port == p.number || r.Type == verbs.EventDeviceFatal && i == 0 {
				p.event.Store(now)
				p.due.Store(true)
				if r.Type == verbs.EventPKeyChange {
					p.pkeys.Add(1)
				}
				if MovesProbe(r.Type) {
					s.probesMayChange(p, &p.seen)
				}
			}
		}
	}
	s.querierWake.Send()
	if moves {
		s.gidsWake.Send()
	}
}

// MovesProbe reports whether an event of type t may make a probe's choice of method or
// address outdated.
func MovesProbe(t verbs.EventType) bool {
	switch t {
	case verbs.EventPortErr, verbs.EventPortActive, verbs.EventGIDChange, verbs.EventLIDChange, verbs.EventPKeyChange:
		return true
	}
	return false
}
