package pairs

import (
	"context"
	"time"
)

// awaitTurn blocks until the host may connect one more pair, or ctx ends.
func (k *Keeper) awaitTurn(ctx context.Context) error {
	now := time.Unix(0, k.cfg.Mono())
	return sleep(ctx, k.connectLimiter.ReserveN(now, 1).DelayFrom(now))
}

// sleep waits for d. It returns the error of ctx if ctx ends first.
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

// backoff computes the delay before each of several attempts. The limit of the delay starts at firstRetry and doubles up to lastRetry. The
// delay is a random value between half of the limit and the limit, so that hosts that failed at the same time do not retry at the same
// time. The zero backoff is ready for use.
type backoff struct{ last time.Duration }

func (b *backoff) next(random func() uint64) time.Duration {
	b.last = min(max(firstRetry, 2*b.last), lastRetry)
	return b.last/2 + time.Duration(random()%uint64(b.last/2))
}

func (b *backoff) reset() { b.last = 0 }
