package emit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoSecondHasMoreThanTheLimit(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := window{limit: 1 + r.IntN(30)}
		var admitted []int64
		now := int64(0)
		for range 2000 {
			now += r.Int64N(int64(100 * time.Millisecond))
			if w.waitTime(now) == 0 {
				w.admit(now)
				admitted = append(admitted, now)
			}
		}
		for i := w.limit; i < len(admitted); i++ {
			require.GreaterOrEqual(t, admitted[i]-admitted[i-w.limit], int64(time.Second))
		}
		require.Greater(t, len(admitted), w.limit)
	}
}

func TestWaitIsExact(t *testing.T) {
	w := window{limit: 2}
	w.admit(10)
	w.admit(20)
	require.Equal(t, time.Second-20, w.waitTime(30))
	require.Zero(t, w.waitTime(10+int64(time.Second)))
	w.admit(10 + int64(time.Second))
	require.Equal(t, 10*time.Nanosecond, w.waitTime(10+int64(time.Second)))
}
