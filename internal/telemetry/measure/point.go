package measure

import "time"

// Point is one point of a measurement, which becomes one line or several. The points of
// this package are pointers. The function to which a point was passed last owns it. A
// point is not safe for concurrent use.
type Point interface {
	// Key returns the key of the point. Points of equal keys may merge.
	Key() Key
	// Time returns when the newest part of the point happened; for an event, when it was read.
	Time() time.Time
	// Merge adds a later point of an equal Key to this one.
	Merge(later Point)
	// Clone returns a copy, for another owner. What the point points to is shared, and no
	// method changes it.
	Clone() Point
	// Events returns how many asynchronous events are lost if the point is lost.
	Events() uint64
	// Lines calls add for each line of the point.
	Lines(add func(Line))
}

func clone[T any](p *T) *T {
	c := *p
	return &c
}

// Key identifies the points that may merge. The Key of an rdma_port_change point has no
// states, because a merged change has other states than the changes it was merged from.
type Key struct {
	Measurement string
	Device      string // "": the host
	Of          string // event, method, application or peer; "": none of them
	Port        int    // 0: the device
	Vector      int    // completion vector
	// Identity keeps points of one series from being merged: they have the same tags, and are about different things. Who makes
	// them gives each a time of its own. "": the points of the series merge.
	Identity string
}

// The values of Metric.Emitted. AsItHappens is that of points of single moments.
const (
	everyInterval = "every interval"
	onChange      = "every interval and on change"
	AsItHappens   = "when it happens"
)

// All returns a description of every measurement with its tags and fields, in the
// order of docs/reference/metrics.md.
func All() []Metric {
	return []Metric{
		asyncs.describe(),
		events.describe(),
		ports.describe(),
		changes.describe(),
		gidChanges.describe(),
		attrChanges.describe(),
		probes.describe(),
		histograms.describe(),
		commands.describe(),
		evidences.describe(),
		fabrics.describe(),
		fabricPorts.describe(),
		fabricPeers.describe(),
		apps.describe(),
		appAsyncs.describe(),
		appEvents.describe(),
		appHangs.describe(),
		devices.describe(),
		hosts.describe(),
		collectors.describe(),
		tracers.describe(),
	}
}
