package devices

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// crowd has applications of every behaviour on devices that are removed and return.
const crowd = `
[[app]]
at = "1s"
every = "20s"
for = "15s"
device = "sim0"
name = "late"
processes = 2
event = "qp_fatal"
event_at = "2s"
event_every = "700ms"
event_count = 3
read_after = "3s"
[[app]]
device = "sim*"
name = "never"
event = "cq_err"
event_every = "1100ms"
read_after = "never"
hang_at = "25s"
hang_for = "9s"
[[app]]
at = "3s"
for = "40s"
device = "sim0"
name = "hangs"
event = "srq_err"
event_every = "1s"
event_times = 5
hang_at = "4s"
hang_object = "qp"
[[event]]
at = "5s"
every = "6s"
type = "device_speed_change"
count = 2
[[fault]]
at = "7s"
every = "13s"
kind = "removed"
device = "sim0"
for = "2s"
[[fault]]
at = "8s"
kind = "removed"
device = "sim0"
for = "5s"
[[fault]]
at = "30s"
kind = "renamed"
device = "sim0"
to = "new"
for = "10s"
`

const crowdEpoch = 1000 * second

func loadCrowd(t *testing.T, profile string) *World {
	t.Helper()
	return mustLoad(t, Options{Profile: profile, Timeline: crowd, Epoch: crowdEpoch})
}

// until returns all steps of the first minute and a half of a world.
func (w *World) until(age int64) []AppStep { return w.AppSteps(crowdEpoch-1, crowdEpoch+age) }

func TestTheStepsDoNotDependOnHowTheyAreAskedFor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, profile := range []string{"roce2", "iwarp", "efa"} {
		whole := loadCrowd(t, profile).until(90 * second)
		require.Greater(t, len(whole), 10)
		for range 20 {
			w := loadCrowd(t, profile) // as after a restart
			var parts []AppStep
			from := crowdEpoch - 1
			for from < crowdEpoch+90*second {
				to := min(from+1+random.Int64N(4*second), crowdEpoch+90*second)
				parts = append(parts, w.AppSteps(from, to)...)
				from = to
			}
			require.Equal(t, whole, parts, profile)
		}
	}
}

func TestTheQueuesAtAMomentAreWhatTheStepsHaveLeft(t *testing.T) {
	for _, profile := range []string{"roce2", "iwarp", "efa"} {
		w := loadCrowd(t, profile)
		for age := int64(0); age < 90*second; age += 130 * int64(time.Millisecond) {
			want := map[AppContext]AppQueue{}
			for _, s := range w.until(age) {
				applyStep(t, want, &s)
			}
			got := map[AppContext]AppQueue{}
			for _, q := range w.AppQueues(crowdEpoch + age) {
				got[q.AppContext] = q
			}
			require.Equal(t, want, got, "%s at %v", profile, time.Duration(age))
		}
	}
}

// applyStep applies a step to queues. Like the result of AppQueues, queues then has no empty queue.
func applyStep(t *testing.T, queues map[AppContext]AppQueue, s *AppStep) {
	q, ok := queues[s.AppContext]
	if !ok {
		q = AppQueue{AppContext: s.AppContext, Unread: map[verbs.EventType]uint64{}, Since: s.At}
	}
	switch s.What {
	case AppQueued:
		q.Unread[s.Type] += s.Count
	case AppRead, AppDiscarded:
		require.GreaterOrEqual(t, q.Unread[s.Type], s.Count)
		if q.Unread[s.Type] -= s.Count; q.Unread[s.Type] == 0 {
			delete(q.Unread, s.Type)
		}
		if s.What == AppRead {
			q.Since = s.At
		}
	case AppClosed:
		require.Empty(t, q.Unread)
	}
	queues[s.AppContext] = q
	if len(q.Unread) == 0 {
		delete(queues, s.AppContext)
	}
}

// step is a short form of an AppStep, with its time in ms.
type step struct {
	at    int64
	what  AppChange
	typ   verbs.EventType
	count uint64
}

// shortSteps returns the short forms of steps, without the 30 µs of a wake-up.
func shortSteps(epoch int64, steps []AppStep) []step {
	var all []step
	for _, s := range steps {
		all = append(all, step{(s.At - epoch) / int64(time.Millisecond), s.What, s.Type, s.Count})
	}
	return all
}

func TestAnApplicationReadsHangsAndEnds(t *testing.T) {
	w := mustLoad(t, Options{Profile: "fleet1", Epoch: crowdEpoch, Timeline: `
		[[app]]
		at = "1s"
		for = "20s"
		name = "solver"
		processes = 2
		event = "qp_fatal"
		event_at = "2s"
		event_every = "4s"
		event_count = 2
		number = 284
		read_after = "3s"
		hang_at = "8s"
		hang_for = "5s"
		hang_missing = 3
		hang_proof = "waiting"`})
	var first []AppStep
	for _, s := range w.until(60 * second) {
		switch s.What {
		case AppQueued, AppRead, AppDiscarded, AppDestroys:
			require.EqualValues(t, 284+s.Process.PID-firstThread, s.Number)
		}
		if s.Process.PID == firstThread {
			first = append(first, s)
		}
	}
	fatal := verbs.EventQPFatal
	require.Equal(t, []step{
		{3000, AppQueued, fatal, 2}, {6000, AppRead, fatal, 2}, {7000, AppQueued, fatal, 2},
		{9000, AppDiscarded, fatal, 2}, {9000, AppDestroys, 0, 0}, {14000, AppDestroyed, 0, 0}, {21000, AppClosed, 0, 0},
	}, shortSteps(crowdEpoch, first))
	hang := first[4]
	require.Equal(t, verbs.ScopeQP, hang.Object)
	require.EqualValues(t, 3, hang.Missing)
	require.False(t, hang.Asleep)
}

func TestAnApplicationLosesItsObjectsWithTheDeviceAndOpensItAgain(t *testing.T) {
	const text = `
		[[app]]
		for = "30s"
		name = "a"
		event = "cq_err"
		event_at = "4s"
		event_every = "8s"
		read_after = "2s"
		[[fault]]
		kind = "removed"
		at = "5s"
		for = "4s"`
	const cq, fatal = verbs.EventCQErr, verbs.EventDeviceFatal
	w := mustLoad(t, Options{Profile: "fleet1", Epoch: crowdEpoch, Timeline: text})
	steps := w.until(20 * second)
	require.Equal(t, []step{
		{4000, AppQueued, cq, 1}, {5000, AppDiscarded, cq, 1}, {5000, AppQueued, fatal, 1}, {7000, AppRead, fatal, 1}, {7000, AppClosed, 0, 0},
		{12000, AppQueued, cq, 1}, {14000, AppRead, cq, 1}, {20000, AppQueued, cq, 1},
	}, shortSteps(crowdEpoch, steps))
	require.Equal(t, steps[0].Process, steps[5].Process)
	require.NotEqual(t, steps[0].Opened, steps[5].Opened)

	w = mustLoad(t, Options{Profile: "iwarp", Epoch: crowdEpoch, Timeline: text})
	require.Equal(t, []step{
		{4000, AppQueued, cq, 1}, {5000, AppDiscarded, cq, 1}, {5000, AppClosed, 0, 0}, {12000, AppQueued, cq, 1},
	}, shortSteps(crowdEpoch, w.until(13*second)), "its driver cannot take the device away")
}

func TestAnApplicationGetsTheEventsOfTheDeviceAndNoneOfAPort(t *testing.T) {
	w := mustLoad(t, Options{Profile: "fleet1", Epoch: crowdEpoch, Timeline: `
		[[app]]
		for = "3s"
		name = "a"
		[[event]]
		at = "1s"
		type = "device_fatal"
		[[event]]
		at = "1s"
		type = "sm_change"
		[[event]]
		at = "1s"
		type = "qp_fatal"
		[[event]]
		at = "3s"
		type = "device_fatal"`})
	require.Equal(t, []step{
		{1000, AppQueued, verbs.EventDeviceFatal, 1}, {1000, AppRead, verbs.EventDeviceFatal, 1}, {3000, AppClosed, 0, 0},
	}, shortSteps(crowdEpoch, w.until(9*second)))
}

func TestAnActorChangesNothingThatWasTold(t *testing.T) {
	now := crowdEpoch
	w := mustLoad(t, Options{Profile: "fleet1", Epoch: crowdEpoch, Clock: func() int64 { return now }})
	_, err := w.Act("sim9", "a", "")
	require.ErrorIs(t, err, verbs.ErrNoDevice)
	a, err := w.Act("sim0", "a", "")
	require.NoError(t, err)
	now += second
	require.Empty(t, w.AppSteps(crowdEpoch, now))
	a.QueueEvents(verbs.EventQPFatal, 7, 2)
	require.Empty(t, w.AppSteps(crowdEpoch, now), "the present was told")
	steps := w.AppSteps(now, now+second)
	require.Len(t, steps, 2)
	require.Greater(t, steps[0].At, now)
	require.Greater(t, steps[1].At, steps[0].At)
}
