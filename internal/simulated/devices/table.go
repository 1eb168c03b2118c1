package devices

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxSpan limits every duration of a scenario, so that sums cannot overflow.
const maxSpan = 10 * 365 * 24 * time.Hour

// minEvery is the minimum interval of repetitions. A restarted worker executes all link
// changes since the epoch, so there must not be too many.
const minEvery = time.Millisecond

// table reads the keys of one TOML table. It keeps the first problem and
// ignores later ones.
type table struct {
	name   string
	index  int
	values map[string]any
	known  []string // keys that were read
	err    error
}

func (t *table) fail(key, format string, args ...any) {
	if t.err == nil {
		t.err = &problem{table: t.name, index: t.index, key: key, text: fmt.Sprintf(format, args...)}
	}
}

// value returns the value of a key, or nil if there is none.
func (t *table) value(key string) any {
	t.known = append(t.known, key)
	return t.values[key]
}

func (t *table) text(key, fallback string) string {
	switch v := t.value(key).(type) {
	case nil:
		return fallback
	case string:
		return v
	default:
		t.fail(key, "is %v; allowed: a string", v)
		return fallback
	}
}

func (t *table) integer(key string, fallback, least, most int64) int64 {
	switch v := t.value(key).(type) {
	case nil:
		return fallback
	case int64:
		if v >= least && v <= most {
			return v
		}
	}
	t.fail(key, "is %v; allowed: a whole number from %d to %d", t.values[key], least, most)
	return fallback
}

func (t *table) number(key string, fallback, least, most float64) float64 {
	var n float64
	switch v := t.value(key).(type) {
	case nil:
		return fallback
	case int64:
		n = float64(v)
	case float64:
		n = v
	}
	// This form also rejects NaN.
	if !(n >= least && n <= most) {
		t.fail(key, "is %v; allowed: a number from %g to %g", t.values[key], least, most)
		return fallback
	}
	return n
}

func (t *table) span(key string, fallback int64, least time.Duration) int64 {
	v := t.value(key)
	if v == nil {
		return fallback
	}
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > maxSpan {
		t.fail(key, "is %#v; allowed: a duration such as \"1m30s\", from %q to %q", v, least, maxSpan)
		return fallback
	}
	return int64(d)
}

// choice returns a text that must be one of allowed.
func (t *table) choice(key, fallback string, allowed []string) string {
	v := t.text(key, fallback)
	if t.err == nil && !slices.Contains(allowed, v) {
		t.fail(key, "is %q; allowed: %s", v, strings.Join(allowed, ", "))
	}
	return v
}

// flag reads a boolean. It is false if the key is missing.
func (t *table) flag(key string) bool {
	v := t.value(key)
	set, ok := v.(bool)
	if v != nil && !ok {
		t.fail(key, "is %v; allowed: true or false", v)
	}
	return set
}

// schedule reads at, every and times, with a prefix before each.
func (t *table) schedule(prefix string) schedule {
	s := schedule{
		at:    t.span(prefix+"at", 0, 0),
		every: t.span(prefix+"every", 0, minEvery),
		times: t.integer(prefix+"times", 0, 1, 1e9),
	}
	if s.times > 1 && s.every == 0 {
		t.fail(prefix+"times", "is %d; allowed: only together with %severy", s.times, prefix)
	}
	return s
}

// window reads the schedule, and the length from the named key.
func (t *table) window(length string) window {
	w := window{schedule: t.schedule(""), length: t.span(length, never, time.Nanosecond)}
	if w.every > 0 && w.length >= w.every {
		t.fail(length, "lasts until the next time; allowed: less than every (%v)", time.Duration(w.every))
	}
	return w
}

// requireKey fails for keys with a prefix if the key that they refine is missing.
func (t *table) requireKey(prefix, key string) {
	if t.values[key] != nil {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(t.values)) {
		if strings.HasPrefix(k, prefix) {
			t.fail(k, "allowed: only together with %s", key)
		}
	}
}

// finish returns the first problem. An unknown key is a problem, too.
func (t *table) finish() error {
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		if !slices.Contains(t.known, key) {
			slices.Sort(t.known)
			t.fail(key, "unknown key; allowed: %s", strings.Join(t.known, ", "))
		}
	}
	return t.err
}
