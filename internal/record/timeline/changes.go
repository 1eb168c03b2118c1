package timeline

import (
	"reflect"
	"time"

	"rdma_events/internal/telemetry/measure"
)

// Changes turns points that report something new into records. It is not safe for concurrent use.
type Changes struct {
	records map[reflect.Type]func(measure.Point) (Record, bool) // key: type of the point
}

// Part registers the points of one part of the plugin with a Changes.
type Part func(*Changes)

// NewChanges returns a Changes for the points of the given parts. It has seen no points yet.
func NewChanges(parts ...Part) *Changes {
	c := &Changes{map[reflect.Type]func(measure.Point) (Record, bool){}}
	for _, register := range parts {
		register(c)
	}
	return c
}

// registerRecord makes c call record for points of type P. record returns false if a point reports nothing new. It must not keep
// the point.
func registerRecord[P measure.Point](c *Changes, record func(P) (Record, bool)) {
	c.records[reflect.TypeFor[P]()] = func(p measure.Point) (Record, bool) { return record(p.(P)) }
}

// Handles reports whether points of the type of p can become records. It may be called concurrently.
func (c *Changes) Handles(p measure.Point) bool { return c.records[reflect.TypeOf(p)] != nil }

// RecordOf returns the record of a point. It returns false if the point reports nothing new or belongs to no registered part.
// If last, which may be nil, is the event that caused a state change, RecordOf adds the change to last instead of returning
// a record. It does not keep the point.
func (c *Changes) RecordOf(p measure.Point, last *Record) (Record, bool) {
	record := c.records[reflect.TypeOf(p)]
	if record == nil {
		return Record{}, false
	}
	r, isNew := record(p)
	if !isNew || last != nil && last.addCausedChange(&r) {
		return Record{}, false
	}
	return r, true
}

// durationNS returns the time from began to ended, in ns. The times are of the wall clock. If somebody has set it in between, the
// result is wrong, but never negative; a record of the recorder tells when that happened.
func durationNS(began, ended time.Time) int64 { return max(0, int64(ended.Sub(began))) }
