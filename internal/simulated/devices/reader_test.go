package devices

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

func TestAReaderWakesAtTheMomentAnEventIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
			[[event]]
			at = "3s"
			type = "sm_change"
			count = 2`)
		start := fakeTime()
		runs := s.readRuns(-1)
		require.Equal(t, 3*second, fakeTime()-start)
		require.Equal(t, []verbs.Run{{Type: verbs.EventSMChange, Port: 1, Count: 2}}, shortRuns(runs))
		require.Equal(t, fakeTime(), runs[0].First)
		require.Equal(t, fakeTime(), runs[0].Last)
	})
}

func TestFlapsBetweenTwoReadsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "dual", `
			[[link]]
			at = "1s"
			port = 2
			down_for = "40ms"
			every = "100ms"
			times = 3
			[[event]]
			at = "1040ms"
			type = "gid_change"
			port = 2`)
		time.Sleep(5 * time.Second)
		err, active := verbs.Run{Type: verbs.EventPortErr, Port: 2, Count: 1}, verbs.Run{Type: verbs.EventPortActive, Port: 2, Count: 1}
		gid := verbs.Run{Type: verbs.EventGIDChange, Port: 2, Count: 1}
		require.Equal(t, []verbs.Run{err, active, gid, err, active, err, active}, shortRuns(s.readRuns(0)))
		attr, queryErr := s.dev.QueryPort(2)
		require.NoError(t, queryErr)
		require.EqualValues(t, 3, attr.LinkDowned)
		attr, queryErr = s.dev.QueryPort(1)
		require.NoError(t, queryErr)
		require.Zero(t, attr.LinkDowned)
	})
}

func TestOverlappingOutagesAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
			[[link]]
			at = "1s"
			down_for = "3s"
			[[link]]
			at = "2s"
			down_for = "5s"`)
		time.Sleep(5 * time.Second)
		require.NoError(t, s.w.SetLink("sim0", 1, false))
		time.Sleep(5 * time.Second)
		attr, err := s.dev.QueryPort(1)
		require.NoError(t, err)
		require.Equal(t, verbs.PortDown, attr.State)
		require.Equal(t, "polling", attr.Phys.String())
		require.NoError(t, s.w.SetLink("sim0", 1, true))
		require.Equal(t, []verbs.EventType{verbs.EventPortErr, verbs.EventPortActive}, eventTypes(s.readRuns(0)))
		attr, err = s.dev.QueryPort(1)
		require.NoError(t, err)
		require.Equal(t, verbs.PortActive, attr.State)
		require.EqualValues(t, 1, attr.LinkDowned)
	})
}

func eventTypes(runs []verbs.Run) []verbs.EventType {
	var out []verbs.EventType
	for _, r := range runs {
		out = append(out, r.Type)
	}
	return out
}

func TestEventsOfAClosedDeviceAreNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
			[[event]]
			at = "1s"
			type = "sm_change"
			every = "1s"
			[[link]]
			at = "2500ms"
			down_for = "100ms"`)
		require.NoError(t, s.dev.Close(time.Second))
		time.Sleep(3500 * time.Millisecond)
		s.dev, s.led = s.open("sim0")
		require.Empty(t, s.readRuns(0))
		attr, err := s.dev.QueryPort(1)
		require.NoError(t, err)
		require.EqualValues(t, 1, attr.LinkDowned, "the hardware counts while the device is closed")
		require.Equal(t, []verbs.Run{{Type: verbs.EventSMChange, Port: 1, Count: 1}}, shortRuns(s.readRuns(time.Second)))
	})
}

func TestOpeningAfterAYearOfEventsTakesNoTime(t *testing.T) {
	const year = 365 * 24 * 3600 * second
	s := &scene{T: t, w: mustLoad(t, Options{
		Profile: "roce2", Epoch: clock.Monotonic() - year,
		Scenario: writeScenario(t, "[[event]]\nevery = \"1ms\"\ntype = \"sm_change\"\n"),
	})}
	start := time.Now()
	s.dev, s.led = s.open("sim0")
	require.Less(t, time.Since(start), 5*time.Second)
	require.Less(t, s.readRuns(-1)[0].Count, uint64(5000))
}

func TestARestartedWorkerGoesOnInTheSameTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		epoch := fakeTime()
		file := writeScenario(t, "[[event]]\nat = \"10s\"\ntype = \"sm_change\"\n[[link]]\nat = \"1s\"\ndown_for = \"1s\"\n")
		time.Sleep(9 * time.Second)
		s := &scene{T: t, w: mustLoad(t, Options{Profile: "roce2", Scenario: file, Epoch: epoch, Clock: fakeTime})}
		s.dev, s.led = s.open("sim1")
		attr, err := s.dev.QueryPort(1)
		require.NoError(t, err)
		require.EqualValues(t, 1, attr.LinkDowned)
		require.Len(t, s.readRuns(-1), 1)
		require.Equal(t, 10*second, fakeTime()-epoch)
	})
}

func TestAStormIsOneRunAndTakesNoTime(t *testing.T) {
	s := &scene{T: t, w: mustLoad(t, Options{Profile: "roce2"})}
	s.dev, s.led = s.open("sim0")
	const storms, count = 1000, 200_000
	start := time.Now()
	for range storms {
		require.NoError(t, s.w.Inject("sim0", verbs.EventPKeyChange, 1, count))
	}
	runs := s.readRuns(-1)
	require.Less(t, time.Since(start), 5*time.Second)
	require.Equal(t, []verbs.Run{{Type: verbs.EventPKeyChange, Port: 1, Count: storms * count}}, shortRuns(runs))
	require.Equal(t, []ledger.EventCounts{
		{Type: int32(verbs.EventPKeyChange), Port: 1, Read: storms * count, Acked: storms * count},
	}, s.snapshot().Events)
	mean := runs[0].AckSum / (storms * count)
	require.Greater(t, mean, int64(ackMedian/2))
	require.LessOrEqual(t, mean, runs[0].AckMax)
}

func TestAHungAcknowledgementShowsInTheLedgerUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
			[[fault]]
			at = "1s"
			kind = "hang_ack"
			for = "4s"
			[[event]]
			at = "2s"
			type = "lid_change"
			count = 3`)
		start := fakeTime()
		done := make(chan []verbs.Run)
		go func() { done <- s.readRuns(-1) }()
		time.Sleep(3 * time.Second)
		snap := s.snapshot()
		require.Equal(t, []ledger.EventCounts{{Type: int32(verbs.EventLIDChange), Port: 1, Read: 3, Acked: 0}}, snap.Events)
		require.Equal(t, ledger.CallAckAsyncEvent, snap.Reader.Call)
		require.Equal(t, second, fakeTime()-snap.Reader.Since)
		run := (<-done)[0]
		require.Equal(t, 5*second, fakeTime()-start)
		require.Greater(t, run.AckMax, 3*second)
		require.GreaterOrEqual(t, run.HoldMax, run.AckMax)
		snap = s.snapshot()
		require.EqualValues(t, 3, snap.Events[0].Acked)
		require.Equal(t, ledger.CallNone, snap.Reader.Call)
	})
}

func TestACloseThatMeetsAHungAcknowledgementGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"hang_ack\"\n[[event]]\nat = \"1s\"\ntype = \"sm_change\"\n")
		ended := make(chan error)
		go func() {
			_, err := s.dev.ReadEvents(make([]verbs.Run, 1), -1)
			ended <- err
		}()
		time.Sleep(2 * time.Second)
		start := fakeTime()
		require.ErrorIs(t, s.dev.Close(3*time.Second), verbs.ErrStuck)
		require.Equal(t, 3*second, fakeTime()-start)
		require.ErrorIs(t, <-ended, verbs.ErrClosed)
		require.ErrorIs(t, s.dev.Close(time.Second), verbs.ErrClosed)
		snap := s.snapshot()
		require.EqualValues(t, 1, snap.Events[0].Read)
		require.Zero(t, snap.Events[0].Acked)
		require.Equal(t, ledger.CallAckAsyncEvent, snap.LongestCall(nil).Call)
	})
}

func TestACrashStrikesWhileEventsAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
			[[event]]
			at = "1s"
			type = "sm_change"
			[[fault]]
			at = "2s"
			kind = "crash"
			signal = "SIGBUS"
			[[event]]
			at = "2s"
			type = "lid_change"
			count = 5
			[[event]]
			at = "3s"
			type = "sm_change"`)
		require.Len(t, s.readRuns(-1), 1)
		var atDeath ledger.Contents
		s.w.die = func(sig syscall.Signal) {
			s.die = append(s.die, sig)
			s.led.CopyTo(&atDeath)
		}
		s.readRuns(-1)
		require.Equal(t, []syscall.Signal{syscall.SIGBUS}, s.die)
		require.Equal(t, ledger.CallAckAsyncEvent, atDeath.Reader.Call)
		require.Equal(t, ledger.EventCounts{Type: int32(verbs.EventLIDChange), Port: 1, Read: 5, Acked: 0}, atDeath.Events[1])
		// A process that survives continues, and no event is counted twice.
		require.Equal(t, ledger.EventCounts{Type: int32(verbs.EventLIDChange), Port: 1, Read: 5, Acked: 5}, s.snapshot().Events[1])
	})
}

func TestACrashSparesWhoHasAnotherDeviceOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nat = \"1s\"\nkind = \"crash\"\ndevice = \"sim1\"\n")
		require.Empty(t, s.readRuns(5*time.Second))
		require.Empty(t, s.die)
	})
}

func TestARemovedDeviceSaysFatalWhereItsDriverCanTakeItAway(t *testing.T) {
	for profile, fatal := range map[string]bool{"roce2": true, "iwarp": false} {
		t.Run(profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, profile, "[[fault]]\nat = \"1s\"\nkind = \"removed\"\nfor = \"4s\"\n"+
					"[[event]]\nat = \"2s\"\nevery = \"1s\"\ntype = \"sm_change\"\n")
				p := s.probe(verbs.MethodFlush, 1)
				s.round(p)
				runs := s.readRuns(10 * time.Second)
				if fatal {
					require.Equal(t, []verbs.Run{{Type: verbs.EventDeviceFatal, Count: 1}}, shortRuns(runs))
					require.Empty(t, s.readRuns(10*time.Second))
				} else {
					require.Empty(t, runs)
				}
				_, err := s.dev.QueryPort(1)
				require.ErrorIs(t, err, verbs.ErrNoDevice, "the handle does not come back with the device")
				_, err = s.dev.NewProbe(verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodFlush}})
				require.ErrorIs(t, err, verbs.ErrNoDevice)
				r := s.round(p)
				require.Equal(t, verbs.OutcomeError, r.Outcome)
				require.Equal(t, "ibv_create_qp: input/output error", r.Status)
				require.False(t, p.Usable())
				old := s.dev
				s.dev, s.led = s.open("sim0")
				require.Len(t, s.readRuns(-1), 1)
				n, err := old.ReadEvents(make([]verbs.Run, 1), time.Minute)
				require.NoError(t, err)
				require.Zero(t, n, "its events go to the new handle")
				require.NoError(t, old.Close(time.Second))
			})
		})
	}
}

func TestARemovedDeviceCannotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nat = \"1s\"\nkind = \"removed\"\ndevice = \"sim0\"\n")
		time.Sleep(time.Second)
		_, err := New(s.w).Open("sim0", newLedger(t))
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		require.ErrorContains(t, err, "sim0")
	})
}

func TestAHungQueryHoldsCloseUntilItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"hang_query\"\nport = 1\n")
		ended := make(chan error)
		go func() {
			_, err := s.dev.QueryPort(1)
			ended <- err
		}()
		synctest.Wait()
		require.Equal(t, ledger.CallQueryPort, s.snapshot().LongestCall(nil).Call)
		require.ErrorIs(t, s.dev.Close(time.Second), verbs.ErrStuck)
		require.ErrorIs(t, <-ended, verbs.ErrClosed)
	})
}

func TestAHungQueryAnswersInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"hang_query\"\nfor = \"7s\"\n")
		start := fakeTime()
		attr, err := s.dev.QueryPort(1)
		require.NoError(t, err)
		require.Equal(t, verbs.PortActive, attr.State)
		require.Equal(t, 7*second, fakeTime()-start)
		require.Equal(t, ledger.CallNone, s.snapshot().Control.Call)
	})
}

func TestACloseThatIsStuckSaysInWhichCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nat = \"1s\"\nkind = \"stuck_close\"\nfor = \"10s\"\n")
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, s.dev.Close(3*time.Second), verbs.ErrStuck)
		require.Equal(t, ledger.CallCloseDevice, s.snapshot().LongestCall(nil).Call)
		s.dev, s.led = s.open("sim0")
		require.NoError(t, s.dev.Close(time.Minute), "the library releases the device in time")
		require.Equal(t, ledger.CallNone, s.snapshot().LongestCall(nil).Call)
	})
}

func TestADeviceWhoseProbeIsStuckIsStuckToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nat = \"1s\"\nkind = \"stuck_close\"\n")
		p := s.probe(verbs.MethodRCWrite, 4)
		s.round(p)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, p.Close(time.Second), verbs.ErrStuck)
		require.Equal(t, ledger.CallDestroyCQ, s.snapshot().LongestCall(nil).Call)
		require.EqualValues(t, 1, s.counts().Acked, "acknowledged before the destroy")
		require.ErrorIs(t, p.Close(time.Second), verbs.ErrClosed)
		require.ErrorIs(t, s.dev.Close(time.Second), verbs.ErrStuck)
	})
}

func TestDurationsOfAcknowledgementsDependOnTheSeed(t *testing.T) {
	draw := func(seed int64, device string) verbs.Run {
		s := &scene{T: t, w: mustLoad(t, Options{Profile: "roce2", Seed: seed})}
		s.dev, s.led = s.open(device)
		require.NoError(t, s.w.Inject(device, verbs.EventSMChange, 1, 1000))
		run := s.readRuns(-1)[0]
		run.First, run.Last = 0, 0
		return run
	}
	require.Equal(t, draw(1, "sim0"), draw(1, "sim0"))
	require.NotEqual(t, draw(1, "sim0"), draw(2, "sim0"))
	require.NotEqual(t, draw(1, "sim0"), draw(1, "sim1"))
}
