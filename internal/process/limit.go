package process

import (
	"sync"
	"time"
)

// limit is the time that a child has for its handshake. It runs from the fork: a delay
// before that is the fault of a busy host, not of the child. Either the handshake or the
// end of the limit comes first, and that decision is final. The methods may be called
// concurrently.
type limit struct {
	span time.Duration
	kill func() // called once when the time is up
	over chan struct{}

	mu    sync.Mutex
	timer *time.Timer // nil: not forked yet
	ended bool        // over is closed
	late  bool
}

func newLimit(span time.Duration, kill func()) *limit {
	return &limit{span: span, kill: kill, over: make(chan struct{})}
}

// start is called after the fork.
func (l *limit) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.timer = time.AfterFunc(l.span, l.expire)
	}
}

func (l *limit) expire() {
	if l.end(true) {
		l.kill()
	}
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
