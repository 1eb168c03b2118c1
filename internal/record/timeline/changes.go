package timeline

import (
	"reflect"

	"rdma_events/internal/telemetry/measure"
)

// Changes makes records of the points of some parts of the plugin. It is not safe for concurrent use.
type Changes struct {
	records map[reflect.Type]func(measure.Point) (Record, bool) // by the type of the point
}

// Part has Changes make records of the points of one part of the plugin.
type Part func(*Changes)

// NewChanges returns Changes of some parts, to which everything is new.
func NewChanges(parts ...Part) *Changes {
	c := &Changes{map[reflect.Type]func(measure.Point) (Record, bool){}}
	for _, add := range parts {
		add(c)
	}
	return c
}

// register has record make the records of points of one type. It reports false if a point has nothing new, and does not keep the point.
func register[P measure.Point](c *Changes, record func(P) (Record, bool)) {
	c.records[reflect.TypeFor[P]()] = func(p measure.Point) (Record, bool) { return record(p.(P)) }
}

// Has reports whether points of the type of p become records. It may be called concurrently.
func (c *Changes) Has(p measure.Point) bool { return c.records[reflect.TypeOf(p)] != nil }

// Of returns the record of a point. It reports false if the point has nothing new, or is of another part. A change that the
// event in last has caused becomes part of last, which may be nil. Of does not keep the point.
func (c *Changes) Of(p measure.Point, last *Record) (Record, bool) {
	record := c.records[reflect.TypeOf(p)]
	if record == nil {
		return Record{}, false
	}
	r, isNew := record(p)
	if !isNew || last != nil && last.join(&r) {
		return Record{}, false
	}
	return r, true
}
