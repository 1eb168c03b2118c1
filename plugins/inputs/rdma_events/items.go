package rdma_events

import (
	"time"

	"rdma_events/internal/monitor"
	"rdma_events/internal/verbs"
)

// seriesKey says what merges with what. For rdma_port_change that is a port,
// because a merged change is of other states than those it is made of.
type seriesKey struct {
	measurement string
	device      string
	port        int
	event       verbs.EventType
}

// item is what waits to be emitted. Items of one seriesKey are of one type.
type item interface {
	// absorb takes a later item in.
	absorb(later item)
	// points makes what is emitted.
	points(m *metrics) []point
	// events is how many asynchronous events go missing with the item.
	events() uint64
	// at is the time of its newest part.
	at() time.Time
}

type eventItem struct{ monitor.EventPoint }

func (i *eventItem) absorb(later item) {
	l := later.(*eventItem)
	i.Count += l.Count
	i.Total, i.Time = l.Total, l.Time
	i.HoldMax = max(i.HoldMax, l.HoldMax)
	i.AckMax = max(i.AckMax, l.AckMax)
}

func (i *eventItem) points(m *metrics) []point {
	return []point{m.event.point(&i.EventPoint, i.Time)}
}

func (i *eventItem) events() uint64 { return i.Count }
func (i *eventItem) at() time.Time  { return i.Time }

type changeItem struct{ monitor.ChangePoint }

func (i *changeItem) absorb(later item) {
	first := i.ChangePoint
	i.ChangePoint = later.(*changeItem).ChangePoint
	i.From = first.From
	i.Transitions += first.Transitions
}

func (i *changeItem) points(m *metrics) []point {
	return []point{m.change.point(&i.ChangePoint, i.Time)}
}

func (i *changeItem) events() uint64 { return 0 }
func (i *changeItem) at() time.Time  { return i.Time }

type portItem struct{ monitor.PortView }

func (i *portItem) absorb(later item) { i.PortView = later.(*portItem).PortView }

func (i *portItem) points(m *metrics) []point {
	return []point{m.port.point(&i.PortView, i.Time)}
}

func (i *portItem) events() uint64 { return 0 }
func (i *portItem) at() time.Time  { return i.Time }

type deviceItem struct{ monitor.DeviceView }

func (i *deviceItem) absorb(later item) { i.DeviceView = later.(*deviceItem).DeviceView }

func (i *deviceItem) points(m *metrics) []point {
	return []point{m.device.point(&i.DeviceView, i.Time)}
}

func (i *deviceItem) events() uint64 { return 0 }
func (i *deviceItem) at() time.Time  { return i.Time }

// interval is all that one Gather emits. It is never merged: while it waits, no
// further one is made.
type interval struct {
	snapshot *monitor.Snapshot
	own      process
	time     time.Time
}

func (i *interval) absorb(item)               { panic("an interval has no series") }
func (i *interval) points(m *metrics) []point { return m.points(i.snapshot, i.own, i.time) }
func (i *interval) events() uint64            { return 0 }
func (i *interval) at() time.Time             { return i.time }

// size is how many points a snapshot makes at least, for queue_length.
func (i *interval) size() int {
	s := i.snapshot
	return len(s.Async) + len(s.Ports) + len(s.Probes) + len(s.Devices) + 1
}
