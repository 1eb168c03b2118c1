package process

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/status"
)

// fakeProcess is a process that follows its script, in a synctest bubble.
type fakeProcess struct {
	deliver  func(message) error
	streamed chan struct{}
	started  chan struct{}
	done     chan struct{}
	rep      report
	once     sync.Once

	mu       sync.Mutex
	deaf     bool // Ask has no effect
	immortal bool // Kill has no effect
	asked    time.Time
	killed   time.Time
}

// send sends a message, which no process receives once the Supervisor has left this one.
func (p *fakeProcess) send(m message) { _ = p.deliver(m) }

func newFakeProcess(deliver func(message) error) *fakeProcess {
	return &fakeProcess{deliver: deliver, streamed: make(chan struct{}), started: make(chan struct{}), done: make(chan struct{})}
}

func (p *fakeProcess) PID() int                  { return 4711 }
func (p *fakeProcess) Streamed() <-chan struct{} { return p.streamed }
func (p *fakeProcess) Started() <-chan struct{}  { return p.started }
func (p *fakeProcess) Done() <-chan struct{}     { return p.done }
func (p *fakeProcess) Report() *report           { return &p.rep }

func (p *fakeProcess) Ask() {
	if p.note(&p.asked, &p.deaf) {
		p.die(0)
	}
}

func (p *fakeProcess) Kill() {
	if p.note(&p.killed, &p.immortal) {
		p.die(unix.SIGKILL)
	}
}

// note records when Ask or Kill was called, and reports whether the call has an effect.
func (p *fakeProcess) note(when *time.Time, ignored *bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	*when = time.Now()
	return !*ignored
}

func (p *fakeProcess) set(deaf, immortal bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf, p.immortal = deaf, immortal
}

func (p *fakeProcess) times() (asked, killed time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.killed
}

func (p *fakeProcess) die(by unix.Signal) {
	p.once.Do(func() {
		p.rep.PID, p.rep.Shook, p.rep.Status = 4711, true, syscall.WaitStatus(by)
		close(p.streamed)
		close(p.done)
	})
}

// script controls one process; it runs in a goroutine of its own.
type script func(p *fakeProcess)

func crash(p *fakeProcess) { p.die(unix.SIGSEGV) }

func openOnly(p *fakeProcess) { p.send("opened") }

func endWith(why status.Reason) script {
	return func(p *fakeProcess) {
		p.send(ended(why, "mlx5_0: "+string(why)))
	}
}

// runFor beats for d and then crashes.
func runFor(d time.Duration) script {
	return func(p *fakeProcess) {
		p.send("opened")
		for end := time.Now().Add(d); time.Now().Before(end); {
			select {
			case <-time.After(time.Second):
				p.send("beat")
			case <-p.done:
				return
			}
		}
		crash(p)
	}
}

// bubble is a Supervisor over scripts; the last script is repeated.
type bubble struct {
	*recorder
	*Supervisor[message]
	born   []*fakeProcess
	births []time.Time
	cancel context.CancelFunc
	over   chan error
}

func inBubble(t *testing.T, test func(t *testing.T, b *bubble), scripts ...script) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{recorder: newRecorder(), over: make(chan error, 1)}
		c := testSpec()
		c.Log, c.Rand = b.logger(), func() float64 { return 0.5 }
		b.Supervisor = New(c, &testContract{recorder: b.recorder})
		b.launch = func(_ Attempt[message], f *os.File, deliver func(message) error) (instance, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			s := scripts[min(len(b.born), len(scripts)-1)]
			if s == nil {
				return nil, errors.Join(unix.EMFILE, f.Close())
			}
			p := newFakeProcess(deliver)
			close(p.started)
			b.born, b.births = append(b.born, p), append(b.births, time.Now())
			go s(p)
			return p, f.Close()
		}
		var ctx context.Context
		ctx, b.cancel = context.WithCancel(t.Context())
		go func() { b.over <- b.Run(ctx) }()
		test(t, b)
		b.cancel()
		synctest.Wait()
		for _, p := range b.processes() {
			p.die(0) // releases scripts
		}
	})
}

func (b *bubble) processes() []*fakeProcess {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.born
}

func (b *bubble) last() status.Status {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.statuses[len(b.statuses)-1]
}

func (b *bubble) endings() []status.End {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ends
}

func (b *bubble) lines() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logLines
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bubble) gaps() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(b.births); i++ {
		gaps = append(gaps, b.births[i].Sub(b.births[i-1]))
	}
	return gaps
}

func TestNoMessageIsHandledAfterTheEndOfItsProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		p := b.processes()[0]
		p.set(false, true) // the kernel holds it, and its stream goes on
		pass(time.Minute)
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
		pass(2 * time.Minute)
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
		pass(4 * time.Minute)
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
		pass(70 * time.Second)
		require.Equal(t, 2, strings.Count(strings.Join(b.lines(), ""), "goroutine 1"))
	}, traced(crash), traced(runFor(61*time.Second)), openOnly)
}

func TestAHopelessReasonIsTriedAgainSlowlyAndSaidOnce(t *testing.T) {
	for _, why := range []status.Reason{
		status.ReasonNoLibrary, status.ReasonNoPermission, status.ReasonLimit,
	} {
		t.Run(string(why), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				pass(5 * time.Minute)
				require.Equal(t, 30*time.Second, b.gaps()[3])
				require.Equal(t, why, b.last().Reason)
				require.Len(t, b.lines(), 1)
				require.Contains(t, b.lines()[0], "mlx5_0: "+string(why)+"; trying again every 30s")
			}, endWith(why))
		})
	}
}

func TestRecoveringDeviceIsRetriedSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		pass(40 * time.Second)
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
		pass(5 * time.Minute)
		require.Len(t, b.lines(), 2)
	}, endWith(status.ReasonNoLibrary), endWith(status.ReasonNoLibrary), endWith(status.ReasonNoPermission))
}

func TestSupervisorWaitsForWakeAfterRemoval(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		pass(time.Hour)
		require.Len(t, b.processes(), 1)
		require.Equal(t, status.Status{
			State: status.StateStopped, Reason: status.ReasonRemoved, Message: "mlx5_0: removed; waiting for it to come back",
		}, b.last())
		b.Wake()
		require.Equal(t, status.Status{State: status.StateRunning, Reason: status.ReasonOK, Restarts: 1, PID: 4711}, b.last())
	}, endWith(status.ReasonRemoved), openOnly)
}

func TestAWakeThatCameBeforeTheRemovalWasSeenIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		pass(time.Second)
		b.Wake()
		pass(2 * time.Second)
		require.Len(t, b.processes(), 2)
	}, func(p *fakeProcess) {
		p.send("opened")
		<-time.After(2 * time.Second)
		endWith(status.ReasonRemoved)(p)
	}, openOnly)
}

func TestAWorkerThatCannotBeMadeIsTriedAgainSlowly(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		require.Equal(t, status.Status{
			State: status.StateBackingOff, Reason: status.ReasonLimit,
			Message: "child of mlx5_0 cannot be started: too many open files; raise the limit of open files (systemd: LimitNOFILE); trying again every 30s",
		}, b.last())
		require.Len(t, b.endings(), 1, "what was started is ended")
	}, nil)
}

func TestAHungWorkerIsKilledWithoutBeingAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		begin := time.Now()
		pass(10 * time.Second)
		asked, killed := b.processes()[0].times()
		require.Zero(t, asked)
		require.InDelta(t, 5*time.Second, killed.Sub(begin), float64(2*time.Second))
		require.Equal(t, status.End{
			Reason: status.ReasonStuck, Message: "child of mlx5_0 stopped responding and was killed",
		}, b.endings()[0])
	}, openOnly)
}

func TestAWorkerThatOpensItsDeviceSlowlyIsGivenTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		pass(14 * time.Second)
		require.Len(t, b.processes(), 1)
		require.Equal(t, status.StateStarting, b.last().State)
		pass(8 * time.Second)
		_, killed := b.processes()[0].times()
		require.NotZero(t, killed)
	}, func(*fakeProcess) {})
}

func TestAWorkerThatDoesNotListenIsAskedThenKilled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		synctest.Wait()
		p := b.processes()[0]
		p.set(true, false)
		b.cancel()
		begin := time.Now()
		require.NoError(t, <-b.over)
		asked, killed := p.times()
		require.Equal(t, begin, asked)
		require.Equal(t, begin.Add(1500*time.Millisecond), killed)
		require.Equal(t, []status.End{{Reason: status.ReasonOK}}, b.endings())
		require.Equal(t, status.StateStopped, b.last().State)
	}, openOnly)
}

func TestAWorkerThatTheKernelHoldsIsLeftAndNotDoubled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		synctest.Wait()
		p := b.processes()[0]
		p.set(false, true)
		pass(time.Hour)
		require.Len(t, b.processes(), 1, "another one would be held too")
		want := "child of mlx5_0 (process 4711) cannot be killed: the kernel holds it"
		require.Equal(t, status.Status{State: status.StateStuck, Reason: status.ReasonStuck, Message: want, Crashes: 1, PID: 4711}, b.last())
		require.Equal(t, []status.End{{Reason: status.ReasonStuck, Message: want}}, b.endings())
		p.die(unix.SIGKILL)
		require.Equal(t, status.StateRunning, b.last().State, "it goes on once the kernel has let go")
	}, openOnly)
}

func TestStoppingLeavesAWorkerThatTheKernelHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		synctest.Wait()
		b.processes()[0].set(true, true)
		begin := time.Now()
		b.cancel()
		err := <-b.over
		require.ErrorIs(t, err, ErrAbandoned)
		require.ErrorContains(t, err, "process 4711")
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.Equal(t, status.StateStopped, b.last().State)
	}, openOnly)
}

func TestStoppingDoesNotWaitForADelay(t *testing.T) {
	for _, s := range []script{crash, endWith(status.ReasonNoLibrary), endWith(status.ReasonRemoved)} {
		inBubble(t, func(t *testing.T, b *bubble) {
			synctest.Wait()
			b.cancel()
			begin := time.Now()
			require.NoError(t, <-b.over)
			require.Equal(t, begin, time.Now())
		}, s)
	}
}

func TestEachLedgerIsHandedOverBeforeAndMappedUntilAfterItsWorker(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		pass(time.Second)
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
	w := watchdog{busy: func() Call { return call }, limit: 4, stuck: 10 * time.Second, mono: func() int64 { return now }}

	w.beat()
	now += int64(time.Hour) // the host was stopped
	require.Equal(t, causeNone, w.check())
	w.beat()

	call = Call{"ibv_query_port", now - int64(time.Minute)}
	require.Equal(t, causeNone, w.check(), "the worker may have been stopped too")
	call = Call{"ibv_query_port", now}
	require.Equal(t, causeNone, w.check(), "it goes on")
	now += int64(9 * time.Second)
	require.Equal(t, causeNone, w.check())
	now += int64(2 * time.Second)
	w.beat()
	require.Equal(t, causeStuck, w.check())
}
