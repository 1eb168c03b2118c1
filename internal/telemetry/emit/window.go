package emit

import "time"

// window admits at most limit points within any second. Times are ns of one clock that
// does not go back.
type window struct {
	limit int
	times []int64 // the last admissions, a ring once it is full
	first int     // the oldest of them
}

// wait returns how long to wait until a point is admitted; 0 means now.
func (w *window) wait(now int64) time.Duration {
	if len(w.times) < w.limit {
		return 0
	}
	return time.Duration(max(0, w.times[w.first]+int64(time.Second)-now))
}

// admit records a point for which wait has returned 0.
func (w *window) admit(now int64) {
	if len(w.times) < w.limit {
		w.times = append(w.times, now)
		return
	}
	w.times[w.first] = now
	w.first = (w.first + 1) % w.limit
}
