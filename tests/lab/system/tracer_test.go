//go:build guest

package system

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/app"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/lab/witness"
	"rdma_events/tests/rig"
)

const withEvents = quiet + `
  [inputs.rdma_events.applications]
    events = true
    hang_after = "2s"
`

// soonTraced is how long the tests wait for what a tracer has seen. Its programs take seconds to load in an emulated guest.
const soonTraced = time.Minute

// startTraced makes the device and starts Telegraf as root. It returns once the kernel is traced.
func startTraced(t *testing.T) *rig.Telegraf {
	t.Helper()
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	r := startAs(t, nil, unmerged(withEvents), "250ms")
	awaitTraced(r)
	return r
}

func awaitTraced(r *rig.Telegraf) {
	r.Await("the kernel is traced", soonTraced, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_tracer").Int("attached") == 1
	})
}

// startNamed starts an application with a name of its own.
func startNamed(t *testing.T, name string) *app.App {
	t.Helper()
	a := app.Start(t, device)
	a.Rename(t, name)
	return a
}

// appAsync returns the newest point of an application in rdma_app_async.
func appAsync(points []rig.Point, name string) rig.Point {
	return rig.Last(points, "rdma_app_async", "device", device, "app", name)
}

// fields are some fields of a point.
type fields map[string]int64

func fieldsOf(p rig.Point, like fields) fields {
	got := fields{}
	for name := range like {
		got[name] = p.Int(name)
	}
	return got
}

// awaitApp waits until an application has these fields in rdma_app_async.
func awaitApp(t *testing.T, r *rig.Telegraf, name string, want fields) []rig.Point {
	t.Helper()
	var last rig.Point
	defer func() {
		if t.Failed() {
			t.Logf("want of %s %v, got %v", name, want, last.Fields)
		}
	}()
	return r.Await("what was counted of "+name, soonTraced, func(points []rig.Point) bool {
		last = appAsync(points, name)
		return maps.Equal(want, fieldsOf(last, want))
	})
}

// requireTracedParity checks each point of rdma_app_async, and that the points of events add up to the counters, where they
// may come a second later.
func requireTracedParity(t *testing.T, r *rig.Telegraf) {
	t.Helper()
	points := r.Await("the events add up", soonTraced, func(points []rig.Point) bool {
		for name := range appNames(rig.Select(points, "rdma_app_async", "device", device)) {
			told := rig.Sum(rig.Select(points, "rdma_app_event", "device", device, "app", name), "count")
			if told != appAsync(points, name).Int("queued") {
				return false
			}
		}
		return true
	})
	all := rig.Select(points, "rdma_app_async", "device", device)
	require.NotEmpty(t, all)
	for _, p := range all {
		if p.Int("unread") < 0 {
			continue // no tracer was attached
		}
		require.Equal(t, p.Int("queued"), p.Int("read")+p.Int("discarded")+p.Int("skipped")+p.Int("unread"), "%v", p)
	}
	rig.RequireCountersNeverFall(t, points)
}

func appNames(points []rig.Point) map[string]bool {
	all := map[string]bool{}
	for _, p := range points {
		all[p.Tags["app"]] = true
	}
	return all
}

func TestAnApplicationsErrorIsReportedWithItsProcessAndObject(t *testing.T) {
	r := startTraced(t)
	a := startNamed(t, "victim")
	for _, typ := range []verbs.EventType{verbs.EventQPFatal, verbs.EventCQErr, verbs.EventSRQErr} {
		number := a.Inject(t, typ, 1)
		points := r.Await(typ.String(), soonTraced, func(points []rig.Point) bool {
			return len(rig.Select(points, "rdma_app_event", "app", "victim", "event", typ.String())) > 0
		})
		e := rig.Last(points, "rdma_app_event", "app", "victim", "event", typ.String())
		require.Equal(t, map[string]string{
			"device": device, "app": "victim", "event": typ.String(), "object": typ.Scope().String(),
		}, e.Tags)
		require.Equal(t, map[string]any{
			"count": int64(1), "total": int64(1), "pid": int64(a.PID()), "number": int64(number),
		}, e.Fields)
	}
	points := awaitApp(t, r, "victim", fields{
		"processes": 1, "queued": 3, "unread": 3, "unread_errors": 3, "qp_fatal": 1, "cq_err": 1, "srq_err": 1,
	})
	require.Positive(t, appAsync(points, "victim").Int("unread_age_ns"))
	require.EqualValues(t, 3, rig.Last(points, "rdma_host").Int("app_errors"))

	a.Read(t, 0)
	points = awaitApp(t, r, "victim", fields{"queued": 3, "read": 3, "unread": 0, "unread_errors": 0, "unread_age_ns": 0})
	require.Positive(t, appAsync(points, "victim").Int("read_delay_ns_max"))
	requireTracedParity(t, r)
}

// The device itself says that a completion queue has overrun and that a shared receive queue has few left.
func TestEventsThatADeviceCausesAreThoseOfTheApplication(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	r := startTraced(t)
	a := startNamed(t, "real")
	cq := a.Number(t, "cq")
	a.Overflow(t, 3)
	a.Read(t, 3)
	a.Limit(t)
	a.Hold(t, 1)
	points := awaitApp(t, r, "real", fields{"queued": 4, "read": 4, "unread": 0, "cq_err": 3, "srq_limit_reached": 1})
	require.Equal(t, map[verbs.EventType]int{verbs.EventCQErr: 3, verbs.EventSRQLimitReached: 1}, a.Counts().Types)
	for _, e := range rig.Select(points, "rdma_app_event", "event", "cq_err") {
		require.EqualValues(t, cq, e.Int("number"))
	}
	requireTracedParity(t, r)
}

// TestADestructionWithoutItsAcknowledgementIsAHang has each kind of object, and each kind of events that a completion queue
// waits for. A hang ends with the acknowledgement, or with the process.
func TestADestructionWithoutItsAcknowledgementIsAHang(t *testing.T) {
	r := startTraced(t)
	for _, c := range []hanging{
		{"qp", "qp", injectAndHold(t, verbs.EventQPFatal), acknowledgeHeld(t)},
		{"cq", "cq", injectAndHold(t, verbs.EventCQErr), acknowledgeHeld(t)},
		{"srq", "srq", injectAndHold(t, verbs.EventSRQErr), acknowledgeHeld(t)},
		{"comp", "cq", func(a *app.App) { a.HoldCompletions(t, 2) }, func(a *app.App, n int) { a.AcknowledgeCompletions(t, n) }},
	} {
		a := c.start(t, r)
		c.release(a, 0)
		a.Join(t)
		c.await(t, r, "it is over", func(h rig.Point) bool { return h.Int("threads") == 0 })
		a.Exit(t)
	}
	killed := hanging{"killed", "qp", injectAndHold(t, verbs.EventQPFatal), acknowledgeHeld(t)}
	killed.start(t, r).Kill(t)
	killed.await(t, r, "it is over", func(h rig.Point) bool { return h.Int("threads") == 0 })
	points := r.Await("no hang any more", soonTraced, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_host").Int("app_hangs") == 0
	})
	for _, name := range []string{"qp", "cq", "srq", "killed"} {
		require.EqualValues(t, 1, appAsync(points, "hangs-"+name).Int("destroyed_unacked"), name)
	}
}

// hanging is an application that hangs in the destruction of an object.
type hanging struct {
	name, kind string
	hold       func(*app.App)      // two events of the object
	release    func(*app.App, int) // acknowledges some of them; 0: all
}

// start makes the application hang, checks what is reported of it, and acknowledges one of two events.
func (c hanging) start(t *testing.T, r *rig.Telegraf) *app.App {
	t.Helper()
	a := startNamed(t, "hangs-"+c.name)
	number := a.Number(t, c.kind)
	c.hold(a)
	thread := a.Destroy(t, c.kind)
	h := c.await(t, r, "it hangs", func(rig.Point) bool { return true })
	require.Equal(t, map[string]string{"device": device, "app": "hangs-" + c.name, "object": c.kind}, h.Tags)
	require.GreaterOrEqual(t, h.Int("age_ns"), int64(2*time.Second))
	require.Equal(t, map[string]any{
		"threads": int64(1), "age_ns": h.Int("age_ns"), "missing": int64(2), "pid": int64(a.PID()), "tid": int64(thread),
		"number": int64(number), "proof": "asleep",
	}, h.Fields)
	c.release(a, 1)
	h = c.await(t, r, "it has run, and waits again", func(h rig.Point) bool { return h.Text("proof") == "waiting" })
	require.EqualValues(t, 1, h.Int("threads"))
	require.EqualValues(t, thread, h.Int("tid"))
	return a
}

// await waits until something holds of the newest point of the hang, and returns that.
func (c hanging) await(t *testing.T, r *rig.Telegraf, what string, holds func(rig.Point) bool) rig.Point {
	t.Helper()
	var last rig.Point
	r.Await(c.name+": "+what, soonTraced, func(points []rig.Point) bool {
		last = rig.Last(points, "rdma_app_hang", "app", "hangs-"+c.name)
		return last.Fields != nil && holds(last)
	})
	return last
}

func injectAndHold(t *testing.T, typ verbs.EventType) func(*app.App) {
	return func(a *app.App) {
		a.Inject(t, typ, 2)
		a.Hold(t, 2)
	}
}

func acknowledgeHeld(t *testing.T) func(*app.App, int) {
	return func(a *app.App, n int) { a.Acknowledge(t, n) }
}

// TestWhatTheTracerCountsIsWhatOthersCount compares with what the programs, the plugin's own worker and bpftrace have counted.
func TestWhatTheTracerCountsIsWhatOthersCount(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	guest.LoadCore(t)
	beside := witness.StartEvents(t)
	r := startAs(t, nil, withEvents, "250ms")
	awaitTraced(r)
	worker := workerOf(t, r, device)
	workerName := strings.TrimSpace(processFile(t, worker, "comm"))

	// Events of a device come to each process that has it open.
	a, b := startNamed(t, "first"), startNamed(t, "second")
	guest.Inject(t, device, guest.DeviceFatal, 1, 5)
	for round := range 20 {
		a.Inject(t, verbs.EventQPFatal, 1+round%3)
		b.Inject(t, verbs.EventCQErr, 2)
		a.Inject(t, verbs.EventSRQLimitReached, 1)
		b.Read(t, 1)
		a.Hold(t, round%2)
	}
	b.Destroy(t, "cq")
	awaitApp(t, r, "second", fields{
		"queued": 5 + 40, "device_fatal": 5, "cq_err": 40,
		"read": int64(b.Counts().Read), "discarded": int64(45 - b.Counts().Read), "unread": 0,
	})
	awaitApp(t, r, "first", fields{
		"queued": 5 + 39 + 20, "device_fatal": 5, "qp_fatal": 39, "srq_limit_reached": 20,
		"read": int64(a.Counts().Read), "unread": int64(64 - a.Counts().Read),
	})
	a.Crash(t)
	b.Exit(t)
	points := awaitApp(t, r, "first", fields{"read": int64(a.Counts().Read), "discarded": int64(64 - a.Counts().Read), "unread": 0})

	own := appAsync(points, workerName)
	require.EqualValues(t, 5, own.Int("queued"), "of the worker")
	require.Equal(t, rig.Last(points, "rdma_async", "device", device, "port", "").Int("read"), own.Int("read"))
	var ledger uint64
	for _, e := range ledgerOf(t, worker).Events {
		if verbs.EventType(e.Type).Scope() != verbs.ScopePort {
			ledger += e.Read
		}
	}
	require.EqualValues(t, ledger, own.Int("read"))
	requireTracedParity(t, r)

	got := beside.Stop(t)
	want := map[string]int64{"device_fatal": 3 * 5}
	for _, name := range []string{"first", "second"} {
		for _, typ := range []string{"qp_fatal", "cq_err", "srq_limit_reached"} {
			want[typ] += max(0, appAsync(points, name).Int(typ))
		}
	}
	require.Equal(t, want, got.Queued)
	require.EqualValues(t, a.Counts().Read, got.Read[a.PID()])
	require.EqualValues(t, b.Counts().Read, got.Read[b.PID()])
}

// TestAnIdleTracerReadsNoMap counts the system calls of a tracer whose maps have entries, first without events and then with one.
func TestAnIdleTracerReadsNoMap(t *testing.T) {
	r := startTraced(t)
	a := startNamed(t, "victim")
	a.Inject(t, verbs.EventQPFatal, 2)
	a.Read(t, 1)
	awaitApp(t, r, "victim", fields{"queued": 2, "read": 1, "unread": 1})
	running := tracerPIDs(t)
	require.Len(t, running, 1)
	seconds := 60
	if testing.Short() {
		seconds = 10
	}
	idle := witness.StartCalls(t, running[0])
	idle.AwaitSeconds(t, seconds)
	calls := idle.Stop(t)
	t.Logf("system calls of %d idle seconds by number: %v", seconds, calls)
	require.Zero(t, calls[unix.SYS_BPF])
	require.Positive(t, calls[unix.SYS_WRITE], "it sends a Snapshot each second")

	awake := witness.StartCalls(t, running[0])
	a.Inject(t, verbs.EventQPFatal, 1)
	awaitApp(t, r, "victim", fields{"queued": 3, "read": 1, "unread": 2})
	require.Positive(t, awake.Stop(t)[unix.SYS_BPF])
	requireTracedParity(t, r)
}

// TestAKilledTracerIsAGapAndWhatWaitsIsStillCounted kills the tracer while events wait. The next one finds them.
func TestAKilledTracerIsAGapAndWhatWaitsIsStillCounted(t *testing.T) {
	r := startTraced(t)
	a := startNamed(t, "victim")
	a.Inject(t, verbs.EventQPFatal, 3)
	a.Hold(t, 1)
	awaitApp(t, r, "victim", fields{"queued": 3, "read": 1, "unread": 2})
	killed := tracerPIDs(t)
	require.Len(t, killed, 1)
	killProcess(t, killed[0])
	points := r.Await("another tracer", soonTraced, func(points []rig.Point) bool {
		now := rig.Last(points, "rdma_tracer")
		return now.Int("gaps") == 1 && now.Int("attached") == 1
	})
	require.Positive(t, rig.Last(points, "rdma_tracer").Int("blind_ns"))
	require.EqualValues(t, 1, rig.Last(points, "rdma_tracer").Int("restarts"))
	require.EqualValues(t, 1, rig.Last(points, "rdma_device", "device", device).Int("opens"), "the worker goes on")
	require.NotEqual(t, killed, tracerPIDs(t))
	a.Inject(t, verbs.EventQPFatal, 1)
	awaitApp(t, r, "victim", fields{"queued": 4, "read": 1, "unread": 3, "unread_errors": 3, "qp_fatal": 4})
	a.Read(t, 0)
	awaitApp(t, r, "victim", fields{"queued": 4, "read": 4, "unread": 0})
	require.Equal(t, 4, a.Counts().Read)
	requireTracedParity(t, r)
}

// tracerPIDs returns the running tracers.
func tracerPIDs(t *testing.T) []int {
	t.Helper()
	return rig.Executing(t, rig.Program(t, "RDMA_EVENTS_TRACER", "rdma-events-tracer"))
}

// TestProcessesThatComeAndGoAreAllCounted has processes that live for a moment and have one event each.
func TestProcessesThatComeAndGoAreAllCounted(t *testing.T) {
	r := startTraced(t)
	processes := 300
	if testing.Short() {
		processes = 60
	}
	read := 0
	for n := range processes {
		a := startNamed(t, "churn")
		a.Inject(t, verbs.EventQPFatal, 1)
		switch n % 3 {
		case 0:
			a.Read(t, 1)
			read += a.Counts().Read
			a.Close(t)
			a.Exit(t)
		case 1:
			a.Exit(t)
		case 2:
			a.Kill(t)
		}
	}
	points := awaitApp(t, r, "churn", fields{
		"processes": int64(processes), "queued": int64(processes), "qp_fatal": int64(processes), "read": int64(read),
		"discarded": int64(processes - read), "unread": 0,
	})
	require.Equal(t, processes/3, read)
	requireTracedParity(t, r)
	health := rig.Last(points, "rdma_tracer")
	require.Zero(t, health.Int("map_full"))
	require.Zero(t, health.Int("lost_records"))
	pids := map[int64]bool{}
	for _, e := range rig.Select(points, "rdma_app_event", "app", "churn") {
		pids[e.Int("pid")] = true
	}
	require.NotContains(t, pids, int64(-1), "each event came with its process")
}

// TestTwoPluginsTraceTheSameHost has two instances, of which one is killed.
func TestTwoPluginsTraceTheSameHost(t *testing.T) {
	first := startTraced(t)
	second := startAs(t, nil, withEvents, "250ms")
	awaitTraced(second)
	require.Len(t, tracerPIDs(t), 2)
	a := startNamed(t, "victim")
	a.Inject(t, verbs.EventQPFatal, 4)
	a.Read(t, 1)
	want := fields{"queued": 4, "read": 1, "unread": 3, "qp_fatal": 4}
	for _, r := range []*rig.Telegraf{first, second} {
		awaitApp(t, r, "victim", want)
		requireTracedParity(t, r)
	}
	second.Kill()
	guest.Eventually(t, "its tracer has ended", 20*time.Second, func() bool { return len(tracerPIDs(t)) == 1 })
	a.Read(t, 0)
	points := awaitApp(t, first, "victim", fields{"queued": 4, "read": 4, "unread": 0})
	require.Zero(t, rig.Last(points, "rdma_tracer").Int("gaps"))
}

// The kernel takes seconds to detach the hooks, which is no fault of the tracer.
func TestStoppingATracerIsNotReportedAsAKill(t *testing.T) {
	r := startTraced(t)
	a := startNamed(t, "victim")
	a.Inject(t, verbs.EventQPFatal, 1)
	awaitApp(t, r, "victim", fields{"queued": 1, "unread": 1})
	started := len(r.Log()) // a start beside other guests may be slow
	r.Stop()
	for _, line := range []string{"did not close its hooks", "cannot be killed", "tracer is slow to start", "tracer: supervision failed"} {
		require.NotContains(t, r.Log()[started:], line)
	}
	guest.Eventually(t, "the tracer has ended", 20*time.Second, func() bool { return len(tracerPIDs(t)) == 0 })
}

// A process that hangs may hold a device that has gone, so the tracer outlives the last device.
func TestTracerStaysWithoutADeviceWhileTheCoreIsLoaded(t *testing.T) {
	r := startTraced(t)
	first := tracerPIDs(t)
	require.Len(t, first, 1)
	guest.DeleteLink(t, device)
	r.Await("the device is gone, and the tracer has looked since", soonTraced, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_device", "device", device).Int("open") == 0 && rig.Last(points, "rdma_tracer").Int("attached") == 1
	})
	guest.AddLink(t, device, guest.Driver(), netdev)
	awaitOpens(r, device, 2)
	a := startNamed(t, "after")
	a.Inject(t, verbs.EventQPFatal, 2)
	points := awaitApp(t, r, "after", fields{"queued": 2, "unread": 2})
	require.Equal(t, first, tracerPIDs(t))
	require.Zero(t, rig.Last(points, "rdma_tracer").Int("gaps"))
	require.Zero(t, rig.Last(points, "rdma_tracer").Int("restarts"))
}

// workerComm is status.WorkerComm.
const workerComm = "rdma-ev-worker"

// rdma resource show names the thread that made an object.
func TestObjectsOfAWorkerHaveOneName(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	r := startAs(t, nil, `[[inputs.rdma_events]]
  [inputs.rdma_events.applications]
    objects = true
`, "250ms")
	// Queue pairs are listed once a minute, and the first list may be older than the probe.
	r.Await("the worker's objects", soonTraced, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_app", "device", device, "app", workerComm).Int("cqs") > 0
	})
	var found int
	for _, kind := range []string{"ctx", "pd", "cq", "qp"} {
		for _, o := range guest.Resources(t, kind, device) {
			if o["pid"] == nil {
				continue // the kernel's
			}
			require.Equal(t, workerComm, o["comm"], "%s %v", kind, o)
			found++
		}
	}
	require.Positive(t, found)
}

// TestTheDriverCoreIsUnloadedBesideATracer unloads what the tracer is attached to, and loads it again.
func TestTheDriverCoreIsUnloadedBesideATracer(t *testing.T) {
	r := startTraced(t)
	a := startNamed(t, "before")
	a.Inject(t, verbs.EventQPFatal, 1)
	awaitApp(t, r, "before", fields{"queued": 1, "unread": 1})
	a.Exit(t)
	guest.DeleteLink(t, device)
	guest.UnloadDriver(t, guest.Driver())
	if guest.HasModule("rdma_rxe") { // another test of this guest has loaded it, and it uses ib_uverbs
		guest.UnloadModule(t, "rdma_rxe")
	}
	guest.UnloadModule(t, "ib_uverbs")
	require.False(t, guest.HasModule("ib_uverbs"))
	points := r.Await("nothing is traced", soonTraced, func(points []rig.Point) bool {
		now := rig.Last(points, "rdma_tracer")
		return now.Int("attached") == 0 && now.Text("reason") == "no_device"
	})
	require.EqualValues(t, 1, rig.Last(points, "rdma_tracer").Int("gaps"))
	require.EqualValues(t, 1, appAsync(points, "before").Int("queued"))

	guest.AddLink(t, device, guest.Driver(), netdev)
	guest.LoadCore(t)
	awaitTraced(r)
	awaitOpens(r, device, 2)
	b := startNamed(t, "after")
	b.Inject(t, verbs.EventQPFatal, 2)
	b.Read(t, 0)
	points = awaitApp(t, r, "after", fields{"queued": 2, "read": 2})
	require.EqualValues(t, 1, appAsync(points, "before").Int("discarded"))
	rig.RequireCountersNeverFall(t, points)
}

// TestWhatAChildReadsIsReadOfItsParentsQueue has a child with its parent's descriptors. The name is that of the first event.
func TestWhatAChildReadsIsReadOfItsParentsQueue(t *testing.T) {
	r := startTraced(t)
	a := startNamed(t, "parent")
	a.Inject(t, verbs.EventQPFatal, 3)
	a.Fork(t)
	a.Rename(t, "renamed")
	require.Equal(t, 2, a.ReadInChild(t, 2).Read)
	points := awaitApp(t, r, "parent", fields{"processes": 1, "queued": 3, "read": 2, "unread": 1})
	require.NotContains(t, appNames(rig.Select(points, "rdma_app_async")), "child")
	require.NotContains(t, appNames(rig.Select(points, "rdma_app_async")), "renamed")
	a.EndChild(t)
	a.Crash(t)
	awaitApp(t, r, "parent", fields{"queued": 3, "read": 2, "discarded": 1, "unread": 0})
	requireTracedParity(t, r)
}
