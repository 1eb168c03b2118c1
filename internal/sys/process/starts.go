package process

import (
	"context"
	"runtime"
)

// Starts limits how many children of a host start at once. A start lasts from the request
// to the handshake, and needs processor time and nothing else. Without the limit each of
// 256 children on a small host takes 256 times as long as one processor needs for one
// start, and none is in time. All Supervisors of a host share one Starts, concurrently.
type Starts struct {
	places chan struct{}
}

// NewStarts returns a Starts that lets as many children start at once as this process has
// processors. It is at least two, so that one child that hangs does not delay all others.
func NewStarts() *Starts { return newStarts(max(2, runtime.GOMAXPROCS(0))) }

func newStarts(n int) *Starts { return &Starts{places: make(chan struct{}, n)} }

// enter waits for a place, in the order of the calls. leave gives the place back; one
// goroutine may call it more than once. ok is false when ctx was done first.
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
