package session

import (
	"context"
	"errors"
	"fmt"

	"rdma_events/internal/verbs"
)

// read reads every asynchronous event. It first drains the events that were queued before
// the ports' baseline, so that they are counted and make no transition.
func (s *session) read(ctx context.Context) error {
	attr := s.dev.Attr()
	s.out.add(verbs.Item{Opened: &attr})
	runs := make([]verbs.Run, 256)
	if err := s.drain(runs); err != nil {
		return unlessClosed(ctx, err)
	}
	for _, p := range s.ports {
		if _, err := s.queryPort(p); err != nil {
			return unlessClosed(ctx, err)
		}
	}
	close(s.baselineDone)
	for {
		n, err := s.dev.ReadEvents(runs, -1)
		if err != nil {
			return unlessClosed(ctx, err)
		}
		s.out.addRuns(runs[:n])
		if err := s.note(runs[:n]); err != nil {
			return unlessClosed(ctx, err)
		}
	}
}

func (s *session) drain(runs []verbs.Run) error {
	for {
		n, err := s.dev.ReadEvents(runs, 0)
		if err != nil || n == 0 {
			return err
		}
		s.out.addRuns(runs[:n])
	}
}

// note informs the querier and the probers of the events of their ports. After
// device_fatal it checks whether the device is still there.
func (s *session) note(runs []verbs.Run) error {
	fatal, moves := false, false
	for _, r := range runs {
		fatal = fatal || r.Type == verbs.EventDeviceFatal
		moves = moves || MovesProbe(r.Type)
		for _, p := range s.ports {
			if r.Port == p.number {
				p.due.Store(true)
				if MovesProbe(r.Type) {
					p.changed(&p.seen)
				}
			}
		}
	}
	signal(s.querierWake)
	if moves {
		signal(s.gidsWake)
	}
	if fatal {
		return s.alive()
	}
	return nil
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

// alive checks after device_fatal whether the device is still there, and returns an error
// that is errRemoved if not. Only a query shows that: the asynchronous descriptor of a
// removed device stays silent for ever, and a driver may report device_fatal for a device
// that goes on working.
func (s *session) alive() error {
	if len(s.ports) == 0 {
		return nil
	}
	_, err := s.dev.QueryPort(s.ports[0].number)
	if errors.Is(err, verbs.ErrNoDevice) {
		return fmt.Errorf("%w: %w", errRemoved, err)
	}
	return nil
}

func unlessClosed(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, verbs.ErrClosed) {
		err = nil
	}
	return err
}
