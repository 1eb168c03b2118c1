package emit

import "time"

// window admits at most limit points within any second. All times are in ns, of one clock
// that does not go back.
type window struct {
	limit  int
	times  []int64 // of the last admitted points; a ring once it has limit entries
	oldest int     // index of the oldest time
}

// waitTime returns the time until the window admits a point; 0 means now.
func (w *window) waitTime(now int64) time.Duration {
	if len(w.times) < w.limit {
		return 0
	}
	return time.Duration(max(0, w.times[w.oldest]+int64(time.Second)-now))
}

// admit records a point for which waitTime has returned 0.
func (w *window) admit(now int64) {
	if len(w.times) < w.limit {
		w.times = append(w.times, now)
		return
	}
	w.times[w.oldest] = now
	w.oldest = (w.oldest + 1) % w.limit
}
