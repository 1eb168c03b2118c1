package ebpf

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

const tid = 4712

// simulateLook simulates the look in a given second. It returns the reported hangs and the threads that no longer wait.
func simulateLook(h *hangDetector, second int, s ...traceSight) ([]trace.Hang, []uint32) {
	sights := map[uint32]traceSight{}
	for _, one := range s {
		sights[one.Tid] = one
	}
	var snap trace.Update
	over := h.update(int64(second)*int64(time.Second), sights, newProcessCounts(), &snap)
	return snap.Hangs, over
}

// sleepingThread returns the state of a thread that waits in its object, modified by changes.
func sleepingThread(changes ...func(*traceSight)) traceSight {
	s := traceSight{Tid: tid, Call: unix.SYS_FUTEX, State: 0x2001, Argument: 0x1000 + 44, Switches: 5}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func newWait(second int) *traceWait {
	return &traceWait{Ns: uint64(second) * uint64(time.Second), Cond: 0x1000, Object: 4, Number: 284, Missing: 1}
}

func TestAThreadHangsWhenItHasWaitedAtEachLook(t *testing.T) {
	h := newHangDetector(3 * time.Second)
	h.addWait(tid, newWait(1))
	for second := 1; second <= 3; second++ {
		reported, over := simulateLook(h, second, sleepingThread())
		require.Empty(t, reported, second)
		require.Empty(t, over)
	}
	want := trace.Hang{
		Thread: tid, Object: verbs.ScopeQP, Number: 284, Since: int64(time.Second), Missing: 1, Proof: trace.ProofAsleep,
	}
	reported, _ := simulateLook(h, 4, sleepingThread())
	require.Equal(t, []trace.Hang{want}, reported)
	reported, _ = simulateLook(h, 5, sleepingThread(func(s *traceSight) { s.Switches++ }))
	want.Proof = trace.ProofWaiting
	require.Equal(t, []trace.Hang{want}, reported, "some acknowledgements came")
	reported, over := simulateLook(h, 6)
	require.Empty(t, reported)
	require.Equal(t, []uint32{tid}, over)
	require.True(t, h.isEmpty())
}

func TestNoOtherSleepIsAHang(t *testing.T) {
	for name, change := range map[string]func(*traceSight){
		"runs":                   func(s *traceSight) { s.State = 0 },
		"uninterruptible":        func(s *traceSight) { s.State = 2 },
		"stopped":                func(s *traceSight) { s.State = 4 },
		"another call":           func(s *traceSight) { s.Call = unix.SYS_POLL },
		"no call":                func(s *traceSight) { s.Call = -1 },
		"the mutex before":       func(s *traceSight) { s.Argument = 0x1000 - 4 },
		"the counts behind":      func(s *traceSight) { s.Argument = 0x1000 + condSize },
		"the address of another": func(s *traceSight) { s.Argument = 0x9000 },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHangDetector(0)
			h.addWait(tid, newWait(1))
			reported, over := simulateLook(h, 2, sleepingThread(change))
			require.Empty(t, reported)
			require.Empty(t, over, "it may be on its way")
			reported, over = simulateLook(h, 3, sleepingThread(change))
			require.Empty(t, reported)
			require.Equal(t, []uint32{tid}, over)
		})
	}
}

func TestAThreadThatIsSeenAwakeOnceHangsOn(t *testing.T) {
	h := newHangDetector(0)
	h.addWait(tid, newWait(1))
	simulateLook(h, 2, sleepingThread())
	hang, _ := simulateLook(h, 3, sleepingThread())
	require.Len(t, hang, 1)
	reported, over := simulateLook(h, 4, sleepingThread(func(s *traceSight) { s.State = 0 }))
	require.Equal(t, hang, reported, "the host takes a hang that is not named for one that is over")
	require.Empty(t, over)
	for second := 5; second <= 6; second++ {
		reported, _ = simulateLook(h, second, sleepingThread())
		require.Equal(t, hang, reported)
	}
}

func TestAThreadThatDestroysAnotherObjectHasEndedItsHang(t *testing.T) {
	h := newHangDetector(0)
	h.addWait(tid, newWait(1))
	simulateLook(h, 2, sleepingThread())
	reported, _ := simulateLook(h, 3, sleepingThread())
	require.Len(t, reported, 1)
	require.EqualValues(t, time.Second, reported[0].Since)
	h.addWait(tid, newWait(4))
	reported, over := simulateLook(h, 5, sleepingThread())
	require.Empty(t, reported)
	require.Empty(t, over)
	reported, _ = simulateLook(h, 6, sleepingThread())
	require.Len(t, reported, 1)
	require.EqualValues(t, 4*time.Second, reported[0].Since)
}

func TestObjectsOfTheKernelAreScopes(t *testing.T) {
	require.Equal(t, verbs.ScopeCQ, scopeOf(3))
	require.Equal(t, verbs.ScopeQP, scopeOf(4))
	require.Equal(t, verbs.ScopeSRQ, scopeOf(5))
	require.Equal(t, verbs.ScopeWQ, scopeOf(12))
	require.Equal(t, verbs.ScopeUnknown, scopeOf(7))
}
