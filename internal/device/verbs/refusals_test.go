package verbs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// refusing makes each read at its interval, as a worker does, and counts the refused reads.
type refusing struct {
	*verbs.Refusals
	now   int64
	made  []int64
	every map[verbs.Read]time.Duration
	err   func(verbs.Read) error
}

func newRefusing(err error) *refusing {
	r := &refusing{every: map[verbs.Read]time.Duration{
		verbs.ReadQueryPort: 5 * time.Second, verbs.ReadCounters: 5 * time.Second, verbs.ReadHWCounters: 10 * time.Second,
		verbs.ReadQueryQP: time.Minute,
	}}
	r.err = func(verbs.Read) error { return err }
	r.Refusals = verbs.NewRefusals(func() int64 { return r.now })
	return r
}

func (r *refusing) pass(d time.Duration) {
	for range d / time.Second {
		for read, every := range r.every {
			if r.now%int64(every) == 0 && r.Allow(1, read) {
				err := r.err(read)
				r.Record(1, read, err)
				if err != nil {
					r.made = append(r.made, r.now)
				}
			}
		}
		r.now += int64(time.Second)
	}
}

// requireFewAnHour counts the refused reads of each hour after the first minute.
func (r *refusing) requireFewAnHour(t *testing.T) {
	t.Helper()
	for i, at := range r.made {
		if at >= int64(time.Minute) && i+verbs.RefusalsAnHour < len(r.made) {
			require.GreaterOrEqual(t, r.made[i+verbs.RefusalsAnHour]-at, int64(time.Hour), "%v", r.made)
		}
	}
}

func TestRefusedReadsAreFewAnHour(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EINVAL, unix.EIO, unix.EOPNOTSUPP} {
		r := newRefusing(fmt.Errorf("%w: %w", verbs.ErrUnsupported, errno))
		r.pass(10 * time.Hour)
		r.requireFewAnHour(t)
		require.Greater(t, len(r.made), 10, "it is tried again each hour")
		require.Equal(t, errno != unix.EIO, verbs.IsRestriction(r.err(verbs.ReadQueryPort)), "%v", errno)
	}
}

func TestRefusedReadIsTriedOnceAfterAnEvent(t *testing.T) {
	r := newRefusing(unix.EINVAL)
	r.every = map[verbs.Read]time.Duration{verbs.ReadQueryPort: 5 * time.Second}
	r.pass(10 * time.Minute)
	require.Len(t, r.made, verbs.RefusalRow)
	require.True(t, r.Refused(1, verbs.ReadQueryPort))
	require.Equal(t, "ibv_query_port (EINVAL)", r.Text(1, verbs.ReadQueryPort, verbs.ReadCounters))
	r.Retry(2)
	r.pass(time.Minute)
	require.Len(t, r.made, verbs.RefusalRow, "the event is another port's")
	for range 50 { // a storm of events
		r.Retry(1)
		r.pass(20 * time.Second)
	}
	require.Len(t, r.made, verbs.RefusalRow+verbs.RefusalsAnHour)
	r.requireFewAnHour(t)
	r.err = func(verbs.Read) error { return nil }
	r.Retry(0)
	r.pass(time.Hour)
	require.False(t, r.Refused(1, verbs.ReadQueryPort), "the firmware answers again")
	require.Empty(t, r.Text(1, verbs.ReadQueryPort))
}

func TestFailuresOfADeviceThatAnswersAreNoRefusals(t *testing.T) {
	r := newRefusing(nil)
	r.pass(time.Hour)
	for _, err := range []error{unix.EIO, unix.ETIMEDOUT} {
		r.err, r.made = func(verbs.Read) error { return err }, nil
		r.pass(10 * time.Minute)
		require.Greater(t, len(r.made), 200, "%v", err)
	}
	other := newRefusing(nil)
	other.err = func(verbs.Read) error { // fails now and then
		if other.now%int64(10*time.Second) == 0 {
			return unix.EINVAL
		}
		return nil
	}
	other.every = map[verbs.Read]time.Duration{verbs.ReadQueryPort: 5 * time.Second}
	other.pass(time.Hour)
	require.Len(t, other.made, 360, "each one is made")
}
