package pairs

import (
	"context"
	"time"
)

// awaitTurn blocks until the host may meet one more pair, or ctx ends.
func (k *Keeper) awaitTurn(ctx context.Context) error {
	now := time.Unix(0, k.cfg.Mono())
	return sleep(ctx, k.meets.ReserveN(now, 1).DelayFrom(now))
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
