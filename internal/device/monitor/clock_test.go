package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPreemptedHostSetsNoClockBack(t *testing.T) {
	now := []time.Duration{0, -1500 * time.Millisecond, 0}
	c := &clock{onSetBack: func(by time.Duration) { t.Error("set back by", by) }}
	mono := 100 * sec
	c.now = func() (int64, int64, int64) {
		off := now[0]
		now = now[1:]
		return epoch + mono + off.Nanoseconds(), mono, mono + slept
	}
	c.read()
	mono = 110 * sec
	require.EqualValues(t, epoch, c.read().offset)
	require.Empty(t, now)
}

func TestClockThatIsSetBackIsFollowed(t *testing.T) {
	var steps []time.Duration
	mono, shift := 100*sec, int64(0)
	c := &clock{
		now:       func() (int64, int64, int64) { return epoch + mono + shift, mono, mono + slept },
		onSetBack: func(by time.Duration) { steps = append(steps, by) },
	}
	c.read()
	mono, shift = 110*sec, -3600*sec
	m := c.read()
	require.Equal(t, []time.Duration{time.Hour}, steps)
	require.EqualValues(t, 1, m.epoch)
	require.EqualValues(t, epoch-3600*sec, m.offset)
}

// A goroutine reads the clock and waits. Meanwhile the clock is set back, and another goroutine makes a point of the series.
func TestTimeFromBeforeTheClockWasSetBackDoesNotMoveASeriesAhead(t *testing.T) {
	var s stamp
	s.next(7200*sec, 0)
	require.Equal(t, unixNano(3600*sec), s.next(3600*sec, 1))
	require.Equal(t, unixNano(3600*sec+1), s.next(7201*sec, 0))
	require.Equal(t, unixNano(3601*sec), s.next(3601*sec, 1))
}
