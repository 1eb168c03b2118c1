package hello

import "time"

// bucket admits so many a second, and as many at once after a pause. It is not safe for concurrent use.
type bucket struct {
	rate   float64 // a second
	burst  float64
	tokens float64
	at     time.Time // of tokens
}

// newBucket returns a bucket that is full.
func newBucket(rate, burst int, now time.Time) bucket {
	return bucket{rate: float64(rate), burst: float64(burst), tokens: float64(burst), at: now}
}

// take admits one, or returns how long it has to wait. A clock that goes back admits nothing sooner.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens = min(b.burst, b.tokens+b.rate*passed.Seconds())
	}
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
		return 0
	}
	return time.Duration((1 - b.tokens) / b.rate * float64(time.Second))
}
