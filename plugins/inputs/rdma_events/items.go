package rdma_events

import (
	"time"

	"rdma_events/internal/measure"
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
	points(m *measure.Tables) []measure.Line
	// events is how many asynchronous events go missing with the item.
	events() uint64
	// at is the time of its newest part.
	at() time.Time
}

type eventItem struct{ measure.Event }

func (i *eventItem) absorb(later item) {
	l := later.(*eventItem)
	i.Count += l.Count
	i.Total, i.Time = l.Total, l.Time
	i.HoldMax = max(i.HoldMax, l.HoldMax)
	i.AckMax = max(i.AckMax, l.AckMax)
}

func (i *eventItem) points(m *measure.Tables) []measure.Line {
	return []measure.Line{m.EventLine(&i.Event)}
}

func (i *eventItem) events() uint64 { return i.Count }
func (i *eventItem) at() time.Time  { return i.Time }

type changeItem struct{ measure.Change }

func (i *changeItem) absorb(later item) {
	first := i.Change
	i.Change = later.(*changeItem).Change
	i.From = first.From
	i.Transitions += first.Transitions
}

func (i *changeItem) points(m *measure.Tables) []measure.Line {
	return []measure.Line{m.ChangeLine(&i.Change)}
}

func (i *changeItem) events() uint64 { return 0 }
func (i *changeItem) at() time.Time  { return i.Time }

type portItem struct{ measure.Port }

func (i *portItem) absorb(later item) { i.Port = later.(*portItem).Port }

func (i *portItem) points(m *measure.Tables) []measure.Line {
	return []measure.Line{m.PortLine(&i.Port)}
}

func (i *portItem) events() uint64 { return 0 }
func (i *portItem) at() time.Time  { return i.Time }

type deviceItem struct{ measure.Device }

func (i *deviceItem) absorb(later item) { i.Device = later.(*deviceItem).Device }

func (i *deviceItem) points(m *measure.Tables) []measure.Line {
	return []measure.Line{m.DeviceLine(&i.Device)}
}

func (i *deviceItem) events() uint64 { return 0 }
func (i *deviceItem) at() time.Time  { return i.Time }

// interval is all that one Gather emits. It is never merged: while it waits, no
// further one is made.
type interval struct {
	snapshot *measure.Snapshot
	own      measure.Own
	time     time.Time
}

func (i *interval) absorb(item) { panic("an interval has no series") }
func (i *interval) points(m *measure.Tables) []measure.Line {
	return m.Lines(i.snapshot, i.own, i.time)
}
func (i *interval) events() uint64 { return 0 }
func (i *interval) at() time.Time  { return i.time }

// size is how many points a snapshot makes at least, for queue_length.
func (i *interval) size() int {
	s := i.snapshot
	return len(s.Async) + len(s.Ports) + len(s.Probes) + len(s.Devices) + 1
}
