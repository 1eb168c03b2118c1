package process

import (
	"sync"
	"time"
)

// limit limits the time that a child has for its handshake. The time starts with the fork,
// because a delay before the fork is the fault of a busy host, not of the child. A child
// that has reported progress within span is slow, and gets the time more in addition. Either
// the handshake or the end of the time comes first, and that decision is final. The methods
// may be called concurrently.
type limit struct {
	span time.Duration
	more time.Duration // additional time for a slow child; 0: none
	kill func()        // called once when the time is up
	over chan struct{} // closed at the handshake, or when the time is up
	slow chan struct{} // closed when span is over and the child gets more time

	mu     sync.Mutex
	timer  *time.Timer // nil: not forked yet
	due    time.Time   // when timer expires
	ended  bool        // over is closed
	late   bool        // the time was up before the handshake
	isSlow bool        // slow is closed
	step   string      // the last step that the child has reported; "": none
}

func newLimit(span time.Duration, kill func()) *limit {
	return &limit{span: span, kill: kill, over: make(chan struct{}), slow: make(chan struct{})}
}

// start starts the time. The child calls it after the fork.
func (l *limit) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.setTimer(l.span)
	}
}

// setTimer starts the timer. The caller holds l.mu.
func (l *limit) setTimer(d time.Duration) {
	l.due = time.Now().Add(d)
	l.timer = time.AfterFunc(d, l.expire)
}

// report records the step that the start of the child has reached.
func (l *limit) report(step string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step = step
}

// current returns the last step that the child has reported, or "" if there is none.
func (l *limit) current() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.step
}

// pauseThreshold is the delay of the timer from which on the host counts as paused. The child
// did not run during the pause either, and gets the time once more.
const pauseThreshold = time.Second

// expire handles the expiry of the timer. It kills the child unless the child gets more time.
func (l *limit) expire() {
	if !l.prolong() && l.end(true) {
		l.kill()
	}
}

// prolong restarts the timer after a pause of the host, and once for a slow child. It reports
// whether it did.
func (l *limit) prolong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	hostPaused := l.timer != nil && time.Since(l.due) >= pauseThreshold
	switch {
	case l.ended:
		return false
	case hostPaused && l.isSlow:
		l.setTimer(l.more)
	case hostPaused:
		l.setTimer(l.span)
	case !l.isSlow && l.step != "" && l.more > 0:
		l.isSlow = true
		close(l.slow)
		l.setTimer(l.more)
	default:
		return false
	}
	return true
}

// stop ends the limit, because the child has completed the handshake or never will.
func (l *limit) stop() { l.end(false) }

// end ends the limit, and reports whether the limit was still running.
func (l *limit) end(late bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.ended, l.late = true, late
	if l.timer != nil {
		l.timer.Stop()
	}
	close(l.over)
	return true
}

// isLate reports whether the time was up before the handshake.
func (l *limit) isLate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}
