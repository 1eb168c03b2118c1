package measure

import (
	"math"
	"strings"

	"rdma_events/internal/aggregate"
)

func newTag[V any](name, description string, value func(*V) string) tag[V] {
	return tag[V]{Tag{Name: name, Description: description}, value}
}

// maybeTag is on some series only.
func maybeTag[V any](name, description string, value func(*V) string) tag[V] {
	return tag[V]{Tag{Name: name, Description: description, Optional: true}, value}
}

// counter is a cumulative count that is always there.
func counter[V any](name, description string, value func(*V) uint64) field[V] {
	return field[V]{
		Field{Name: name, Kind: Int, Description: description},
		func(v *V) any { return clip(value(v)) },
	}
}

// integer is a number that is always there.
func integer[V any](name, unit, description string, value func(*V) int64) field[V] {
	return field[V]{
		Field{Name: name, Kind: Int, Unit: unit, Description: description},
		func(v *V) any { return value(v) },
	}
}

// yesNo is 0 or 1.
func yesNo[V any](name, description string, value func(*V) bool) field[V] {
	return integer(name, "", description, func(v *V) int64 { return bit(value(v)) })
}

// maybe is a number that is left out where it is not known.
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

// float is a float that is left out where it is not known, or not a number.
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

// text is a string that is left out where it is empty.
func text[V any](name, description string, value func(*V) string) field[V] {
	return field[V]{
		Field{Name: name, Kind: String, Description: description, Optional: true},
		func(v *V) any {
			if s := clean(value(v)); s != "" {
				return s
			}
			return nil
		},
	}
}

// clean makes a string from outside fit for a line of limited length: names and
// reasons come from drivers and from dying workers.
func clean(s string) string {
	const longest = 256
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "")
	}
	return s
}

// clip keeps a counter an int64, the only integer that line protocol has
// everywhere.
func clip(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// stat is the pair of fields of an aggregate.Stat.
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

// percentiles is the triple of fields of aggregate.Percentiles.
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
