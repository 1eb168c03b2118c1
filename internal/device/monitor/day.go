package monitor

import "time"

// dayStep is how far apart what a dayCount counts is kept apart.
const dayStep = 10 * time.Minute

// dayCount counts what a counter grew within the last 24 hours, to within ten minutes. The zero value has counted nothing.
type dayCount struct {
	total uint64
	steps []dayGrowth
}

// dayGrowth is what the counter grew from a moment on, in CLOCK_BOOTTIME.
type dayGrowth struct {
	at int64
	by uint64
}

// within takes the counter's value at a moment, and returns how much of it is of the last 24 hours.
func (d *dayCount) within(total uint64, at int64) uint64 {
	if by := total - d.total; by > 0 {
		if n := len(d.steps); n > 0 && at-d.steps[n-1].at < int64(dayStep) {
			d.steps[n-1].by += by
		} else {
			d.steps = append(d.steps, dayGrowth{at, by})
		}
		d.total = total
	}
	for len(d.steps) > 0 && at-d.steps[0].at > int64(24*time.Hour) {
		d.steps = d.steps[1:]
	}
	var sum uint64
	for _, s := range d.steps {
		sum += s.by
	}
	return sum
}
