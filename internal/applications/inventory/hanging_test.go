package inventory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// threadHang returns a thread of a process that has waited for missing acknowledgements for a second.
func threadHang(who Owner, thread int, since int64, missing uint32) trace.Hang {
	return trace.Hang{
		Device: "d", Process: who.Process, Thread: thread, Object: verbs.ScopeQP, Number: uint32(100 + thread),
		Since: since * int64(time.Second), Missing: missing, Proof: trace.ProofAsleep,
	}
}

func TestAHangIsShownWhileItLastsAndOnceAtItsEnd(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	hang := threadHang(a, 11, 0, 2)
	b.second(trace.Update{Hangs: []trace.Hang{hang}})
	want := &measure.AppHang{
		Device: "d", App: "a", Object: verbs.ScopeQP, Threads: 1, Age: int64(time.Second), Missing: 2, PID: 1, TID: 11, Number: 111,
		Unit: "u.service", Proof: trace.ProofAsleep, At: b.now().Wall,
	}
	require.Equal(t, []*measure.AppHang{want}, b.hanging())
	require.EqualValues(t, 1, b.Host().Hangs)
	b.second(trace.Update{})
	want.Threads, want.Age, want.At = 0, int64(2*time.Second), b.now().Wall
	require.Equal(t, []*measure.AppHang{want}, b.hanging())
	require.Empty(t, b.hanging())
	require.Zero(t, b.Host().Hangs)

	b.second(trace.Update{Hangs: []trace.Hang{threadHang(a, 12, 1, 1)}})
	b.second(trace.Update{})
	ended := b.hanging()
	require.Len(t, ended, 1, "shown although it did not last for an interval")
	require.Equal(t, [2]int{0, 12}, [2]int{ended[0].Threads, ended[0].TID})
}

func TestThreadsOfAnApplicationHangTogether(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	old, young, of := threadHang(a, 12, 0, 1), threadHang(a, 11, 1, 5), threadHang(a, 13, 1, 1)
	of.Object = verbs.ScopeCQ
	b.mono = int64(3 * time.Second)
	b.second(trace.Update{Hangs: []trace.Hang{young, old, of}})
	got := b.hanging()
	require.Len(t, got, 2)
	require.Equal(t, [3]int{2, 12, int(4 * time.Second)}, [3]int{got[1].Threads, got[1].TID, int(got[1].Age)})
	b.second(trace.Update{Hangs: []trace.Hang{young}})
	got = b.hanging()
	require.Equal(t, [2]int{0, 13}, [2]int{got[0].Threads, got[0].TID})
	require.Equal(t, [2]int{1, 11}, [2]int{got[1].Threads, got[1].TID})
}

func TestWhatADeadTracerSawHangEnds(t *testing.T) {
	b := newBench(t, 1)
	b.second(trace.Update{Hangs: []trace.Hang{threadHang(newProcess(1, "a"), 11, 0, 1), threadHang(newProcess(2, "b"), 12, 0, 1)}})
	require.Len(t, b.hanging(), 2)
	b.end()
	b.begin()
	ended := b.hanging()
	require.Len(t, ended, 2)
	require.Equal(t, [2]string{"a", "other"}, [2]string{ended[0].App, ended[1].App})
	require.Zero(t, ended[0].Threads+ended[1].Threads)
	require.Empty(t, b.hanging())
}

func TestASeriesKeepsItsPlaceAfterAHangAsAfterAnEvent(t *testing.T) {
	b := newBench(t, 1)
	b.second(trace.Update{Hangs: []trace.Hang{threadHang(newProcess(1, "a"), 11, 0, 1)}})
	b.mono += int64(keepPlaceFor)
	next := updateOf(appCounts(newProcess(2, "b"), verbs.EventQPFatal, 1, 0, 0))
	next.Hangs = []trace.Hang{threadHang(newProcess(1, "a"), 11, 0, 1)}
	b.second(next)
	b.second(trace.Update{})
	b.mono += int64(keepPlaceFor) - 2*int64(time.Second)
	b.second(updateOf(appCounts(newProcess(3, "c"), verbs.EventQPFatal, 1, 0, 0)))
	require.NotContains(t, b.async(), "d c ")
	b.mono += int64(time.Second)
	b.second(updateOf(appCounts(newProcess(4, "e"), verbs.EventQPFatal, 1, 0, 0)))
	require.Contains(t, b.async(), "d e ")
}

func TestBlindnessBeginsWithTheLastSnapshotWhenItWasMade(t *testing.T) {
	b := newBench(t, 9)
	b.mono = int64(9 * time.Second)
	b.Trace(&trace.Update{Mono: int64(5 * time.Second)}, b.now(), b.emit)
	b.end()
	require.EqualValues(t, 4*time.Second, b.health(Worker{}).Blind)
}

func TestATracersGapsAndCountsAddUp(t *testing.T) {
	b := newBench(t, 9)
	b.second(trace.Update{Lost: 3, Full: 1, Processes: 7})
	w := Worker{Status: status.Status{State: status.StateRunning, PID: 50}, CPU: 10, RSS: 4096}
	require.Equal(t, &measure.Tracer{
		Attached: true, Hooks: "sim", Worker: w.Status, Lost: 3, Full: 1, Processes: 7, CPU: 10, RSS: 4096, At: b.now().Wall,
	}, b.health(w))

	b.mono += int64(time.Second) / 2 // since its last snapshot
	b.end()
	b.end() // a tracer that could not start
	b.mono += int64(time.Second)
	require.Equal(t, &measure.Tracer{
		Hooks: "sim", Gaps: 1, Blind: int64(3 * time.Second / 2), Lost: 3, Full: 1, CPU: 10, At: b.now().Wall,
	}, b.health(Worker{}))
	b.Attach(&trace.Attached{Hooks: "kprobe", Missing: []string{"f", "g"}, Load: 9}, b.now(), b.emit)
	b.second(trace.Update{Lost: 2})
	w.Status.PID, w.CPU = 51, 4
	require.Equal(t, &measure.Tracer{
		Attached: true, Hooks: "kprobe", Missing: 2, Worker: w.Status, Gaps: 1, Blind: int64(3 * time.Second / 2), Lost: 5, Full: 1,
		Load: 9, CPU: 14, RSS: 4096, At: b.now().Wall,
	}, b.health(w))
}
