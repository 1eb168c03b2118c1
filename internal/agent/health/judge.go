package health

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/telemetry/measure"
)

// judge judges series by the table of alerts. It remembers, of each alert and each series, since when the condition holds and when counters
// grew. It is not safe for concurrent use.
type judge struct {
	table  map[string][]*alerts.Alert // by measurement
	states map[judged]*state
	now    time.Time // of the interval that is judged
	once   bool      // nothing is known of the past, and nothing has to last
}

// judged is an alert about a series.
type judged struct {
	alert *alerts.Alert
	of    measure.Key
}

// state is what is known of an alert about a series.
type state struct {
	counters []counter // of the counters of the condition, in its order
	began    time.Time // when the condition was first seen to hold; zero: it does not hold
	seen     time.Time // when there was a point of the series last
}

// finding is an alert whose condition holds.
type finding struct {
	alert *alerts.Alert
	since time.Time
	text  string
	of    string
	held  bool // for as long as the alert demands
}

func newJudge(once bool) *judge {
	j := &judge{table: map[string][]*alerts.Alert{}, states: map[judged]*state{}, once: once}
	table := alerts.Table()
	for i := range table {
		a := &table[i]
		if a.When != nil {
			j.table[a.Measurement] = append(j.table[a.Measurement], a)
		}
	}
	return j
}

// across returns the alert of an id whose condition is about several series.
func (j *judge) across(id string) *alerts.Alert {
	for _, a := range j.table[""] {
		if a.ID == id {
			return a
		}
	}
	panic("the table has no alert " + id + " about several series")
}

// point returns what the table says of a point.
func (j *judge) point(p measure.Point) []finding {
	all := j.table[p.Key().Measurement]
	if len(all) == 0 {
		return nil
	}
	var found []finding
	p.Lines(func(line measure.Line) {
		for _, a := range all {
			if a.Except.Name != "" && line.Tags[a.Except.Name] == a.Except.Value {
				continue
			}
			if f, ok := j.series(a, p, &line); ok {
				found = append(found, f)
			}
		}
	})
	return found
}

// series judges a series by its newest line.
func (j *judge) series(a *alerts.Alert, p measure.Point, line *measure.Line) (finding, bool) {
	s := j.state(a, p.Key())
	r := reading{line: line, now: j.now, state: s}
	since, ok := r.holds(a.When)
	if age, known := r.number(a.Age); ok && known {
		since = p.Time().Add(-time.Duration(age))
	}
	if !ok {
		s.began = time.Time{}
		return finding{}, false
	}
	return j.held(a, s, since, r.text(a.Text), r.text(a.Of)), true
}

// lasts is for an alert whose condition is about several series, and holds now.
func (j *judge) lasts(a *alerts.Alert, of measure.Key, since time.Time, text string) finding {
	return j.held(a, j.state(a, of), since, text, "")
}

func (j *judge) state(a *alerts.Alert, of measure.Key) *state {
	s := j.states[judged{a, of}]
	if s == nil {
		s = new(state)
		j.states[judged{a, of}] = s
	}
	s.seen = j.now
	return s
}

func (j *judge) held(a *alerts.Alert, s *state, since time.Time, text, of string) finding {
	if s.began.IsZero() {
		s.began = j.now
	}
	if since.IsZero() {
		since = s.began
	}
	return finding{alert: a, since: since.Round(0), text: text, of: of, held: j.once || j.now.Sub(s.began) >= a.Hold}
}

// end ends an interval: what was not there in it does not last, and what has been gone for longer than its alert looks back is
// forgotten.
func (j *judge) end() {
	for at, s := range j.states {
		switch {
		case s.seen.Equal(j.now):
		case j.now.Sub(s.seen) > lookBack(at.alert.When):
			delete(j.states, at)
		default:
			s.began = time.Time{}
		}
	}
}

// lookBack returns for how long a condition needs the past.
func lookBack(c alerts.Condition) time.Duration {
	switch c := c.(type) {
	case alerts.Grew:
		return c.Within
	case alerts.All:
		return longest(c)
	case alerts.Any:
		return longest(c)
	case alerts.Unless:
		return max(lookBack(c.When), lookBack(c.Not))
	}
	return 0
}

func longest(all []alerts.Condition) (d time.Duration) {
	for _, c := range all {
		d = max(d, lookBack(c))
	}
	return d
}

// counter holds the moments at which a counter grew.
type counter struct {
	total uint64
	known bool
	times []time.Time // the last ones, at most Grew.By
}

// add adds a reading. Of what is not there in this line nothing is known.
func (c *counter) add(g *alerts.Grew, total uint64, now time.Time) {
	switch {
	case !c.known && !g.FromZero:
		c.total = total
	case total < c.total:
		c.total = 0
	}
	for range min(total-c.total, g.By) {
		c.times = append(c.times, now)
	}
	c.times = c.times[max(0, len(c.times)-int(g.By)):]
	c.total, c.known = total, true
}

// since returns when the counter had grown often enough, and whether that is within the time.
func (c *counter) since(g *alerts.Grew, now time.Time) (time.Time, bool) {
	if uint64(len(c.times)) < g.By || now.Sub(c.times[0]) > g.Within {
		return time.Time{}, false
	}
	return c.times[len(c.times)-1], true
}

// reading is the newest line of a series with what is known of an alert about it.
type reading struct {
	line  *measure.Line
	now   time.Time
	state *state
	next  int    // counter of the state
	total uint64 // of all counters of the condition
}

// holds reports whether a condition holds, and since when if that is known: it is of what has grown.
func (r *reading) holds(c alerts.Condition) (since time.Time, ok bool) {
	switch c := c.(type) {
	case alerts.Comparison:
		return time.Time{}, r.compares(&c)
	case alerts.OneOf:
		text, _ := r.line.Fields[c.Field].(string)
		for _, word := range c.Words {
			ok = ok || text == word
		}
		return time.Time{}, ok
	case alerts.Grew:
		return r.grew(&c)
	case alerts.All:
		ok = true
		for _, one := range c { // each of them, since counters are read on the way
			began, is := r.holds(one)
			ok = ok && is
			since = later(since, began)
		}
		return since, ok
	case alerts.Any:
		for _, one := range c {
			began, is := r.holds(one)
			if is && !ok {
				since, ok = began, true
			}
		}
		return since, ok
	case alerts.Unless:
		_, not := r.holds(c.Not)
		since, ok = r.holds(c.When)
		return since, ok && !not
	}
	panic(fmt.Sprintf("cannot judge %T of one series", c))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (r *reading) compares(c *alerts.Comparison) bool {
	a, ok := r.number(c.Field)
	b := c.Number
	if c.Other != "" {
		var known bool
		b, known = r.number(c.Other)
		ok = ok && known
	}
	switch {
	case !ok:
		return false
	case c.Op == alerts.Less:
		return a < b
	case c.Op == alerts.Greater:
		return a > b
	}
	return a == b
}

func (r *reading) grew(g *alerts.Grew) (since time.Time, ok bool) {
	for _, field := range g.Fields {
		if r.next == len(r.state.counters) {
			r.state.counters = append(r.state.counters, counter{})
		}
		c := &r.state.counters[r.next]
		r.next++
		if total, known := r.number(field); known {
			c.add(g, uint64(total), r.now)
			r.total += uint64(total)
		}
		if began, is := c.since(g, r.now); is {
			since, ok = later(since, began), true
		}
	}
	return since, ok
}

// number returns a field that is a number.
func (r *reading) number(field string) (float64, bool) {
	switch v := r.line.Fields[field].(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// text fills in the tags and fields of the line. What is not there leaves no gap.
func (r *reading) text(template string) string {
	filled := placeholder.ReplaceAllStringFunc(template, func(s string) string {
		name := strings.Trim(s, "{}")
		if name == "total" {
			return fmt.Sprint(r.total)
		}
		if tag, ok := r.line.Tags[name]; ok {
			return tag
		}
		switch v := r.line.Fields[name].(type) {
		case nil:
			return ""
		case int64:
			if strings.Contains(name, "_ns") {
				return Latency(v)
			}
			return fmt.Sprint(v)
		case float64:
			if strings.HasSuffix(name, "_gbps") {
				return fmt.Sprintf("%g Gbit/s", v)
			}
			return fmt.Sprint(v)
		default:
			return fmt.Sprint(v)
		}
	})
	return strings.ReplaceAll(strings.Join(strings.Fields(filled), " "), " :", ":")
}

// Latency returns a time in ns as the text of a problem has it: in us, or from 1 ms on in ms, or from 1 s on in s.
func Latency(ns int64) string {
	if ns >= int64(time.Second) {
		return fmt.Sprintf("%.1f s", float64(ns)/float64(time.Second))
	}
	if ns >= int64(time.Millisecond) {
		return fmt.Sprintf("%.1f ms", float64(ns)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f us", float64(ns)/float64(time.Microsecond))
}
