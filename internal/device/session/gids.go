package session

import (
	"context"
	"errors"
	"slices"

	"rdma_events/internal/device/verbs"
)

// watchGIDs reads the ports' GID tables at first, soon after an event that may come with a
// change of the table, again when the events have settled, and every GIDInterval. A
// table that is like the one before it is not sent. It has a goroutine of its own, since
// a query of a port may hang in the device's firmware and a GID table comes from the kernel.
func (s *session) watchGIDs(ctx context.Context) error {
	due := newAlarms(s.o.GIDInterval, s.began)
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
				due.event()
			case <-due.soon.C:
				due.waiting, again = false, true
			case <-due.settled.C:
				again = true
			case <-due.tick:
				due.ticker.Next()
				again = true
			}
		}
	}
}

// readGIDs reads the GID tables and sends those that differ from the tables sent last. A
// table that cannot be read, or not be sent now, is sent the next time. The only error is
// ErrClosed: whether a device is gone is for the queries of its ports to say, since a
// container may lack the files of its GIDs.
func (s *session) readGIDs(sent [][]verbs.GID) error {
	for i, p := range s.ports {
		t, err := s.dev.ReadGIDs(p.number)
		if errors.Is(err, verbs.ErrClosed) {
			return err
		}
		if err != nil {
			continue
		}
		kept := append([]verbs.GID{}, t.Entries...) // not nil, which stands for none
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
