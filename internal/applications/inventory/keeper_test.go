package inventory_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/inventory"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// startNamedKeeper runs a Keeper. It also returns a function for the application names of the Keeper's points. Each thread is a process
// with a name derived from its number. If hold is nil, a process is found at once, and otherwise when hold provides a value.
func startNamedKeeper(t *testing.T, hold chan struct{}) (k *inventory.Keeper, names func() []string) {
	t.Helper()
	k = startKeeper(t, inventory.Config{
		Options: inventory.Options{By: []string{"app"}, MaxSeries: 9}, Now: time.Now, Mono: func() int64 { return 0 },
		Process: func(thread int) (identity.Process, bool) {
			if hold != nil {
				<-hold
			}
			return identity.Process{PID: thread, Comm: string(rune('a' + thread))}, true
		},
	})
	return k, func() (found []string) {
		synctest.Wait()
		for _, p := range k.Points(time.Now(), inventory.Worker{}) {
			found = append(found, p.(*measure.App).App)
		}
		return found
	}
}

// startKeeper runs a Keeper until the test ends.
func startKeeper(t *testing.T, c inventory.Config) *inventory.Keeper {
	t.Helper()
	k, err := inventory.NewKeeper(c)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { k.Run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(stop)
	return k
}

func threadObjects(numbers ...int) *verbs.Objects {
	o := &verbs.Objects{}
	o.Lists[verbs.ObjectCQ].State = verbs.ListComplete
	for _, n := range numbers {
		o.Holders = append(o.Holders, verbs.Holder{Thread: n, Counts: [verbs.ObjectKinds]uint32{verbs.ObjectCQ: 1}})
	}
	return o
}

func TestWhatWorkersSeeIsKeptUntilTheDeviceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, names := startNamedKeeper(t, nil)
		first := threadObjects(1)
		k.AddObjects("d", first)
		first.Holders[0].Thread = 7 // data of a worker is valid only during the call
		k.AddObjects("e", threadObjects(2))
		require.Equal(t, []string{"b", "c"}, names())
		k.RemoveDevice("d")
		require.Equal(t, []string{"c"}, names())
	})
}

func TestADeviceThatGoesWhileItsThreadsAreLookedForDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		k, names := startNamedKeeper(t, hold)
		k.AddObjects("d", threadObjects(1))
		synctest.Wait()
		k.RemoveDevice("d")
		hold <- struct{}{}
		require.Empty(t, names())
	})
}

// tracedKeeper runs a Keeper with a tracer. emitted has the events, and alive has the identity.Process of each PID.
func tracedKeeper(t *testing.T, alive *sync.Map) (k *inventory.Keeper, emitted *[]measure.Point) {
	t.Helper()
	began := time.Now()
	emitted = &[]measure.Point{}
	k = startKeeper(t, inventory.Config{
		Options: inventory.Options{By: []string{"app"}, MaxSeries: 9, Events: true}, Now: time.Now,
		Mono: func() int64 { return int64(time.Since(began)) },
		Process: func(pid int) (identity.Process, bool) {
			p, ok := alive.Load(pid)
			if !ok {
				return identity.Process{}, false
			}
			return p.(identity.Process), true
		},
		Emit: func(p measure.Point) { *emitted = append(*emitted, p) },
	})
	k.HandleAttached(&trace.Attached{Hooks: "sim"})
	return k, emitted
}

func newProcess(pid int, comm string) identity.Process {
	return identity.Process{PID: pid, Start: uint64(pid), Comm: comm}
}

// unreadApp returns a process with an unread qp_fatal.
func unreadApp(who identity.Process) trace.App {
	a := trace.App{Device: "d", Process: who, Unread: 1, UnreadErrors: 1}
	a.Queued[verbs.EventQPFatal] = 1
	return a
}

// onlyPoint returns the only point of a type.
func onlyPoint[P measure.Point](t *testing.T, points []measure.Point) P {
	t.Helper()
	var found []P
	for _, p := range points {
		if p, ok := p.(P); ok {
			found = append(found, p)
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

func TestEventsOfTheTracerAreEmittedAtOnceAndTheRestWithTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, emitted := tracedKeeper(t, &sync.Map{})
		began, a := time.Now(), newProcess(1, "a")
		time.Sleep(time.Second)
		k.HandleUpdate(&trace.Update{
			Mono: int64(time.Second), Apps: []trace.App{unreadApp(a)},
			Events: []trace.Event{{Device: "d", Process: a, Type: verbs.EventQPFatal, Number: 284, At: 300}},
			Hangs:  []trace.Hang{{Device: "d", Process: a, Thread: 11, Object: verbs.ScopeQP, Missing: 1, Proof: trace.ProofAsleep}},
		})
		require.Len(t, *emitted, 1)
		require.Equal(t, began.Add(300), (*emitted)[0].Time())

		points := k.Points(time.Now(), inventory.Worker{Status: status.Status{State: status.StateRunning}})
		require.Len(t, points, 3)
		require.EqualValues(t, 1, onlyPoint[*measure.AppAsync](t, points).UnreadErrors)
		require.Equal(t, 1, onlyPoint[*measure.AppHang](t, points).Threads)
		require.Equal(t, status.StateRunning, onlyPoint[*measure.Tracer](t, points).Worker.State)
		require.Equal(t, &measure.HostApps{Errors: 1, Hangs: 1, UnreadErrors: 1, Attached: true}, k.Host())
		k.HandleTracerEnd()
		require.Equal(t, &measure.HostApps{Errors: 1, UnreadErrors: 1}, k.Host())
	})
}

func TestProcessesThatEndWithoutATracerAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alive sync.Map
		reused := newProcess(3, "c")
		reused.Start = 99
		for _, p := range []identity.Process{newProcess(1, "a"), newProcess(2, "b"), reused} {
			alive.Store(p.PID, p)
		}
		k, _ := tracedKeeper(t, &alive)
		k.HandleUpdate(&trace.Update{Apps: []trace.App{unreadApp(newProcess(1, "a")), unreadApp(newProcess(2, "b")), unreadApp(newProcess(3, "c"))}})
		synctest.Wait()
		require.EqualValues(t, 3, k.Host().UnreadErrors, "a tracer sees to them")
		k.HandleTracerEnd()
		synctest.Wait()
		require.EqualValues(t, 2, k.Host().UnreadErrors, "another process has the number of c")
		alive.Delete(2)
		time.Sleep(time.Minute) // ended processes are checked once a minute
		synctest.Wait()
		require.EqualValues(t, 1, k.Host().UnreadErrors)
	})
}
