package aggregate

// Rate turns a cumulative counter into a rate per second. The zero Rate starts
// at 0, as counters do.
type Rate struct{ last uint64 }

// Take returns how much the counter grew per second over the elapsed ns since the last
// Take. It returns 0 if no time has passed, and if the counter fell.
func (r *Rate) Take(total uint64, elapsed int64) float64 {
	if elapsed <= 0 {
		return 0
	}
	grown := total - min(r.last, total)
	r.last = total
	return float64(grown) * 1e9 / float64(elapsed)
}
