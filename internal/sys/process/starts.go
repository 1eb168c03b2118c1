package process

import (
	"context"
	"runtime"
)

// Starts limits the number of children of a host that start at the same time. A start lasts
// until the handshake, and needs only processor time. Without the limit, each of 256 children
// on a small host would take 256 times as long as a single start, and none would be in time.
// All Supervisors of a host share one Starts. It may be used concurrently.
type Starts struct {
	places chan struct{}
}

// NewStarts returns a Starts that allows one concurrent start per processor of this process,
// and at least two, so that one hanging child does not delay all others.
func NewStarts() *Starts { return newStarts(max(2, runtime.GOMAXPROCS(0))) }

func newStarts(n int) *Starts { return &Starts{places: make(chan struct{}, n)} }

// acquire waits for a free place, in the order of the calls. release returns the place; one
// goroutine may call it more than once. ok is false if ctx was done first.
func (s *Starts) acquire(ctx context.Context) (release func(), ok bool) {
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
