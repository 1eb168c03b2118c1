package applications_test

import (
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/applications"
	"rdma_events/internal/simulated/devices"
)

// traced is an open source for a scenario in a synctest bubble.
type traced struct {
	*testing.T
	w   *devices.World
	src trace.Source
}

func newTraced(t *testing.T, o devices.Options) *traced {
	t.Helper()
	if o.Profile == "" {
		o.Profile = "fleet1"
	}
	o.Clock = fakeTime
	w, err := devices.Load(o)
	require.NoError(t, err)
	p := &traced{T: t, w: w}
	p.open()
	return p
}

func (p *traced) open() {
	p.Helper()
	src, err := applications.Open(p.w, 10*time.Second)
	require.NoError(p, err)
	p.Cleanup(func() { require.NoError(p, src.Close()) })
	p.src = src
}

// next reads the given number of Updates. It returns the last one and the events of all.
func (p *traced) next(times int) (*trace.Update, []trace.Event) {
	p.Helper()
	var last *trace.Update
	var events []trace.Event
	for range times {
		snap, err := p.src.Next(p.Context())
		require.NoError(p, err)
		last, events = snap, append(events, snap.Events...)
	}
	return last, events
}

func TestASnapshotIsASecondAfterTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t, devices.Options{})
		began := p.w.Now()
		for n := range 3 {
			snap, _ := p.next(1)
			require.Equal(t, began+int64(n+1)*int64(time.Second), snap.Mono)
		}
		time.Sleep(2500 * time.Millisecond)
		snap, _ := p.next(1)
		require.Equal(t, began+int64(5500*time.Millisecond), snap.Mono, "at once, it is late")
		snap, _ = p.next(1)
		require.Equal(t, began+int64(6*time.Second), snap.Mono)
	})
}

func TestAProcessIsTheOneThatHoldsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t, devices.Options{Timeline: `
			[[app]]
			name = "python3"
			unit = "job_7"
			event = "qp_fatal"
			event_at = "100ms"`})
		snap, events := p.next(1)
		holder, ok := p.w.Process(snap.Apps[0].Process.PID, p.w.Now())
		require.True(t, ok)
		require.EqualValues(t, holder.Start, snap.Apps[0].Process.Start)
		require.Equal(t, holder.Name, snap.Apps[0].Process.Comm)
		require.Equal(t, holder.Unit, snap.Apps[0].Process.Unit)
		require.Equal(t, snap.Apps[0].Process, events[0].Process)
		require.NotZero(t, events[0].Number)
	})
}

func TestTooManyEventsForASecondAreCountedAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t, devices.Options{Timeline: `
			[[app]]
			name = "a"
			event = "qp_fatal"
			event_at = "100ms"
			event_every = "1s"
			event_count = 5000`})
		snap, events := p.next(2)
		require.EqualValues(t, 10000, snap.Apps[0].Queued[verbs.EventQPFatal])
		require.EqualValues(t, 10000, uint64(len(events))+snap.Lost)
		require.NotZero(t, snap.Lost)
		require.NotEmpty(t, events)
	})
}

func TestWhatTheKernelHasNoMemoryForIsNeitherUnreadNorRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t, devices.Options{Timeline: `
			[[app]]
			name = "a"
			event = "qp_fatal"
			event_at = "500ms"
			event_every = "1s"
			event_count = 2
			event_skipped = true
			for = "5s"`})
		snap, events := p.next(3)
		require.Len(t, events, 6)
		a := snap.Apps[0]
		require.EqualValues(t, 6, a.Queued[verbs.EventQPFatal])
		require.EqualValues(t, 6, a.Skipped)
		a.Queued, a.Skipped = [trace.Types]uint64{}, 0
		require.Equal(t, trace.App{Device: "sim0", Process: a.Process}, a)
		snap, _ = p.next(2)
		require.True(t, snap.Apps[0].Ended)
		require.EqualValues(t, 10, snap.Apps[0].Skipped)
		require.Zero(t, snap.Apps[0].Discarded)
	})
}

func TestAFaultOfTheTracerLosesRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t, devices.Options{Timeline: `
			[[app]]
			name = "a"
			event = "qp_fatal"
			event_at = "500ms"
			event_every = "1s"
			[[fault]]
			kind = "tracer_lost"
			at = "2s"
			for = "3s"`})
		snap, events := p.next(10)
		require.EqualValues(t, 10, snap.Apps[0].Queued[verbs.EventQPFatal])
		require.Len(t, events, 7)
		require.EqualValues(t, 3, snap.Lost)
	})
}

func TestAProcessWithoutAPlaceIsCountedWithoutAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t, devices.Options{Timeline: `
			[[app]]
			name = "early"
			for = "8s"
			event = "qp_fatal"
			event_at = "500ms"
			event_every = "1s"
			[[app]]
			at = "2s"
			for = "5s"
			name = "late"
			processes = 2
			event = "cq_err"
			event_at = "500ms"
			event_every = "1s"
			read_after = "never"
			[[fault]]
			kind = "tracer_full"
			at = "2s"
			for = "2s"`})
		snap, _ := p.next(6)
		require.Len(t, snap.Apps, 2)
		require.Equal(t, 1, snap.Processes)
		require.EqualValues(t, 2, snap.Full)
		require.Zero(t, snap.Lost)
		early, other := snap.Apps[0], snap.Apps[1]
		require.Equal(t, "early", early.Process.Comm)
		require.Zero(t, other.Process)
		require.Equal(t, "sim0", other.Device)
		require.EqualValues(t, 8, other.Queued[verbs.EventCQErr])
		require.EqualValues(t, 8, other.Unread)
		require.EqualValues(t, 8, other.UnreadErrors)
		snap, _ = p.next(1)
		require.EqualValues(t, 10, snap.Apps[1].Discarded, "both have ended")
		require.Zero(t, snap.Apps[1].Unread)
		require.False(t, snap.Apps[1].Ended, "the App without a name does not end")
		snap, _ = p.next(1)
		require.Len(t, snap.Apps, 1)
		require.True(t, snap.Apps[0].Ended)
		require.Zero(t, snap.Processes)
	})
}

func TestATracerIsRefusedForATime(t *testing.T) {
	for name, want := range map[string]error{
		"no_permission": trace.ErrPermission, "unsupported": trace.ErrUnsupported, "no_device": trace.ErrNoDevice,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newTraced(t, devices.Options{Timeline: `
					[[fault]]
					kind = "tracer_refused"
					at = "1s"
					for = "2s"
					error = "` + name + `"`})
				time.Sleep(time.Second)
				_, err := applications.Open(p.w, time.Second)
				require.ErrorIs(t, err, want)
				p.next(1)
				time.Sleep(2 * time.Second)
				p.open()
			})
		})
	}
}

func TestATracerThatDiesDoesSoOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deaths []int64
		p := newTraced(t, devices.Options{
			Die: func(s syscall.Signal) {
				require.Equal(t, syscall.SIGKILL, s)
				deaths = append(deaths, fakeTime())
			},
			Timeline: `
				[[fault]]
				kind = "tracer_crash"
				at = "1500ms"
				every = "2s"
				times = 2
				signal = "SIGKILL"`,
		})
		began := p.w.Now()
		p.next(5)
		require.Equal(t, []int64{began + int64(1500*time.Millisecond), began + int64(3500*time.Millisecond)}, deaths)
	})
}

func TestApplicationsOfTheMixedScenario(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTraced(t, devices.Options{Profile: "roce2", Scenario: "mixed"})
		time.Sleep(500 * time.Millisecond) // its events are queued at whole seconds and read a little later
		p.open()
		hangs, unread, ended, fatal := map[string]int{}, map[string]uint64{}, 0, uint64(0)
		var hung []trace.Hang // hangs in the previous Update
		for range 60 {
			snap, events := p.next(1)
			for _, a := range snap.Apps {
				unread[a.Process.Comm] = max(unread[a.Process.Comm], a.UnreadErrors)
				if a.Ended {
					ended++
				}
			}
			for _, e := range events {
				if e.Type == verbs.EventQPFatal {
					fatal++
				}
			}
			for _, h := range hung {
				if !slices.Contains(snap.Hangs, h) {
					hangs[h.Process.Comm]++
				}
			}
			hung = snap.Hangs
		}
		require.EqualValues(t, 4, fatal, "one for each process of the job")
		require.Equal(t, map[string]uint64{"python3": 1, "storaged": 0, "solver": 0}, unread)
		require.Equal(t, map[string]int{"solver": 2}, hangs)
		require.NotZero(t, ended)
	})
}
