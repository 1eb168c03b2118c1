package hello

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABucketAdmitsItsBurstAndThenItsRate(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBucket(10, 3, now)
	admitted := func() (n int) {
		for b.take(now) == 0 {
			n++
		}
		return n
	}
	require.Equal(t, 3, admitted())
	require.Equal(t, 100*time.Millisecond, b.take(now).Round(time.Microsecond))
	now = now.Add(250 * time.Millisecond)
	require.Equal(t, 2, admitted())
	require.Equal(t, 50*time.Millisecond, b.take(now).Round(time.Microsecond), "what was half full stays so")
	now = now.Add(time.Hour)
	require.Equal(t, 3, admitted())
}

func TestAClockThatGoesBackFillsNoBucket(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBucket(1, 1, now)
	require.Zero(t, b.take(now))
	require.NotZero(t, b.take(now.Add(-time.Hour)))
	require.NotZero(t, b.take(now.Add(-time.Hour+time.Second/2)))
	require.Zero(t, b.take(now.Add(-time.Hour+time.Second)), "nor does it stop it")
}

// Who has waited for the time that take returned is admitted: a wait that is too short would be a loop.
func TestAWaitIsLongEnough(t *testing.T) {
	for _, rate := range []int{1, 3, 7, 20, 200, 1000} {
		now := time.Unix(1000, 0)
		b := newBucket(rate, 1, now)
		require.Zero(t, b.take(now))
		for range 1000 {
			now = now.Add(b.take(now) + time.Nanosecond)
			require.Zero(t, b.take(now), "%d a second", rate)
		}
	}
}
