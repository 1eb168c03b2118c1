package session

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/verbs"
)

func objectsOf(items []verbs.Item) []verbs.Objects {
	return sessiontest.Pick(items, func(i verbs.Item) *verbs.Objects { return i.Objects })
}

// lists counts how often each kind was listed.
type lists [verbs.ObjectKinds]atomic.Int32

func (l *lists) counts() (n [verbs.ObjectKinds]int) {
	for kind := range l {
		n[kind] = int(l[kind].Load())
	}
	return n
}

// newListingRig returns a rig that lists objects, and counts of how often it has listed each kind.
func newListingRig(t *testing.T, scenario string) (r *rig, listed *lists) {
	r, listed = newRig(t, "roce2", scenario), new(lists)
	r.Options.Objects, r.Options.Probe.Interval = true, 0
	r.change(func(d *changed) {
		d.objects = func(kinds ...verbs.ObjectKind) (*verbs.Objects, error) {
			for _, kind := range kinds {
				listed[kind].Add(1)
			}
			return d.Device.ListObjects(kinds...)
		}
	})
	return r, listed
}

func TestObjectsAreListedEveryTenSecondsAndQueuePairsEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, listed := newListingRig(t, "")
		r.Start(nil)
		require.Len(t, objectsOf(r.After(time.Second)), 1)
		require.Len(t, objectsOf(r.After(time.Hour)), 360)
		require.Equal(t, [verbs.ObjectKinds]int{361, 361, 361, 361, 61}, listed.counts())
	})
}

func TestObjectsAreNotListedUnlessAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, listed := newListingRig(t, "")
		r.Options.Objects = false
		r.Start(nil)
		require.Empty(t, objectsOf(r.After(time.Hour)))
		require.Zero(t, listed.counts())
	})
}

// Each list of queue pairs would be another command.
func TestQueuePairsAreNotListedWhileTheDeviceDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, listed := newListingRig(t, `
[[command]]
at = "45s"
device = "sim0"
for = "2m"
`)
		r.Options.CommandInterval, r.Options.CommandStuck = 10*time.Second, 5*time.Second
		r.Start(nil)
		r.After(164 * time.Second)
		require.Equal(t, [verbs.ObjectKinds]int{17, 17, 17, 17, 1}, listed.counts())
		r.After(15 * time.Second)
		require.Equal(t, 2, listed.counts()[verbs.ObjectQP], "they are made up for")
	})
}

// A device that is being removed is asked nothing, because the removal would wait for the answer.
func TestAListThatHangsKeepsNothingFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newListingRig(t, "")
		hang := make(chan struct{})
		r.change(func(d *changed) {
			d.objects = func(...verbs.ObjectKind) (*verbs.Objects, error) {
				<-hang
				return nil, verbs.ErrClosed
			}
		})
		r.Start(nil)
		require.NotEmpty(t, sessiontest.Readings(r.After(20*time.Second)), "ports are queried")
		began := time.Now()
		r.Stop()
		<-r.Done
		require.LessOrEqual(t, time.Since(began), 10*lastCommandTimeout)
		close(hang)
	})
}
