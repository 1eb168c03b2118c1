package process

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/status"
)

func TestAHungChildIsKilledWithoutBeingAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		begin := time.Now()
		passTime(11 * time.Second)
		asked, killed := b.processes()[0].times()
		require.Zero(t, asked)
		require.Greater(t, killed.Sub(begin), 5*time.Second, "it has as long as a beat")
		require.LessOrEqual(t, killed.Sub(begin), 10*time.Second, "and no longer than to the next check")
		require.Equal(t, status.End{
			Reason: status.ReasonStuck, Message: "child of mlx5_0 stopped responding and was killed",
		}, b.endings()[0])
	}, openOnly)
}

// It waits for a processor, or runs without end.
func TestAHungChildThatIsRunnableIsKilledWithAHintAtTheHost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.starved.Store(true)
		passTime(11 * time.Second)
		asked, killed := b.processes()[0].times()
		require.Zero(t, asked)
		require.NotZero(t, killed)
		require.Equal(t, status.End{
			Reason:  status.ReasonStuck,
			Message: "child of mlx5_0 stopped responding although it was runnable, and was killed; see whether the host is overloaded",
		}, b.endings()[0])
	}, openOnly)
}

func TestAChildThatOpensItsDeviceSlowlyIsGivenTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passTime(14 * time.Second)
		require.Len(t, b.processes(), 1)
		require.Equal(t, status.StateStarting, b.last().State)
		passTime(8 * time.Second)
		_, killed := b.processes()[0].times()
		require.NotZero(t, killed)
	}, func(*fakeProcess) {})
}

func TestAChildThatDoesNotListenIsAskedThenKilled(t *testing.T) {
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

func TestAChildThatTheKernelHoldsIsLeftAndNotDoubled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		synctest.Wait()
		p := b.processes()[0]
		p.set(false, true)
		passTime(time.Hour)
		require.Len(t, b.processes(), 1, "another one would be held too")
		want := "child of mlx5_0 (process 4711) cannot be killed: the kernel holds it"
		require.Equal(t, status.Status{State: status.StateStuck, Reason: status.ReasonStuck, Message: want, Crashes: 1, PID: 4711}, b.last())
		require.Equal(t, []status.End{{Reason: status.ReasonStuck, Message: want}}, b.endings())
		p.die(unix.SIGKILL)
		require.Equal(t, status.StateRunning, b.last().State, "it goes on once the kernel has let go")
	}, openOnly)
}

// On an overloaded host, a killed child may wait for a processor. The kernel does not hold it.
func TestAKilledChildWithoutCPUTimeIsNotSaidToBeHeldByTheKernel(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		synctest.Wait()
		b.starved.Store(true)
		p := b.processes()[0]
		p.set(false, true)
		passTime(time.Hour)
		require.Len(t, b.processes(), 1)
		want := "child of mlx5_0 (process 4711) was killed, but has had no CPU time to exit; see whether the host is overloaded"
		require.Equal(t, []status.End{{Reason: status.ReasonStuck, Message: want}}, b.endings())
		p.die(unix.SIGKILL)
		require.Equal(t, status.StateRunning, b.last().State)
	}, openOnly)
}

func TestStoppingLeavesAChildThatTheKernelHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		synctest.Wait()
		p := b.processes()[0]
		p.set(true, true)
		begin := time.Now()
		b.cancel()
		err := <-b.over
		require.ErrorIs(t, err, ErrAbandoned)
		require.ErrorContains(t, err, "process 4711")
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.Equal(t, status.StateStopped, b.last().State)
		var held interface{ Left() <-chan struct{} }
		require.ErrorAs(t, err, &held)
		select {
		case <-held.Left():
			require.Fail(t, "the kernel still holds it")
		default:
		}
		p.die(unix.SIGKILL)
		<-held.Left()
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

// leaveToKernel makes the bubble's processes look as if they were ending, while the kernel closes their resources.
func leaveToKernel(b *bubble) {
	synctest.Wait()
	b.spec.KernelCloses, b.exits = true, func(pid int) bool { return pid == 4711 }
}

func TestStoppingLeavesAnEndingChildToTheKernel(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		leaveToKernel(b)
		p := b.processes()[0]
		p.set(true, true)
		begin := time.Now()
		b.cancel()
		require.NoError(t, <-b.over)
		require.Equal(t, 2*time.Second, time.Since(begin))
		_, killed := p.times()
		require.Zero(t, killed)
		require.Equal(t, []status.End{{Reason: status.ReasonOK}}, b.endings())
		require.Empty(t, b.lines())
	}, openOnly)
}

func TestStoppingWaitsForAnEndingChildWithoutAWord(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		leaveToKernel(b)
		p := b.processes()[0]
		p.set(true, true)
		b.cancel()
		passTime(1700 * time.Millisecond)
		p.die(0)
		require.NoError(t, <-b.over)
		require.Empty(t, b.lines())
	}, openOnly)
}

func TestEndingChildKeepsItsReasonWhileTheKernelCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		leaveToKernel(b)
		b.processes()[0].set(true, true)
		passTime(10 * time.Second)
		require.Equal(t, status.End{Reason: status.ReasonRemoved, Message: "mlx5_0: removed"}, b.endings()[0])
		require.Equal(t, status.ReasonRemoved, b.last().Reason)
		require.Len(t, b.lines(), 1)
	}, func(p *fakeProcess) {
		p.send("opened")
		<-time.After(time.Second)
		endWith(status.ReasonRemoved)(p)
	}, openOnly)
}

// A killed child is ending, too, and the kernel closes its resource.
func TestHungChildIsNotHeldWhileTheKernelCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		leaveToKernel(b)
		b.processes()[0].set(false, true)
		passTime(11 * time.Second)
		require.Equal(t, "child of mlx5_0 stopped responding and was killed", b.endings()[0].Message)
		require.Len(t, b.processes(), 2, "another one is started")
	}, openOnly)
}

func TestChildThatDoesNotEndIsKilledThoughTheKernelCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		leaveToKernel(b)
		b.exits = func(int) bool { return false }
		b.processes()[0].set(true, false)
		b.cancel()
		require.NoError(t, <-b.over)
		require.Len(t, b.lines(), 1)
		require.Contains(t, b.lines()[0], "did not close its device within 1.5s and is killed")
	}, openOnly)
}
