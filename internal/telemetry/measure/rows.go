package measure

import (
	"math"

	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/telemetry/aggregate"
)

// requiredTag returns a tag that is present on every series.
func requiredTag[V any, S ~string](name, description string, value func(*V) S) tag[V] {
	return tag[V]{Tag{Name: name, Description: description}, func(v *V) string { return string(value(v)) }}
}

// optionalTag returns a tag that is present only on some series.
func optionalTag[V any](name, description string, value func(*V) string) tag[V] {
	return tag[V]{Tag{Name: name, Description: description, Optional: true}, value}
}

// counter returns a cumulative count that is present on every line.
func counter[V any](name, description string, value func(*V) uint64) field[V] {
	return markCumulative(requiredInt(name, "", description, func(v *V) int64 { return clampToInt64(value(v)) }))
}

// markCumulative marks a field as one that counts since the plugin, or the driver, started.
func markCumulative[V any](f field[V]) field[V] {
	f.Cumulative = true
	return f
}

// requiredInt returns an integer that is present on every line.
func requiredInt[V any](name, unit, description string, value func(*V) int64) field[V] {
	return field[V]{
		Field{Name: name, Kind: Int, Unit: unit, Description: description},
		func(v *V) any { return value(v) },
	}
}

// boolInt returns a field that is 0 or 1, and present on every line.
func boolInt[V any](name, description string, value func(*V) bool) field[V] {
	return requiredInt(name, "", description, func(v *V) int64 { return boolToInt(value(v)) })
}

// optionalInt returns an integer that is left out if value returns false.
func optionalInt[V any](name, unit, description string, value func(*V) (int64, bool)) field[V] {
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

// optionalFloat returns a float that is left out if value returns false, infinity or NaN.
func optionalFloat[V any](name, unit, description string, value func(*V) (float64, bool)) field[V] {
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

// optionalText returns a string that is left out if it is empty.
func optionalText[V any, S ~string](name, description string, value func(*V) S) field[V] {
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

// cleanText makes a foreign string safe for a line, and limits its length. Names and reasons
// come from drivers and from dying workers.
func cleanText(s string) string { return sanitize.Field(s, 256) }

// clampToInt64 limits a counter to the range of int64, the only integer type that every
// version of line protocol supports.
func clampToInt64(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func boolToInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// statFields returns the two fields of an aggregate.Stat. what describes the measured duration.
func statFields[V any](name, what string, value func(*V) aggregate.Stat) []field[V] {
	return []field[V]{
		optionalInt(name+"_ns_mean", "ns", what+", mean of the interval", func(v *V) (int64, bool) {
			s := value(v)
			return s.Mean, s.Count > 0
		}),
		optionalInt(name+"_ns_max", "ns", what+", maximum of the interval", func(v *V) (int64, bool) {
			s := value(v)
			return s.Max, s.Count > 0
		}),
	}
}

// percentileFields returns the three fields of aggregate.Percentiles. what describes the measured duration.
func percentileFields[V any](name, what string, value func(*V) aggregate.Percentiles) []field[V] {
	one := func(rank string, pick func(aggregate.Percentiles) int64) field[V] {
		return optionalInt(name+"_ns_"+rank, "ns", what+", "+rank+" of the window", func(v *V) (int64, bool) {
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

// managementTag returns the tag role of a port used for management, whose problems are only warnings.
func managementTag[V any](value func(*V) string) tag[V] {
	return optionalTag("role", "management, on ports with this role (see rdma_port); not on other ports", value)
}
