//go:build linux && cgo

package native

import (
	"errors"
	"slices"

	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// netlinkKinds are the kinds of objects as RDMA netlink names them.
var netlinkKinds = [verbs.ObjectKinds]nldev.Kind{
	verbs.ObjectContext: nldev.Contexts, verbs.ObjectPD: nldev.ProtectionDomains, verbs.ObjectCQ: nldev.CompletionQueues,
	verbs.ObjectSRQ: nldev.SharedReceiveQueues, verbs.ObjectQP: nldev.QueuePairs,
}

// ListObjects implements verbs.Device. It uses no object of the library.
func (d *nativeDevice) ListObjects(kinds ...verbs.ObjectKind) (*verbs.Objects, error) {
	o := &verbs.Objects{Mono: clock.Monotonic()}
	var all []nldev.Object
	for _, kind := range kinds {
		objects, err := d.listKind(netlinkKinds[kind])
		switch {
		case err == nil:
			o.Lists[kind].State = verbs.ListComplete
			all = append(all, objects...)
			continue
		case errors.Is(err, verbs.ErrClosed):
		case errors.Is(err, nldev.ErrNoDevice):
			err = verbs.ErrNoDevice
		default:
			o.Lists[kind] = d.countKind(netlinkKinds[kind], err)
			if o.Problem == "" && o.Lists[kind].State == verbs.ListFailed && !errors.Is(err, nldev.ErrUnsupported) {
				o.Problem = err.Error()
			}
			continue
		}
		return nil, verbs.NewOpError("list objects", d.name, 0, err)
	}
	var tally verbs.ObjectTally
	for i, h := range nldev.Holders(all) {
		tally.Add(h.Thread, h.Kernel != "", verbs.ObjectKind(slices.Index(netlinkKinds[:], all[i].Kind)), int(all[i].State))
	}
	o.Holders = tally.Holders()
	return o, nil
}

// listKind lists the objects of a kind. It stops when the device is closed, so that a removal waits
// only for the part of the list that is being read.
func (d *nativeDevice) listKind(kind nldev.Kind) (objects []nldev.Object, err error) {
	if d.isClosed() {
		return nil, verbs.ErrClosed
	}
	err = nldev.Dump(d.name, kind, func(o nldev.Object) error {
		if d.isClosed() {
			return verbs.ErrClosed
		}
		objects = append(objects, o)
		return nil
	})
	return objects, err
}

// countKind returns the number of objects of a kind if err reports that they are too many to list.
func (d *nativeDevice) countKind(kind nldev.Kind, err error) verbs.ObjectList {
	if errors.Is(err, nldev.ErrTooMany) {
		if counts, err := nldev.QueryResources(d.name); err == nil {
			return verbs.ObjectList{State: verbs.ListCounted, Count: counts[string(kind)]}
		}
	}
	return verbs.ObjectList{State: verbs.ListFailed}
}
