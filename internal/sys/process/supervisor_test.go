package process

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/status"
)

func TestNoMessageIsHandledAfterTheEndOfItsProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		p := b.processes()[0]
		p.set(false, true) // the kernel holds it, and its stream goes on
		passTime(time.Minute)
		require.Len(t, b.endings(), 1)
		seen := b.messageCount()
		require.ErrorIs(t, p.deliver("beat"), errOver)
		require.Equal(t, seen, b.messageCount())
	}, openOnly)
}

func TestNoMessageIsHandledAfterTheFinalOne(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		require.Len(t, b.endings(), 1)
		require.Equal(t, 1, b.messageCount())
	}, func(p *fakeProcess) {
		endWith(status.ReasonRemoved)(p)
		p.send("beat")
	})
}

func TestDelaysBetweenCrashesDoubleUpToTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(2 * time.Minute)
		ms := time.Millisecond
		require.Equal(t, []time.Duration{
			250 * ms, 500 * ms, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 30000 * ms, 30000 * ms,
		}, b.gaps())
		require.Equal(t, status.Status{
			State: status.StateBackingOff, Reason: status.ReasonCrashed, Restarts: 9,
			Message: "child of mlx5_0 died of SIGSEGV; restarting in 30s",
		}, b.last())
		require.Len(t, b.lines(), 1, "the same crash is logged once")
	}, crash)
}

func TestAMinuteOfRunningMakesTheNextDelayShortAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(4 * time.Minute)
		gaps := b.gaps()
		require.Equal(t, 4*time.Second, gaps[4])
		require.Equal(t, 61*time.Second+250*time.Millisecond, gaps[5])
		require.Equal(t, 500*time.Millisecond, gaps[6])
		require.Len(t, b.lines(), 2, "the crash after that is logged again")
	}, crash, crash, crash, crash, crash, runFor(61*time.Second), crash)
}

func TestSameCrashIsTracedAgainAfterAMinute(t *testing.T) {
	traced := func(s script) script {
		return func(p *fakeProcess) {
			p.rep.Crash, p.rep.Tail = "SIGSEGV: segmentation violation", []string{"SIGSEGV: segmentation violation", "goroutine 1"}
			s(p)
		}
	}
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(70 * time.Second)
		require.Equal(t, 2, strings.Count(strings.Join(b.lines(), ""), "goroutine 1"))
	}, traced(crash), traced(runFor(61*time.Second)), openOnly)
}

func TestAHopelessReasonIsTriedAgainSlowlyAndSaidOnce(t *testing.T) {
	for _, why := range []status.Reason{
		status.ReasonNoLibrary, status.ReasonNoPermission, status.ReasonLimit,
	} {
		t.Run(string(why), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				passTime(5 * time.Minute)
				require.Equal(t, 30*time.Second, b.gaps()[3])
				require.Equal(t, why, b.last().Reason)
				require.Len(t, b.lines(), 1)
				require.Contains(t, b.lines()[0], "mlx5_0: "+string(why)+"; trying again every 30s")
			}, endWith(why))
		})
	}
}

func TestUnwatchableDeviceIsTriedHourlyAndWhenWoken(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(24*time.Hour + time.Minute)
		require.Len(t, b.gaps(), 24)
		require.Equal(t, status.StateStopped, b.last().State, "no alert is about a worker that is stopped")
		require.Equal(t, status.ReasonUnwatchable, b.last().Reason)
		require.Len(t, b.lines(), 1)
		require.Contains(t, b.lines()[0], "level=INFO")
		require.Contains(t, b.lines()[0], "trying again after a change, and every 1h0m0s")

		b.Wake()
		passTime(time.Second)
		require.Len(t, b.gaps(), 25)
	}, endWith(status.ReasonUnwatchable))
}

func TestRecoveringDeviceIsRetriedSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(40 * time.Second)
		ms := time.Millisecond
		require.Equal(t, []time.Duration{250 * ms, 500 * ms, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms}, b.gaps())
		require.Equal(t, status.ReasonRecovering, b.last().Reason)
		require.Len(t, b.lines(), 1)
	}, endWith(status.ReasonRecovering))
}

func TestStuckCloseNeedsNoFinalMessage(t *testing.T) {
	exit := func(p *fakeProcess) { p.die(exitStuck << 8) }
	withMessage := func(p *fakeProcess) {
		p.set(true, false) // it is about to exit
		endWith(status.ReasonStuck)(p)
		exit(p)
	}
	for name, s := range map[string]script{"no final message comes": exit, "the final message comes": withMessage} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				require.Equal(t, status.End{
					Reason: status.ReasonStuck, Message: "child of mlx5_0 could not close the device: stuck",
				}, b.endings()[0])
			}, s)
		})
	}
}

func TestAChangedReasonIsSaidAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(5 * time.Minute)
		require.Len(t, b.lines(), 2)
	}, endWith(status.ReasonNoLibrary), endWith(status.ReasonNoLibrary), endWith(status.ReasonNoPermission))
}

func TestSupervisorWaitsForWakeAfterRemoval(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(time.Hour)
		require.Len(t, b.processes(), 1)
		require.Equal(t, status.Status{
			State: status.StateStopped, Reason: status.ReasonRemoved, Message: "mlx5_0: removed; waiting for it to come back",
		}, b.last())
		b.Wake()
		require.Equal(t, status.Status{State: status.StateRunning, Reason: status.ReasonOK, Restarts: 1, PID: 4711}, b.last())
	}, endWith(status.ReasonRemoved), openOnly)
}

func TestNoProcessIsStartedWithoutItsResource(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(time.Second)
		b.gone.Store(true)
		passTime(time.Hour) // the process crashes meanwhile
		require.Len(t, b.processes(), 1)
		require.Equal(t, status.StateStopped, b.last().State)
		require.Equal(t, status.ReasonRemoved, b.last().Reason)
		require.Zero(t, b.last().Restarts)
		b.gone.Store(false)
		b.Wake()
		require.Len(t, b.processes(), 2)
	}, runFor(time.Minute), openOnly)
}

func TestAWakeThatCameBeforeTheRemovalWasSeenIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(time.Second)
		b.Wake()
		passTime(2 * time.Second)
		require.Len(t, b.processes(), 2)
	}, func(p *fakeProcess) {
		p.send("opened")
		<-time.After(2 * time.Second)
		endWith(status.ReasonRemoved)(p)
	}, openOnly)
}

func TestAChildThatCannotBeMadeIsTriedAgainSlowly(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		require.Equal(t, status.Status{
			State: status.StateBackingOff, Reason: status.ReasonLimit,
			Message: "child of mlx5_0 cannot be started: too many open files; raise the limit of open files (systemd: LimitNOFILE); trying again every 30s",
		}, b.last())
		require.Len(t, b.endings(), 1, "what was started is ended")
	}, nil)
}

func TestEachLedgerIsHandedOverBeforeAndMappedUntilAfterItsChild(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(time.Second)
		b.cancel()
		require.NoError(t, <-b.over)
		require.Equal(t, []string{
			"status starting", "started", "ended",
			"status backing_off", "status starting", "started", "message", "status running", "ended", "status stopped",
		}, b.calls)
	}, crash, openOnly)
}

func TestWatchdogCountsChecksAndNotTheClock(t *testing.T) {
	now, call := int64(time.Hour), Call{}
	w := watchdog{alive: neverAlive, busy: func() Call { return call }, limit: 4, stuck: 10 * time.Second, mono: func() int64 { return now }}

	w.reset()
	now += int64(time.Hour) // the host was stopped
	require.Equal(t, causeNone, w.check())
	w.reset()

	call = Call{"ibv_query_port", now - int64(time.Minute)}
	require.Equal(t, causeNone, w.check(), "the child may have been stopped too")
	call = Call{"ibv_query_port", now}
	require.Equal(t, causeNone, w.check(), "it goes on")
	now += int64(9 * time.Second)
	require.Equal(t, causeNone, w.check())
	now += int64(2 * time.Second)
	w.reset()
	require.Equal(t, causeStuck, w.check())
}

func TestWatchdogBlamesNoCallForAPauseOfTheHost(t *testing.T) {
	now := int64(time.Hour)
	call := Call{"ibv_query_port", now}
	w := watchdog{
		alive: neverAlive,
		busy:  func() Call { return call }, limit: 1000, stuck: 10 * time.Second, period: time.Second, mono: func() int64 { return now },
	}
	require.Equal(t, causeNone, w.check())
	now += int64(20 * time.Second) // a guest was stopped while its call was under way
	require.Equal(t, causeNone, w.check())
	for range 10 {
		now += int64(time.Second)
		require.Equal(t, causeNone, w.check())
	}
	now += int64(time.Second)
	require.Equal(t, causeStuck, w.check(), "it does not end after the pause either")
}

// A check that the supervisor makes late is followed by an early one, since its ticks do not move.
func TestWatchdogCountsNoCheckThatIsLateOrEarly(t *testing.T) {
	now, lived := int64(time.Hour), int64(1)
	w := watchdog{
		alive: func() int64 { return lived }, busy: func() Call { return Call{} },
		limit: 1, period: 5 * time.Second, mono: func() int64 { return now },
	}
	checkAfter := func(passed time.Duration) cause {
		now += int64(passed)
		return w.check()
	}
	require.Equal(t, causeNone, checkAfter(0))
	lived++
	require.Equal(t, causeNone, checkAfter(9900*time.Millisecond), "the supervisor was stopped, and the process was not")
	require.Equal(t, causeNone, checkAfter(100*time.Millisecond))
	lived++
	require.Equal(t, causeNone, checkAfter(5*time.Second))
	require.Equal(t, causeNone, checkAfter(30*time.Second), "both were stopped")
	require.Equal(t, causeHung, checkAfter(5*time.Second), "it shows no sign of life after the pause either")
}

// neverAlive is the method Alive of a child that shows only by its messages that it lives.
func neverAlive() int64 { return 0 }

func TestAChildThatSendsNothingAndLivesIsNotBlamed(t *testing.T) {
	var lived int64
	w := watchdog{busy: func() Call { return Call{} }, alive: func() int64 { return lived }, limit: 4, mono: func() int64 { return 0 }}
	for range 20 {
		lived++
		for range 4 {
			require.Equal(t, causeNone, w.check())
		}
	}
	require.Equal(t, causeHung, w.check())
}
