package session

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/verbs"
)

// watchObjects sends who holds the objects of the device, at first and every
// verbs.ObjectsInterval. It
// has a goroutine of its own, which is not waited for: with some drivers the kernel asks the
// firmware, and holds the device meanwhile.
func (s *session) watchObjects(ctx context.Context) error {
	tick := time.NewTicker(verbs.ObjectsInterval)
	defer tick.Stop()
	kinds := []verbs.ObjectKind{verbs.ObjectContext, verbs.ObjectPD, verbs.ObjectCQ, verbs.ObjectSRQ, verbs.ObjectQP}
	var due time.Time // of the queue pairs, which come last
	for {
		asked := kinds[:len(kinds)-1]
		if now := time.Now(); !now.Before(due) && s.asks.Answers() {
			asked, due = kinds, now.Add(verbs.QueuePairsInterval-verbs.ObjectsInterval/2)
		}
		switch objects, err := s.dev.Objects(asked...); {
		case err == nil:
			s.out.add(verbs.Item{Objects: objects})
		case errors.Is(err, verbs.ErrClosed):
			return err
		} // whether the device is gone is for the queries of its ports to say
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
