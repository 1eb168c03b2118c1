package aggregate

// Rate turns a cumulative counter into a rate per second. The zero Rate assumes that the
// counter started at 0.
type Rate struct{ last uint64 }

// Update takes a new reading of the counter and returns its growth per second over the
// elapsed ns since the previous call. It returns 0 if no time has passed or the counter
// has decreased.
func (r *Rate) Update(total uint64, elapsed int64) float64 {
	if elapsed <= 0 {
		return 0
	}
	growth := total - min(r.last, total)
	r.last = total
	return float64(growth) * 1e9 / float64(elapsed)
}
