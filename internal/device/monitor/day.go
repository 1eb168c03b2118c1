package monitor

import "time"

// dayStep is the resolution of a dayCount.
const dayStep = 10 * time.Minute

// dayCount measures by how much a counter grew within the last 24 hours, with a resolution of dayStep. The zero value is ready to use.
type dayCount struct {
	total uint64
	steps []dayGrowth
}

// dayGrowth is the growth of the counter within the dayStep that begins at at, CLOCK_BOOTTIME ns.
type dayGrowth struct {
	at int64
	by uint64
}

// recordTotal records the counter's value at a moment, CLOCK_BOOTTIME ns, and returns by how much the counter grew within the 24 hours
// before it.
func (d *dayCount) recordTotal(total uint64, at int64) uint64 {
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
