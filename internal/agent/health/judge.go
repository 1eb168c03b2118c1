package health

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/telemetry/measure"
)

// judge evaluates the table of alerts for each series. For each alert and series it remembers since when the condition
// has held and when counters grew. It is not safe for concurrent use.
type judge struct {
	byMeasurement map[string][]*alerts.Alert // alerts by the measurement that they judge
	states        map[alertKey]*alertState
	now           time.Time // time of the judgement
	sampled       time.Time // time of the last interval
	restoredUntil time.Time // when a restored condition that is still unknown no longer counts
	instant       bool      // the past is unknown: a condition need not last
}

// alertKey identifies an alert about one series.
type alertKey struct {
	alert  *alerts.Alert
	series measure.Key
}

// alertState is the history of an alert about one series.
type alertState struct {
	counters  []counter // one for each counter of the condition, in the same order
	heldSince time.Time // first interval in which the condition held; zero: it does not hold
	began     time.Time // when the condition began to hold, at or before heldSince
	lastHeld  time.Time // when the condition was last known to hold
	lastSeen  time.Time // last interval with a point of the series
	restored  bool      // heldSince is from the previous plugin, and this one has not found the condition to hold yet
	text, of  string    // text and subject of the last finding
}

// clockStep is the smallest change that counts as a set clock. Smaller ones are inaccuracies: time.Now reads the wall clock and the
// monotonic clock one after the other.
const clockStep = time.Second

// finding is an alert whose condition holds now.
type finding struct {
	alert   *alerts.Alert
	since   time.Time
	text    string
	subject string // as Problem.Of
	lasted  bool   // the condition has held for as long as the alert demands
}

// newJudge returns a judge. If once is true, it judges a single interval: a condition need not last.
func newJudge(once bool) *judge {
	j := &judge{byMeasurement: map[string][]*alerts.Alert{}, states: map[alertKey]*alertState{}, instant: once}
	table := alerts.Table()
	for i := range table {
		a := &table[i]
		if a.When != nil {
			j.byMeasurement[a.Measurement] = append(j.byMeasurement[a.Measurement], a)
		}
	}
	return j
}

// acrossSeriesAlert returns the alert with this ID, whose condition is about several series. It panics if there is
// none.
func (j *judge) acrossSeriesAlert(id string) *alerts.Alert {
	for _, a := range j.byMeasurement[""] {
		if a.ID == id {
			return a
		}
	}
	panic("the table has no alert " + id + " about several series")
}

// judgePoint returns the alerts whose condition the point meets. unread says that fields may be missing only because
// the device cannot be read at present (isUnread): a condition that held before goes on until they say otherwise.
func (j *judge) judgePoint(p measure.Point, unread bool) []finding {
	all := j.byMeasurement[p.Key().Measurement]
	if len(all) == 0 {
		return nil
	}
	var found []finding
	p.Lines(func(line measure.Line) {
		for _, a := range all {
			if a.Except.Name != "" && line.Tags[a.Except.Name] == a.Except.Value {
				continue
			}
			if f, ok := j.judgeLine(a, p, &line, unread); ok {
				found = append(found, f)
			}
		}
	})
	return found
}

// judgeLine evaluates an alert for the newest line of a series. It returns false if the condition does not hold.
func (j *judge) judgeLine(a *alerts.Alert, p measure.Point, line *measure.Line, unread bool) (finding, bool) {
	s := j.stateOf(a, p.Key())
	r := evaluation{line: line, now: j.now, state: s}
	began, ok := r.holds(a.When)
	switch {
	case ok:
	case r.lacksField && j.isUnconfirmed(s):
		return finding{}, false
	case r.lacksField && unread && !s.heldSince.IsZero() && !s.restored:
		return j.newFinding(a, s, s.began, s.lastHeld, s.text, s.of), true
	default:
		s.clearHeld()
		return finding{}, false
	}
	if age, known := r.numberField(a.Age); known {
		began = j.now.Add(-j.now.Sub(p.Time()) - time.Duration(age))
	}
	until := j.sampled
	if IsState(p) {
		until = j.now
	}
	return j.newFinding(a, s, began, until, r.fillTemplate(a.Text), r.fillTemplate(a.Of)), true
}

// judgeAcross returns the finding of an alert about several series. The caller has established that its condition holds
// now.
func (j *judge) judgeAcross(a *alerts.Alert, of measure.Key, began time.Time, text string) finding {
	return j.newFinding(a, j.stateOf(a, of), began, j.sampled, text, "")
}

// stateOf returns the state of an alert about a series, and marks the series as present in this interval.
func (j *judge) stateOf(a *alerts.Alert, of measure.Key) *alertState {
	s := j.states[alertKey{a, of}]
	if s == nil {
		s = new(alertState)
		j.states[alertKey{a, of}] = s
	}
	s.lastSeen = j.now
	return s
}

// newFinding returns the finding of an alert whose condition is known to hold until the time until, and began to hold at began. If
// began is zero, the condition began when it was first evaluated as true. While the condition holds, only the first began counts, unless
// the alert is Successive: a port may go from one bad state to another, and a counter may grow again.
func (j *judge) newFinding(a *alerts.Alert, s *alertState, began, until time.Time, text, of string) finding {
	if began.IsZero() {
		began = j.now
	}
	if s.heldSince.IsZero() {
		s.heldSince, s.began = j.now, began
	} else if a.Successive {
		s.began = began
	}
	s.lastHeld, s.text, s.of, s.restored = until, text, of, false
	return finding{alert: a, since: j.clockTime(s.began), text: text, subject: of, lasted: j.instant || until.Sub(s.heldSince) >= a.Hold}
}

// clockTime converts t to wall-clock time. If the clock was set after t was read, clockTime corrects the result by that change.
func (j *judge) clockTime(t time.Time) time.Time {
	then, corrected := t.Round(0), j.now.Add(-j.now.Sub(t)).Round(0)
	if then.Sub(corrected).Abs() < clockStep {
		return then
	}
	return corrected
}

// clearHeld records that the condition does not hold.
func (s *alertState) clearHeld() { s.heldSince, s.began, s.restored = time.Time{}, time.Time{}, false }

// isUnconfirmed reports whether the condition held when the previous plugin ended, and may still hold as far as this one knows.
func (j *judge) isUnconfirmed(s *alertState) bool { return s.restored && j.now.Before(j.restoredUntil) }

// endInterval ends an interval. A condition about a series without a point in this interval no longer holds. The state
// of a series is dropped once the series has been absent for longer than its alert looks back.
func (j *judge) endInterval() {
	for at, s := range j.states {
		switch {
		case s.lastSeen.Equal(j.now), j.isUnconfirmed(s):
		case j.now.Sub(s.lastSeen) > lookBack(at.alert.When):
			delete(j.states, at)
		default:
			s.clearHeld()
		}
	}
}

// lookBack returns how far into the past a condition looks.
func lookBack(c alerts.Condition) time.Duration {
	switch c := c.(type) {
	case alerts.Grew:
		return c.Within
	case alerts.All:
		return longestLookBack(c)
	case alerts.Any:
		return longestLookBack(c)
	case alerts.Unless:
		return max(lookBack(c.When), lookBack(c.Not))
	}
	return 0
}

func longestLookBack(all []alerts.Condition) (d time.Duration) {
	for _, c := range all {
		d = max(d, lookBack(c))
	}
	return d
}

// counter stores when a counter grew.
type counter struct {
	total   uint64
	known   bool
	growths []time.Time // one for each increment, the last Grew.By of them
}

// addReading adds the current value of the counter. The caller does not call it for a line without the counter.
func (c *counter) addReading(g *alerts.Grew, total uint64, now time.Time) {
	switch {
	case !c.known && !g.FromZero:
		c.total = total
	case total < c.total:
		c.total = 0
	}
	for range min(total-c.total, g.By) {
		c.growths = append(c.growths, now)
	}
	c.growths = c.growths[max(0, len(c.growths)-int(g.By)):]
	c.total, c.known = total, true
}

// grownSince returns when the counter reached the growth that the condition demands, and whether that is within its
// duration.
func (c *counter) grownSince(g *alerts.Grew, now time.Time) (time.Time, bool) {
	if uint64(len(c.growths)) < g.By || now.Sub(c.growths[0]) > g.Within {
		return time.Time{}, false
	}
	return c.growths[len(c.growths)-1], true
}

// evaluation evaluates the condition of one alert for the newest line of a series.
type evaluation struct {
	line        *measure.Line
	now         time.Time
	state       *alertState
	nextCounter int    // index of the next counter in state
	total       uint64 // sum of all counters of the condition
	lacksField  bool   // a comparison was false because the line lacks a field
}

// holds reports whether a condition holds. For a condition about growth, since is when it began to hold; otherwise
// since is zero.
func (r *evaluation) holds(c alerts.Condition) (since time.Time, ok bool) {
	switch c := c.(type) {
	case alerts.Comparison:
		return time.Time{}, r.compare(&c)
	case alerts.OneOf:
		text, _ := r.line.Fields[c.Field].(string)
		for _, word := range c.Words {
			ok = ok || text == word
		}
		return time.Time{}, ok
	case alerts.Grew:
		return r.countersGrew(&c)
	case alerts.All:
		ok = true
		for _, one := range c { // evaluate all of them, because this also reads their counters
			began, is := r.holds(one)
			ok = ok && is
			since = laterTime(since, began)
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

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (r *evaluation) compare(c *alerts.Comparison) bool {
	a, ok := r.numberField(c.Field)
	b := c.Number
	if c.Other != "" {
		var known bool
		b, known = r.numberField(c.Other)
		ok = ok && known
	}
	switch {
	case !ok:
		r.lacksField = true
		return false
	case c.Op == alerts.Less:
		return a < b
	case c.Op == alerts.Greater:
		return a > b
	}
	return a == b
}

func (r *evaluation) countersGrew(g *alerts.Grew) (since time.Time, ok bool) {
	for _, field := range g.Fields {
		if r.nextCounter == len(r.state.counters) {
			r.state.counters = append(r.state.counters, counter{})
		}
		c := &r.state.counters[r.nextCounter]
		r.nextCounter++
		if total, known := r.numberField(field); known {
			c.addReading(g, uint64(total), r.now)
			r.total += uint64(total)
		}
		if began, is := c.grownSince(g, r.now); is {
			since, ok = laterTime(since, began), true
		}
	}
	return since, ok
}

// numberField returns the value of a numeric field.
func (r *evaluation) numberField(field string) (float64, bool) {
	switch v := r.line.Fields[field].(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// fillTemplate replaces the placeholders of a template by tags and fields of the line. A missing tag or field is
// removed together with the blank before it.
func (r *evaluation) fillTemplate(template string) string {
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
				return FormatLatency(v)
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

// FormatLatency returns a duration in ns as text: in us below 1 ms, in ms below 1 s, else in s.
func FormatLatency(ns int64) string {
	if ns >= int64(time.Second) {
		return fmt.Sprintf("%.1f s", float64(ns)/float64(time.Second))
	}
	if ns >= int64(time.Millisecond) {
		return fmt.Sprintf("%.1f ms", float64(ns)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f us", float64(ns)/float64(time.Microsecond))
}
