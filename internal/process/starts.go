package process

import (
	"context"
	"runtime"
)

// Starts bounds how many workers of a host start at once: from the request to the
// handshake, which takes processor time and nothing else. Without it each of 256
// takes 256 times as long as one of a small host's processors needs for it, and
// none is in time. All Supervisors of a host share one, concurrently.
type Starts struct {
	places chan struct{}
}

// NewStarts lets as many workers start at once as this process has processors, at
// least two, so that one that hangs does not hold up all.
func NewStarts() *Starts { return newStarts(max(2, runtime.GOMAXPROCS(0))) }

func newStarts(n int) *Starts { return &Starts{places: make(chan struct{}, n)} }

// enter waits for a place, in the order of the calls, and returns what gives it
// back, which may be called more than once by one goroutine. It reports false when
// ctx is done first.
func (s *Starts) enter(ctx context.Context) (leave func(), ok bool) {
	if s == nil {
		return func() {}, ctx.Err() == nil
	}
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	left := false
	return func() {
		if !left {
			left = true
			<-s.places
		}
	}, true
}
