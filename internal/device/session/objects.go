package session

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/device/verbs"
)

// Objects returns the part of a session that lists the objects of its device and their holders, or nil if the options do not
// request it.
func Objects(s Session) Part {
	if !s.Options().Objects {
		return nil
	}
	return objects{s}
}

type objects struct{ s Session }

// Tasks implements Part. The task may hang: with some drivers the kernel asks the firmware for the objects, and holds the device
// meanwhile.
func (o objects) Tasks() []Task { return []Task{{Run: o.watch, MayHang: true}} }

// PortChanged implements Part.
func (objects) PortChanged(int) {}

// Stop implements Part.
func (objects) Stop() (sent bool) { return false }

// watch lists the objects at once and then every verbs.ObjectsInterval, and sends the lists.
func (o objects) watch(ctx context.Context) error {
	tick := time.NewTicker(verbs.ObjectsInterval)
	defer tick.Stop()
	kinds := []verbs.ObjectKind{verbs.ObjectContext, verbs.ObjectPD, verbs.ObjectCQ, verbs.ObjectSRQ, verbs.ObjectQP}
	var due time.Time // when to list the queue pairs, the last kind
	for {
		listed := kinds[:len(kinds)-1]
		if now := time.Now(); !now.Before(due) && o.s.Answers() {
			listed, due = kinds, now.Add(verbs.QueuePairsInterval-verbs.ObjectsInterval/2)
		}
		switch found, err := o.s.Device().ListObjects(listed...); {
		case err == nil:
			o.s.Send(verbs.Item{Objects: found})
		case errors.Is(err, verbs.ErrClosed):
			return err
		} // other errors are ignored: the port queries find out whether the device was removed
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
