package ebpf

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

var python = traceProcess{Start: 987 * clockTick, Tgid: 4711, Device: 2}

func copyChars(to []int8, s string) {
	for i := range s {
		to[i] = int8(s[i])
	}
}

// newApp returns the map entry of a process with errors and other events.
func newApp(errors, others uint64) *traceApp {
	a := &traceApp{Queues: 1}
	copyChars(a.Device[:], "mlx5_0")
	copyChars(a.Comm[:], "python3")
	copyChars(a.Cgroup[0][:], "cri-containerd-abc.scope")
	copyChars(a.Cgroup[1][:], "kubepods-burstable-pod3f2a0000_1111_2222_3333_444455556666.slice")
	a.Queued[verbs.EventQPFatal], a.Queued[verbs.EventCommEst] = errors, others
	return a
}

func (p *processCounts) reported(now int64) *trace.Update {
	snap := &trace.Update{}
	p.addApps(now, snap)
	return snap
}

func TestAProcessIsNamedByWhatTheKernelSawFirst(t *testing.T) {
	p := newProcessCounts()
	p.setApp(python, newApp(1, 0))
	p.addQueue(1, &traceQueue{Process: python, Unread: [2]uint64{0, 1}, Since: 50})
	want := identity.Process{PID: 4711, Start: 987, Comm: "python3", Unit: "pod_3f2a0000-1111-2222-3333-444455556666"}
	snap := p.reported(100)
	require.Len(t, snap.Apps, 1)
	require.Equal(t, want, snap.Apps[0].Process)
	require.Equal(t, "mlx5_0", snap.Apps[0].Device)
	require.EqualValues(t, 1, snap.Apps[0].UnreadErrors)
	require.EqualValues(t, 50, snap.Apps[0].UnreadSince)
	require.Empty(t, p.reported(101).Apps, "nothing has changed")

	renamed := newApp(2, 0)
	copyChars(renamed.Comm[:], "another")
	p.setApp(python, renamed)
	require.Equal(t, want, p.reported(102).Apps[0].Process)
}

func TestAnEntryThatIsBeingWrittenIsTakenLater(t *testing.T) {
	p := newProcessCounts()
	p.setApp(python, newApp(2, 1))
	first := p.reported(1).Apps[0]
	require.EqualValues(t, 3, first.Unread)
	torn := newApp(2, 1)
	torn.Read = [2]uint64{0, 3} // one of them was queued after the entry's counts had been copied
	p.setApp(python, torn)
	require.Empty(t, p.reported(2).Apps)
	torn.Queued[verbs.EventQPFatal] = 3
	p.setApp(python, torn)
	a := p.reported(3).Apps[0]
	require.EqualValues(t, 3, a.Read)
	require.EqualValues(t, 1, a.Unread)
	require.Zero(t, a.UnreadErrors)
}

func TestAProcessEndsASecondAfterItsLastQueue(t *testing.T) {
	p := newProcessCounts()
	gone := newApp(1, 0)
	gone.Queues, gone.Discarded = 0, [2]uint64{0, 1}
	p.setApp(python, gone)
	require.False(t, p.reported(1).Apps[0].Ended, "what it had is reported first")
	p.setApp(python, gone)
	snap := &trace.Update{}
	require.Equal(t, []traceProcess{python}, p.addApps(2, snap))
	require.True(t, snap.Apps[0].Ended)
	require.Zero(t, snap.Processes)
	require.Empty(t, p.accounts)
}

// A child that has inherited the descriptor keeps the queue of an ended process open, as after daemon(3).
func TestQueueOutlivesTheProcessThatLeftItToAChild(t *testing.T) {
	isGone := func(pid int) bool { return pid == 4711 }
	p := newProcessCounts()
	p.setApp(python, newApp(2, 0))
	p.reported(1)
	p.markEnded(isGone)
	require.Empty(t, p.reported(2).Apps)

	c := newApp(3, 0)
	c.Read[1] = 1
	p.setApp(python, c)
	p.markEnded(isGone)
	a := p.reported(3).Apps[0]
	require.False(t, a.Ended)
	require.EqualValues(t, 1, a.Read)
	require.EqualValues(t, 2, a.Unread)

	c.Discarded[1], c.Queues = 2, 0
	p.setApp(python, c)
	p.markEnded(isGone)
	a = p.reported(4).Apps[0]
	require.True(t, a.Ended)
	require.Zero(t, a.Unread)
	require.EqualValues(t, 2, a.Discarded)
}

// The process has destroyed an object and had no event.
func TestProcessWithoutAQueueEndsWhenItIsGone(t *testing.T) {
	p := newProcessCounts()
	c := newApp(0, 0)
	c.Queues, c.DestroyedUnacked = 0, 1
	p.setApp(python, c)
	require.False(t, p.reported(1).Apps[0].Ended)
	p.markEnded(func(int) bool { return false })
	require.Empty(t, p.reported(2).Apps)
	p.markEnded(func(pid int) bool { return pid == 4711 })
	require.True(t, p.reported(3).Apps[0].Ended)
}

func TestTheLongestDelayIsOfTheLookThatIsOver(t *testing.T) {
	p := newProcessCounts()
	p.look = 7
	c := newApp(1, 0)
	c.Read, c.Delays, c.DelaySum = [2]uint64{0, 1}, 1, 90
	c.DelayMax[1].Ns, c.DelayMax[1].Look = 90, 7
	p.setApp(python, c)
	require.EqualValues(t, 90, p.reported(1).Apps[0].DelayMax)
	p.look = 9
	c.Queued[verbs.EventQPFatal]++
	p.setApp(python, c)
	require.Zero(t, p.reported(2).Apps[0].DelayMax)
}

// At such a look, no program has changed a map.
func TestALookWithoutAReadingReportsNothingTwice(t *testing.T) {
	p := newProcessCounts()
	p.look = 7
	c := newApp(2, 0)
	c.Read, c.Delays, c.DelaySum = [2]uint64{0, 1}, 1, 90
	c.DelayMax[1].Ns, c.DelayMax[1].Look = 90, 7
	p.setApp(python, c)
	p.addQueue(1, &traceQueue{Process: python, Unread: [2]uint64{0, 1}, Since: 50})
	require.EqualValues(t, 90, p.reported(100).Apps[0].DelayMax)
	for now := range int64(3) {
		snap := p.reported(101 + now)
		require.Empty(t, snap.Apps)
		require.Equal(t, 1, snap.Processes)
	}
	c.Queued[verbs.EventQPFatal]++
	p.look = 8
	p.setApp(python, c)
	p.addQueue(1, &traceQueue{Process: python, Unread: [2]uint64{0, 2}, Since: 50})
	a := p.reported(110).Apps[0]
	require.Zero(t, a.DelayMax)
	require.EqualValues(t, 50, a.UnreadSince)
}

func TestALookWithoutAReadingEndsAProcessWithoutAQueue(t *testing.T) {
	p := newProcessCounts()
	gone := newApp(1, 0)
	gone.Queues, gone.Discarded = 0, [2]uint64{0, 1}
	p.setApp(python, gone)
	require.False(t, p.reported(1).Apps[0].Ended)
	require.True(t, p.reported(2).Apps[0].Ended)
	require.Empty(t, p.accounts)
}

// The counts were copied before the last event was queued, and the number of queues after the last one was closed.
func TestEntryThatIsBeingWrittenDoesNotEndItsProcess(t *testing.T) {
	p := newProcessCounts()
	p.setApp(python, newApp(1, 0))
	p.reported(1)
	torn := newApp(1, 0)
	torn.Queues, torn.Discarded = 0, [2]uint64{0, 2}
	p.setApp(python, torn)
	require.Empty(t, p.reported(2).Apps)
	torn.Queued[verbs.EventQPFatal] = 2
	p.setApp(python, torn)
	a := p.reported(3).Apps[0]
	require.False(t, a.Ended)
	require.EqualValues(t, 2, a.Discarded)
	require.True(t, p.reported(4).Apps[0].Ended)
}

func TestWhatFoundNoPlaceIsToldWithoutAName(t *testing.T) {
	p := newProcessCounts()
	p.setNameless(2, newApp(4, 0))
	p.setNameless(3, &traceApp{})
	snap := p.reported(1)
	require.Len(t, snap.Apps, 1)
	require.Equal(t, identity.Process{}, snap.Apps[0].Process)
	require.EqualValues(t, 4, snap.Apps[0].Queued[verbs.EventQPFatal])
	require.Zero(t, snap.Processes)
}

// Of events that were there before, only the reads are seen.
func TestReadsOfFoundEventsAreNotCountedWithoutAName(t *testing.T) {
	p := newProcessCounts()
	found := newApp(0, 0)
	found.Read = [2]uint64{2, 3}
	p.setNameless(2, found)
	require.Zero(t, p.reported(1).Apps[0].Read)
	found.Queued[verbs.EventQPFatal], found.Queued[verbs.EventCommEst] = 4, 1
	p.setNameless(2, found)
	a := p.reported(2).Apps[0]
	require.EqualValues(t, 1+3, a.Read)
	require.EqualValues(t, 1, a.UnreadErrors)
}

func TestEventsAreInTheOrderOfTheirTimes(t *testing.T) {
	p := newProcessCounts()
	p.setApp(python, newApp(2, 0))
	records := []traceRecord{
		{Ns: 20, Process: python, Type: uint32(verbs.EventQPFatal), Number: 284},
		{Ns: 10, Process: traceProcess{Tgid: 1}, Type: uint32(verbs.EventCQErr)},
	}
	var snap trace.Update
	p.addEvents(records, &snap)
	require.Equal(t, []trace.Event{
		{Type: verbs.EventCQErr, At: 10},
		{Device: "mlx5_0", Process: p.accounts[python].now.Process, Type: verbs.EventQPFatal, Number: 284, At: 20},
	}, snap.Events)
	p.addEvents(make([]traceRecord, trace.MaxEvents+3), &snap)
	require.Len(t, snap.Events, trace.MaxEvents)
	p.addEvents(nil, &snap)
	require.Len(t, snap.Events, 3, "they come with the next one")
}

// 6,000 events per second, as of an application that repeatedly arms the limit of its shared receive queue.
func TestStormIsBoundedAndCountedAsLost(t *testing.T) {
	const seconds, each = 60, 6000
	p := newProcessCounts()
	var sent uint64
	var last trace.Update
	for second := range seconds {
		now := uint64(second+1) * 1e9
		records := make([]traceRecord, each)
		for i := range records {
			records[i] = traceRecord{Ns: now - uint64(each-i)*1000, Type: uint32(verbs.EventSRQLimitReached)}
		}
		last = trace.Update{Lost: 7} // lost in the ring
		p.addEvents(records, &last)
		require.LessOrEqual(t, len(last.Events), trace.MaxEvents)
		require.LessOrEqual(t, len(p.pendingEvents), trace.MaxEvents)
		require.LessOrEqual(t, int64(now)-last.Events[0].At, int64(2*time.Second), "it is sent now or with the next Snapshot")
		sent += uint64(len(last.Events))
	}
	require.EqualValues(t, seconds*each, sent+uint64(len(p.pendingEvents))+last.Lost-7)
	var after trace.Update
	p.addEvents(nil, &after)
	require.Len(t, after.Events, trace.MaxEvents)
	require.Empty(t, p.pendingEvents)
	require.Equal(t, last.Lost-7, after.Lost)
}
