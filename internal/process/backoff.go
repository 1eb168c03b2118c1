package process

import "time"

// backoff yields the delays between restarts. They start at first and double up to limit.
// Each is up to a fifth shorter or longer, so that the children of a host do not restart
// together.
type backoff struct {
	first, limit time.Duration
	rand         func() float64 // in [0,1)
	next         time.Duration
}

func (b *backoff) step() time.Duration {
	if b.next == 0 {
		b.next = b.first
	}
	d := b.next
	b.next = min(2*b.next, b.limit)
	return b.jitter(d)
}

func (b *backoff) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*b.rand()))
}

func (b *backoff) reset() { b.next = 0 }
