package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timeFlag is a flag that names a point in time: a duration ago, a date and time, or seconds since 1970.
type timeFlag struct {
	text string
	ago  time.Duration
	at   time.Time // zero: use ago
}

// timeFlagUsage describes the accepted values.
const timeFlagUsage = `a duration ago such as 1h, or a time such as "2026-11-26 14:02", 2026-11-26T14:02:00Z or @1795701720`

// durationAgo returns a timeFlag that names the time d ago.
func durationAgo(d time.Duration) timeFlag { return timeFlag{text: d.String(), ago: d} }

// String implements flag.Value.
func (m *timeFlag) String() string { return m.text }

// Set implements flag.Value.
func (m *timeFlag) Set(text string) error {
	*m = timeFlag{text: text}
	if text == "" || text == "0" {
		return nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		*m = durationAgo(d)
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
	return fmt.Errorf("want %s", timeFlagUsage)
}

// resolve returns the point in time, or the zero Time if none was named.
func (m *timeFlag) resolve(now time.Time) time.Time {
	if m.at.IsZero() && m.ago != 0 {
		return now.Add(-m.ago)
	}
	return m.at
}

// resolveWindow returns the times of -since and -until. complaint describes what is wrong with them, or is "".
func resolveWindow(since, until *timeFlag, now time.Time) (from, to time.Time, complaint string) {
	from, to = since.resolve(now), until.resolve(now)
	switch {
	case from.After(now):
		return from, to, fmt.Sprintf("-since %s is in the future", since)
	case !to.IsZero() && to.Before(from):
		return from, to, fmt.Sprintf("-until %s is before -since %s", until, since)
	}
	return from, to, ""
}
