package keeper

import (
	"context"
	"sync"
	"time"
)

// limiter lets so many through in a second, and as many at once. Its methods may be called concurrently.
type limiter struct {
	perSecond float64
	mono      func() int64

	mu     sync.Mutex
	tokens float64 // negative: so many wait
	at     int64
}

// wait blocks until the caller is let through, or ctx ends.
func (l *limiter) wait(ctx context.Context) error {
	return sleep(ctx, l.take())
}

// take takes a place, and returns how long it is until its turn.
func (l *limiter) take() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.mono()
	if l.at != 0 {
		l.tokens = min(l.perSecond, l.tokens+l.perSecond*float64(now-l.at)/float64(time.Second))
	}
	l.at = now
	l.tokens--
	if l.tokens >= 0 {
		return 0
	}
	return time.Duration(-l.tokens / l.perSecond * float64(time.Second))
}

// sleep waits for d, and returns the error of ctx if that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// backoff is how long to wait before the next of several attempts: firstRetry, then twice as long each time up to lastRetry,
// of which a random half is left out, so that hosts that failed together do not try together. The zero backoff is at its beginning.
type backoff struct{ last time.Duration }

func (b *backoff) next(random func() uint64) time.Duration {
	b.last = min(max(firstRetry, 2*b.last), lastRetry)
	return b.last/2 + time.Duration(random()%uint64(b.last/2))
}

func (b *backoff) reset() { b.last = 0 }
