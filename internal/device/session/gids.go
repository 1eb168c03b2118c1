package session

import (
	"context"
	"errors"
	"slices"

	"rdma_events/internal/device/verbs"
)

// watchGIDs reads the ports' GID tables at once, soon after an event that may accompany a
// change of the table, again when the events have settled, and every GIDInterval. It sends
// only tables that have changed. It has a goroutine of its own because the kernel provides the
// GID tables even while a port query hangs in the device's firmware.
func (s *session) watchGIDs(ctx context.Context) error {
	due := newRecheckTimers(s.o.GIDInterval, s.began)
	defer due.stop()
	sent := make([][]verbs.GID, len(s.ports))
	for {
		if err := s.readGIDs(sent); err != nil {
			return err
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case <-s.gidsWake:
				due.startAfterEvent()
			case <-due.soon.C:
				due.soonRunning, again = false, true
			case <-due.settled.C:
				again = true
			case <-due.tick:
				due.ticker.Next()
				again = true
			}
		}
	}
}

// readGIDs reads the GID tables and sends each that differs from the table sent last. A table
// that cannot be read or sent now is sent the next time. The only error is ErrClosed. A failed
// read does not show that the device was removed, since a container may lack the GID files; the
// port queries find that out.
func (s *session) readGIDs(sent [][]verbs.GID) error {
	for i, p := range s.ports {
		t, err := s.dev.ReadGIDs(p.number)
		if errors.Is(err, verbs.ErrClosed) {
			return err
		}
		if err != nil {
			continue
		}
		kept := append([]verbs.GID{}, t.Entries...) // never nil: nil stands for no reading
		if last := p.gids.Swap(&kept); last != nil && !slices.Equal(*last, kept) {
			s.portChanged(p)
		}
		if sent[i] != nil && slices.Equal(t.Entries, sent[i]) {
			continue
		}
		if s.out.add(verbs.Item{GIDs: &t}) {
			sent[i] = kept
		}
	}
	return nil
}
