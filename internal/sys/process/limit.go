package process

import (
	"sync"
	"time"
)

// limit is the time that a child has for its handshake. It runs from the fork: a delay
// before that is the fault of a busy host, not of the child. A child that has reported
// progress when span is over is slow, and has more. Either the handshake or the end of the
// limit comes first, and that decision is final. The methods may be called concurrently.
type limit struct {
	span time.Duration
	more time.Duration // for a slow child; 0: it has no more
	kill func()        // called once when the time is up
	over chan struct{}
	slow chan struct{} // closed when span is over and the child has more

	mu     sync.Mutex
	timer  *time.Timer // nil: not forked yet
	due    time.Time   // when timer goes off
	ended  bool        // over is closed
	late   bool
	isSlow bool   // slow is closed
	step   string // the last that the child has reported; "": none
}

func newLimit(span time.Duration, kill func()) *limit {
	return &limit{span: span, kill: kill, over: make(chan struct{}), slow: make(chan struct{})}
}

// start is called after the fork.
func (l *limit) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.set(l.span)
	}
}

// set starts the timer. The caller holds l.mu.
func (l *limit) set(d time.Duration) {
	l.due = time.Now().Add(d)
	l.timer = time.AfterFunc(d, l.expire)
}

// report notes the step that the child's start is at.
func (l *limit) report(step string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step = step
}

// current returns the step that the child has reported last, "" if there is none.
func (l *limit) current() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.step
}

// paused is how late the timer has to go off until the host counts as paused. The child then
// did not run either, and has the time once more.
const paused = time.Second

// expire is called when the timer goes off. It kills the child unless there is more time for it.
func (l *limit) expire() {
	if !l.prolong() && l.end(true) {
		l.kill()
	}
}

// prolong starts the timer again, and reports whether it did: after a pause of the host, and once
// for a slow child.
func (l *limit) prolong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	hostPaused := l.timer != nil && time.Since(l.due) >= paused
	switch {
	case l.ended:
		return false
	case hostPaused && l.isSlow:
		l.set(l.more)
	case hostPaused:
		l.set(l.span)
	case !l.isSlow && l.step != "" && l.more > 0:
		l.isSlow = true
		close(l.slow)
		l.set(l.more)
	default:
		return false
	}
	return true
}

// stop ends the limit: the child has completed the handshake, or never will.
func (l *limit) stop() { l.end(false) }

// end ends the limit, and reports whether it was still running.
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
