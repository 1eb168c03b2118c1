package inventory

import (
	"cmp"
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
)

// The applications that are no process's name. A process of such a name joins the series.
const (
	other   = "other"   // processes above MaxSeries
	unknown = "unknown" // objects whose owner cannot be seen
	kernel  = "kernel"  // objects of the kernel's modules
)

// Picture is who holds what, and what events they had. It is not safe for concurrent use, and none of its methods blocks.
type Picture struct {
	places  places
	devices map[string]*device
	tracing tracing
}

// device is the newest lists of a device.
type device struct {
	lists   [verbs.ObjectKinds]list
	named   map[identity.ID]series    // of the processes in lists
	since   map[identity.ID]time.Time // of the first look that found them
	special map[string]bool           // of other, unknown and kernel: those that have been seen
	shown   map[series]bool           // series with a process that had a point
}

// NewPicture returns an empty Picture. An error wraps ErrOption and names the option.
func NewPicture(o Options) (*Picture, error) {
	places, err := newPlaces(o)
	if err != nil {
		return nil, err
	}
	p := &Picture{places: places, devices: map[string]*device{}, tracing: newTracing(o.Events)}
	p.places.used, p.places.yielded = p.used, p.tracing.yield
	return p, nil
}

// Add adds a look. The looks at a device come in the order of their times. A process is called as the newest look calls it.
func (p *Picture) Add(look *Look) {
	d := p.devices[look.Device]
	if d == nil {
		d = &device{named: map[identity.ID]series{}, since: map[identity.ID]time.Time{}, special: map[string]bool{}, shown: map[series]bool{}}
		p.devices[look.Device] = d
	}
	for kind := range verbs.ObjectKinds {
		if look.Lists[kind].State != verbs.ListNotAsked {
			d.lists[kind] = newList(kind, look)
		}
	}
	for i := range look.Holdings {
		p.name(d, look, &look.Holdings[i].Owner)
	}
	d.forgetGone()
	p.seat(d, look.At)
}

// Forget forgets who held objects of a device that is gone, and gives the places free of which no event was counted.
func (p *Picture) Forget(name string) {
	delete(p.devices, name)
	for s := range p.places.given {
		if s.device == name && p.tracing.counts[s] == nil {
			delete(p.places.given, s)
		}
	}
}

func (p *Picture) name(d *device, look *Look, o *Owner) {
	if o.Kernel || o.Unknown() {
		return
	}
	id := o.Process.ID()
	if _, known := d.named[id]; !known {
		d.since[id] = look.At
	}
	d.named[id] = p.places.name(look.Device, &o.Process)
}

// forgetGone forgets the names of processes that hold nothing any more.
func (d *device) forgetGone() {
	for id := range d.named {
		if !slices.ContainsFunc(d.lists[:], func(l list) bool { return l.processes[id] != nil }) {
			delete(d.named, id)
			delete(d.since, id)
		}
	}
}

// seat gives places to the series of a device that have none, in the order of the processes' starts.
func (p *Picture) seat(d *device, at time.Time) {
	ids := make([]identity.ID, 0, len(d.named))
	for id := range d.named {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b identity.ID) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID)) })
	var without []series
	for _, id := range ids {
		s := d.named[id]
		if held := p.places.given[s]; held != nil {
			held.held = at
		} else if !isSpecial(s.app) {
			without = append(without, s)
		}
	}
	p.places.give(without, at)
}

// used returns the series that have a process: by the newest looks, which may be long ago at other devices, or by the tracer.
func (p *Picture) used() map[series]bool {
	used := map[series]bool{}
	for _, d := range p.devices {
		for _, s := range d.named {
			used[s] = true
		}
	}
	p.tracing.use(used)
	return used
}
