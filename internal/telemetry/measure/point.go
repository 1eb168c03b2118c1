package measure

import "time"

// Point is one point of a measurement. It becomes one or several lines. The points of
// this package are pointers. A function that takes a point becomes its owner. A point is
// not safe for concurrent use.
type Point interface {
	// Key returns the key of the point. Points with equal keys may merge.
	Key() Key
	// Time returns the time of the newest part of the point. For an event, that is the time when it was read.
	Time() time.Time
	// Merge adds a later point with an equal Key to this one.
	Merge(later Point)
	// Clone returns a copy for another owner. Both share the data behind pointers, which no
	// method changes.
	Clone() Point
	// Events returns the number of asynchronous events that are lost if the point is lost.
	Events() uint64
	// Lines calls add for each line of the point.
	Lines(add func(Line))
}

func clone[T any](p *T) *T {
	c := *p
	return &c
}

// Key identifies the points that may merge. The Key of an rdma_port_change point does not
// include the states, because merging changes the states of a point.
type Key struct {
	Measurement string `json:"measurement"`
	Device      string `json:"device,omitempty"`  // "": the point is about the host
	Subject     string `json:"subject,omitempty"` // event, method, application or peer; "": none of them
	Port        int    `json:"port,omitempty"`    // 0: the point is about the device
	Vector      int    `json:"vector,omitempty"`  // completion vector
	// Identity keeps points apart that have the same tags but are about different things, such as GIDs. The producer
	// gives each of these points a distinct time. "": all points of the series may merge.
	Identity string `json:"identity,omitempty"`
}

// Values of Metric.Emitted. AsItHappens belongs to points that describe a single moment.
const (
	everyInterval = "every interval"
	onChange      = "every interval and on change"
	AsItHappens   = "when it happens"
)

// All returns the descriptions of all measurements with their tags and fields, in the
// order of docs/reference/metrics.md.
func All() []Metric {
	return []Metric{
		asyncTable.describe(),
		eventTable.describe(),
		portTable.describe(),
		portChangeTable.describe(),
		gidChangeTable.describe(),
		attrChangeTable.describe(),
		probeTable.describe(),
		histogramTable.describe(),
		commandTable.describe(),
		evidenceTable.describe(),
		fabricTable.describe(),
		fabricPortTable.describe(),
		fabricPeerTable.describe(),
		appTable.describe(),
		appAsyncTable.describe(),
		appEventTable.describe(),
		appHangTable.describe(),
		deviceTable.describe(),
		hostTable.describe(),
		problemTable.describe(),
		collectorTable.describe(),
		tracerTable.describe(),
	}
}
