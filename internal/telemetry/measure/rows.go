package measure

import (
	"math"

	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/telemetry/aggregate"
)

func newTag[V any, S ~string](name, description string, value func(*V) S) tag[V] {
	return tag[V]{Tag{Name: name, Description: description}, func(v *V) string { return string(value(v)) }}
}

// maybeTag returns a tag that is on some series only.
func maybeTag[V any](name, description string, value func(*V) string) tag[V] {
	return tag[V]{Tag{Name: name, Description: description, Optional: true}, value}
}

// counter returns a cumulative count that is on every line.
func counter[V any](name, description string, value func(*V) uint64) field[V] {
	return cumulative(integer(name, "", description, func(v *V) int64 { return clip(value(v)) }))
}

// cumulative marks a field that counts since the plugin started.
func cumulative[V any](f field[V]) field[V] {
	f.Cumulative = true
	return f
}

// integer returns a number that is on every line.
func integer[V any](name, unit, description string, value func(*V) int64) field[V] {
	return field[V]{
		Field{Name: name, Kind: Int, Unit: unit, Description: description},
		func(v *V) any { return value(v) },
	}
}

// yesNo returns a field that is 0 or 1.
func yesNo[V any](name, description string, value func(*V) bool) field[V] {
	return integer(name, "", description, func(v *V) int64 { return bit(value(v)) })
}

// maybe returns a number that is left out where it is unknown.
func maybe[V any](name, unit, description string, value func(*V) (int64, bool)) field[V] {
	return field[V]{
		Field{Name: name, Kind: Int, Unit: unit, Description: description, Optional: true},
		func(v *V) any {
			if n, ok := value(v); ok {
				return n
			}
			return nil
		},
	}
}

// float returns a float that is left out where it is unknown, infinite or not a number.
func float[V any](name, unit, description string, value func(*V) (float64, bool)) field[V] {
	return field[V]{
		Field{Name: name, Kind: Float, Unit: unit, Description: description, Optional: true},
		func(v *V) any {
			x, ok := value(v)
			if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
				return nil
			}
			return x
		},
	}
}

// text returns a string that is left out where it is empty.
func text[V any, S ~string](name, description string, value func(*V) S) field[V] {
	return field[V]{
		Field{Name: name, Kind: String, Description: description, Optional: true},
		func(v *V) any {
			if s := cleanText(string(value(v))); s != "" {
				return s
			}
			return nil
		},
	}
}

// cleanText makes a foreign string fit for a line of limited length. Names and reasons come
// from drivers and from dying workers.
func cleanText(s string) string { return sanitize.Field(s, 256) }

// clip limits a counter to an int64, the only integer type that line protocol has
// everywhere.
func clip(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// stat returns the two fields of an aggregate.Stat.
func stat[V any](name, what string, value func(*V) aggregate.Stat) []field[V] {
	return []field[V]{
		maybe(name+"_ns_mean", "ns", what+", mean of the interval", func(v *V) (int64, bool) {
			s := value(v)
			return s.Mean, s.Count > 0
		}),
		maybe(name+"_ns_max", "ns", what+", greatest of the interval", func(v *V) (int64, bool) {
			s := value(v)
			return s.Max, s.Count > 0
		}),
	}
}

// percentiles returns the three fields of aggregate.Percentiles.
func percentiles[V any](name, what string, value func(*V) aggregate.Percentiles) []field[V] {
	one := func(rank string, pick func(aggregate.Percentiles) int64) field[V] {
		return maybe(name+"_ns_"+rank, "ns", what+", "+rank+" of the window", func(v *V) (int64, bool) {
			p := value(v)
			return pick(p), p.Count > 0
		})
	}
	return []field[V]{
		one("p50", func(p aggregate.Percentiles) int64 { return p.P50 }),
		one("p90", func(p aggregate.Percentiles) int64 { return p.P90 }),
		one("p99", func(p aggregate.Percentiles) int64 { return p.P99 }),
	}
}

// managementTag returns the tag of a series whose problems are mere warnings, since its port is one for management.
func managementTag[V any](value func(*V) string) tag[V] {
	return maybeTag("role", "management, on ports of this role (rdma_port); not there on others", value)
}
