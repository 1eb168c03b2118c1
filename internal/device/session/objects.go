package session

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/device/verbs"
)

// Objects returns the part of a session that sends who holds the objects of its device, nil if the options do not ask for it.
func Objects(s Session) Part {
	if !s.Options().Objects {
		return nil
	}
	return objects{s}
}

type objects struct{ s Session }

// Tasks implements Part. With some drivers the kernel asks the firmware for the objects, and holds the device meanwhile.
func (o objects) Tasks() []Task { return []Task{{Run: o.watch, MayHang: true}} }

// PortChanged implements Part.
func (objects) PortChanged(int) {}

// Stop implements Part.
func (objects) Stop() (sent bool) { return false }

// watch sends who holds the objects, at first and every verbs.ObjectsInterval.
func (o objects) watch(ctx context.Context) error {
	tick := time.NewTicker(verbs.ObjectsInterval)
	defer tick.Stop()
	kinds := []verbs.ObjectKind{verbs.ObjectContext, verbs.ObjectPD, verbs.ObjectCQ, verbs.ObjectSRQ, verbs.ObjectQP}
	var due time.Time // of the queue pairs, which come last
	for {
		asked := kinds[:len(kinds)-1]
		if now := time.Now(); !now.Before(due) && o.s.Answers() {
			asked, due = kinds, now.Add(verbs.QueuePairsInterval-verbs.ObjectsInterval/2)
		}
		switch found, err := o.s.Device().ListObjects(asked...); {
		case err == nil:
			o.s.Send(verbs.Item{Objects: found})
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
