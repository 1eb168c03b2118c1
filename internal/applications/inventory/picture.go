package inventory

import (
	"cmp"
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
)

// Names of applications that do not stand for a process name. A process with such a name is counted in the same series.
const (
	other   = "other"   // processes above MaxSeries
	unknown = "unknown" // objects whose owner is not visible
	kernel  = "kernel"  // objects of kernel modules
)

// Picture combines which processes hold which objects with the events that they had. It must not be used concurrently. None of its methods
// blocks.
type Picture struct {
	places  places
	devices map[string]*device
	tracing tracing
}

// device has the newest lists of a device.
type device struct {
	lists     [verbs.ObjectKinds]list
	series    map[identity.ID]series    // series of the processes in lists
	firstSeen map[identity.ID]time.Time // time of the first Listing with the process
	special   map[string]bool           // which of other, unknown and kernel have occurred
	emitted   map[series]bool           // series with a process that had a point
}

// NewPicture returns an empty Picture. An error wraps ErrOption and names the option.
func NewPicture(o Options) (*Picture, error) {
	places, err := newPlaces(o)
	if err != nil {
		return nil, err
	}
	p := &Picture{places: places, devices: map[string]*device{}, tracing: newTracing(o.Events)}
	p.places.used, p.places.released = p.usedSeries, p.tracing.forgetSeries
	return p, nil
}

// AddListing adds a Listing. Listings of a device must be added in the order of their times. The name of a process is that in the newest Listing.
func (p *Picture) AddListing(look *Listing) {
	d := p.devices[look.Device]
	if d == nil {
		d = &device{series: map[identity.ID]series{}, firstSeen: map[identity.ID]time.Time{}, special: map[string]bool{}, emitted: map[series]bool{}}
		p.devices[look.Device] = d
	}
	for kind := range verbs.ObjectKinds {
		if look.Lists[kind].State != verbs.ListNotAsked {
			d.lists[kind] = newList(kind, look)
		}
	}
	for i := range look.Holdings {
		p.nameProcess(d, look, &look.Holdings[i].Owner)
	}
	d.forgetGone()
	p.assignPlaces(d, look.At)
}

// RemoveDevice removes the objects of a device that was removed, and frees the places of its series without counted events.
func (p *Picture) RemoveDevice(name string) {
	delete(p.devices, name)
	for s := range p.places.assigned {
		if s.device == name && p.tracing.counts[s] == nil {
			delete(p.places.assigned, s)
		}
	}
}

func (p *Picture) nameProcess(d *device, look *Listing, o *Owner) {
	if o.Kernel || o.Unknown() {
		return
	}
	id := o.Process.ID()
	if _, known := d.series[id]; !known {
		d.firstSeen[id] = look.At
	}
	d.series[id] = p.places.seriesOf(look.Device, &o.Process)
}

// forgetGone removes processes that no longer hold any object.
func (d *device) forgetGone() {
	for id := range d.series {
		if !slices.ContainsFunc(d.lists[:], func(l list) bool { return l.processes[id] != nil }) {
			delete(d.series, id)
			delete(d.firstSeen, id)
		}
	}
}

// assignPlaces assigns places to the series of a device that have none, in the order of the processes' start times.
func (p *Picture) assignPlaces(d *device, at time.Time) {
	ids := make([]identity.ID, 0, len(d.series))
	for id := range d.series {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b identity.ID) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID)) })
	var without []series
	for _, id := range ids {
		s := d.series[id]
		if held := p.places.assigned[s]; held != nil {
			held.lastUsed = at
		} else if !isSpecial(s.app) {
			without = append(without, s)
		}
	}
	p.places.assign(without, at)
}

// usedSeries returns the series that have a process in the newest Listing of any device, which may be old, or in the tracer's data.
func (p *Picture) usedSeries() map[series]bool {
	used := map[series]bool{}
	for _, d := range p.devices {
		for _, s := range d.series {
			used[s] = true
		}
	}
	p.tracing.addUsed(used)
	return used
}
