package inspect

import (
	"context"
	"errors"
	"time"
)

// ErrNoAnswer is the error of a call that has not returned in time.
var ErrNoAnswer = errors.New("no answer in time")

// TimeCall calls f, which may hang in the kernel, and returns how long the call took. It blocks for at most limit. If
// limit or ctx ends first, it returns ErrNoAnswer. A call that hangs in the kernel cannot be ended, so its goroutine
// remains until the kernel returns.
func TimeCall[T any](ctx context.Context, limit time.Duration, f func() (T, error)) (value T, took time.Duration, err error) {
	type answer struct {
		value T
		took  time.Duration
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		began := time.Now()
		value, err := f()
		done <- answer{value, time.Since(began), err}
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case a := <-done:
		return a.value, a.took, a.err
	case <-late.C:
	case <-ctx.Done():
	}
	return value, 0, ErrNoAnswer
}
