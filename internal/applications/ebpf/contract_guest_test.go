//go:build guest

package ebpf_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/ebpf"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/conformance/tracetest"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/app"
	"rdma_events/tests/lab/guest"
)

// Each kind of object has its own event handler, its own location of counts and its own function for destruction.

func TestTheKernelKeepsTheContractWithQueuePairs(t *testing.T) {
	keepsTheContract(t, verbs.EventQPFatal, verbs.EventSRQLimitReached)
}

func TestTheKernelKeepsTheContractWithCompletionQueues(t *testing.T) {
	keepsTheContract(t, verbs.EventCQErr, verbs.EventCommEst)
}

func TestTheKernelKeepsTheContractWithSharedReceiveQueues(t *testing.T) {
	keepsTheContract(t, verbs.EventSRQErr, verbs.EventSQDrained)
}

func keepsTheContract(t *testing.T, types ...verbs.EventType) {
	tracetest.Run(t, tracetest.Fixture{
		New:   func(t testing.TB) tracetest.Host { return app.NewHost(t, "rdma0", "d0", sourceOpener(t)) },
		Types: types,
		Lacks: app.Lacks(),
	})
}

// The kernel follows only a limited number of concurrent calls to their returns, fewer than there are processes in this test. If a return
// is missed, the events that the process has read are counted at its next read. If the thread ends instead, its entry is deleted later.
func TestReadsOfMoreThreadsThanAreFollowedAreCounted(t *testing.T) {
	const processes, rounds = 24, 3
	host := app.NewHost(t, "rdma0", "d0", sourceOpener(t))
	source, err := host.Open(time.Hour)
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close()) }()
	apps := map[int]*app.App{}
	for range processes {
		a := app.Start(t, "rdma0")
		a.Listen(t)
		apps[a.PID()] = a
	}
	last := map[int]trace.App{}
	for round := range uint64(rounds) {
		for _, a := range apps {
			a.Inject(t, verbs.EventQPFatal, 1)
		}
		var missed int
		for range 20 {
			snap, err := source.Next(t.Context())
			require.NoError(t, err)
			missed = 0
			for _, a := range snap.Apps {
				last[a.Process.PID] = a
			}
			for pid := range apps {
				a := last[pid]
				require.Equal(t, a.Queued[verbs.EventQPFatal], a.Read+a.Unread)
				require.Zero(t, a.Skipped)
				if a.Read <= round {
					missed++
				}
			}
			if len(last) == processes && missed == 0 {
				break
			}
		}
		require.Len(t, last, processes)
		require.Zero(t, missed, "round %d", round)
	}
	_, err = source.Next(t.Context()) // in this second the last threads begin to read again
	require.NoError(t, err)
	require.Equal(t, processes, ebpf.ThreadEntries(t, source))
	for _, a := range apps {
		a.Kill(t)
	}
	ebpf.MakePruningDue(source)
	_, err = source.Next(t.Context())
	require.NoError(t, err)
	require.Zero(t, ebpf.ThreadEntries(t, source), "entries of threads that have ended")
}

// The thread of a process is in read(2) when the tracer starts, as with libraries that wait for events all the time. The kernel does not
// follow that call to its return, so that the process is seen to have read the event when it reads again.
func TestTheKernelFollowsNoReadThatBeganBeforeTheTracer(t *testing.T) {
	host := app.NewHost(t, "rdma0", "d0", sourceOpener(t))
	a := app.Start(t, "rdma0")
	a.Listen(t)
	guest.Eventually(t, "the thread is in read(2)", 10*time.Second, func() bool {
		waits, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", a.PID()))
		require.NoError(t, err)
		return slices.ContainsFunc(waits, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(text), "uverbs")
		})
	})
	source, err := host.Open(time.Hour)
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close()) }()
	for n := uint64(1); n <= 3; n++ {
		a.Inject(t, verbs.EventQPFatal, 1)
		var last trace.App
		for range 20 {
			snap, err := source.Next(t.Context())
			require.NoError(t, err)
			for _, one := range snap.Apps {
				last = one
			}
			if last.Read == n {
				break
			}
		}
		require.Equal(t, a.PID(), last.Process.PID)
		require.Equal(t, n, last.Queued[verbs.EventQPFatal])
		require.Equal(t, n, last.Read)
		require.Zero(t, last.Unread+last.Skipped+last.Found[verbs.EventQPFatal])
	}
}

// A process opens the device, starts a child that inherits it, and ends. Ended processes are checked every five seconds.
func TestTheKernelCountsAQueueThatIsLeftToAChild(t *testing.T) {
	host := app.NewHost(t, "rdma0", "d0", sourceOpener(t))
	source, err := host.Open(time.Hour)
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close()) }()
	a := app.Start(t, "rdma0")
	qp := a.Counts().QP
	var last trace.App
	until := func(what string, holds func(a trace.App) bool) {
		t.Helper()
		for range 15 {
			snap, err := source.Next(t.Context())
			require.NoError(t, err)
			for _, found := range snap.Apps {
				if found.Process.PID == a.PID() {
					require.False(t, last.Ended, "nothing comes after the end")
					last = found
				}
			}
			if holds(last) {
				return
			}
		}
		t.Fatalf("%s: %+v", what, last)
	}
	a.Inject(t, verbs.EventQPFatal, 1)
	until("an event", func(a trace.App) bool { return a.Unread == 1 })
	a.Daemonize(t)
	for range 8 {
		_, err := source.Next(t.Context())
		require.NoError(t, err)
	}
	guest.InjectNumber(t, "rdma0", "qp", qp, int(verbs.EventQPFatal), 2)
	until("the child's events", func(a trace.App) bool { return a.Unread == 3 })
	a.Read(t, 2)
	until("what the child has read", func(a trace.App) bool { return a.Read == 2 && a.Unread == 1 })
	a.Exit(t)
	until("the end of the child", func(a trace.App) bool { return a.Ended && a.Discarded == 1 })
}

// The programs read the names of a nested cgroup from the kernel.
func TestAProcessHasTheUnitOfItsCgroup(t *testing.T) {
	host := app.NewHost(t, "rdma0", "d0", sourceOpener(t))
	root := t.TempDir()
	require.NoError(t, unix.Mount("none", root, "cgroup2", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, unix.MNT_DETACH)) })
	source, err := host.Open(time.Hour)
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close()) }()
	want := map[int]string{}
	for path, unit := range map[string]string{
		"system.slice/trainer.service": "trainer.service",
		"kubepods.slice/kubepods-pod3f2a0000_1111_2222_3333_444455556666.slice/cri-containerd-1.scope": "pod_3f2a0000-1111-2222-3333-444455556666",
	} {
		group := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(group, 0o755))
		a := app.Start(t, "rdma0")
		require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(a.PID())), 0o644))
		a.Inject(t, verbs.EventQPFatal, 1)
		want[a.PID()] = unit
	}
	snap, err := source.Next(t.Context())
	require.NoError(t, err)
	got := map[int]string{}
	for _, a := range snap.Apps {
		got[a.Process.PID] = a.Process.Unit
	}
	require.Equal(t, want, got)
}

// Events of ports are not counted, but reading one resets the time since which other events are unread.
func TestTheKernelTimesAQueueByItsPortEventsToo(t *testing.T) {
	host := app.NewHost(t, "rdma0", "d0", sourceOpener(t))
	source, err := host.Open(time.Hour)
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close()) }()
	a := app.Start(t, "rdma0")
	guest.Inject(t, "rdma0", int(verbs.EventPortActive), 1, 1)
	a.Inject(t, verbs.EventQPFatal, 1)
	first := onlyApp(t, source)
	require.EqualValues(t, 1, first.Unread)
	began := host.Now()
	a.Read(t, 1)
	require.Equal(t, map[verbs.EventType]int{verbs.EventPortActive: 1}, a.Counts().Types)
	second := onlyApp(t, source)
	require.EqualValues(t, 1, second.Unread)
	require.Less(t, first.UnreadSince, began)
	require.GreaterOrEqual(t, second.UnreadSince, began)
}

// onlyApp returns the only process of the next Update.
func onlyApp(t *testing.T, source trace.Source) trace.App {
	t.Helper()
	snap, err := source.Next(t.Context())
	require.NoError(t, err)
	require.Len(t, snap.Apps, 1)
	return snap.Apps[0]
}

// sourceOpener returns a function that loads the programs and opens an audited Source.
func sourceOpener(t testing.TB) func(hangAfter time.Duration) (trace.Source, error) {
	return func(hangAfter time.Duration) (trace.Source, error) {
		programs, err := ebpf.Load()
		if err != nil {
			return nil, err
		}
		source, err := ebpf.Open(programs, hangAfter)
		if err != nil {
			return nil, errors.Join(err, programs.Close())
		}
		return ebpf.Audited(t, source), nil
	}
}
