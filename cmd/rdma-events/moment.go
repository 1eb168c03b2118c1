package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// moment is a flag that names a point in time: a duration ago, a time of the clock, or seconds since 1970.
type moment struct {
	text string
	ago  time.Duration
	at   time.Time // zero: so long ago as ago says
}

// momentUsage says what a moment may be.
const momentUsage = `so long ago as in 1h, or at a time as in "2026-11-26 14:02", 2026-11-26T14:02:00Z or @1795701720`

// agoMoment returns a moment so long ago.
func agoMoment(d time.Duration) moment { return moment{text: d.String(), ago: d} }

// String implements flag.Value.
func (m *moment) String() string { return m.text }

// Set implements flag.Value.
func (m *moment) Set(text string) error {
	*m = moment{text: text}
	if text == "" || text == "0" {
		return nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		*m = agoMoment(d)
		return nil
	}
	if seconds, ok := strings.CutPrefix(text, "@"); ok {
		if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
			m.at = time.Unix(n, 0)
			return nil
		}
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			m.at = at
			return nil
		}
	}
	return fmt.Errorf("want %s", momentUsage)
}

// time returns the point in time; the zero Time if none was named.
func (m *moment) time(now time.Time) time.Time {
	if m.at.IsZero() && m.ago != 0 {
		return now.Add(-m.ago)
	}
	return m.at
}

// window returns the times of -since and -until. complaint is what is wrong with them.
func window(since, until *moment, now time.Time) (from, to time.Time, complaint string) {
	from, to = since.time(now), until.time(now)
	switch {
	case from.After(now):
		return from, to, fmt.Sprintf("-since %s is in the future", since)
	case !to.IsZero() && to.Before(from):
		return from, to, fmt.Sprintf("-until %s is before -since %s", until, since)
	}
	return from, to, ""
}
