package live

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/schema"
)

func appEvent(typ verbs.EventType, number uint32, n uint64) *measure.AppEvent {
	return &measure.AppEvent{
		Device: "mlx5_0", App: "python3", Type: typ, Count: n, PID: 4711, Number: number, Unit: "pod_3f2a", At: timeAt(977),
	}
}

// appAsync returns the event counters of an application some time after the start. Its oldest unread error has waited for age.
func appAsync(after, age time.Duration, errors, read, discarded uint64) *measure.AppAsync {
	a := &measure.AppAsync{
		Device: "mlx5_0", App: "python3", Unread: errors, UnreadErrors: errors, UnreadAge: int64(age), At: timeAt(977).Add(after),
	}
	a.Read, a.Discarded = read, discarded
	return a
}

func appHang(after time.Duration, threads int) *measure.AppHang {
	h := &measure.AppHang{Device: "mlx5_0", App: "python3", Object: verbs.ScopeQP, Threads: threads, At: timeAt(977).Add(after)}
	if threads > 0 {
		h.Age, h.Missing, h.PID, h.TID, h.Number = int64(after), 1, 4711, 4713, 284
		h.Unit, h.Proof = "pod_3f2a", trace.ProofAsleep
	}
	return h
}

func tracerView(attached bool, why status.Reason, gaps uint64, blind time.Duration) *measure.Tracer {
	return &measure.Tracer{
		Attached: attached, Hooks: "kprobe", Missing: 1, Worker: status.Status{Reason: why}, Gaps: gaps, Blind: int64(blind), At: timeAt(0),
	}
}

// failingApplication returns the points of an application that has an error, does not read it, hangs, and finally reads
// it.
func failingApplication() []measure.Point {
	const s = time.Second
	return []measure.Point{
		tracerView(false, status.ReasonStarting, 0, 0), tracerView(true, status.ReasonOK, 0, 0), tracerView(true, status.ReasonOK, 0, 0),
		appEvent(verbs.EventQPFatal, 284, 1), appEvent(verbs.EventQPReqErr, 0, 3),
		appAsync(9*s, 9*s, 1, 4, 0), appAsync(10*s, 10*s+s/2, 1, 4, 0), appAsync(11*s, 11*s, 2, 4, 0),
		appHang(12*s, 1), appHang(13*s, 1), appHang(14*s, 2), appHang(15*s, 0), appHang(16*s, 0),
		appAsync(42*s, 0, 0, 6, 0), appAsync(43*s, 0, 0, 6, 0),
		appAsync(60*s, 60*s, 3, 6, 0), appAsync(70*s, 0, 0, 6, 3),
	}
}

// showApplications passes points of applications to a Screen as a monitor does, and returns the output.
func showApplications(t *testing.T, c Config, points []measure.Point) string {
	t.Helper()
	return runScreen(t, c, gatherNothing, func(s *Screen) {
		for _, p := range points {
			s.Emit(p)
		}
	})
}

func TestWhatAnApplicationExperiencesIsShownWithItsEnd(t *testing.T) {
	require.Equal(t, `17:00:00.000000              applications traced: kprobe, 1 hook missing
17:00:00.977000  mlx5_0      python3[4711] pod_3f2a  qp_fatal  qp 284
17:00:00.977000  mlx5_0      python3[4711] pod_3f2a  qp_req_err  (3 times)
17:00:10.977000  mlx5_0      python3              not read for 10s
17:00:12.977000  mlx5_0      python3[4711] pod_3f2a  hangs in destroy of qp 284, 1 ack missing
17:00:14.977000  mlx5_0      python3[4711] pod_3f2a  hangs in destroy of qp 284, 1 ack missing, 2 threads
17:00:15.977000  mlx5_0      python3[4711] pod_3f2a  no longer hangs in destroy of qp 284, after 15s
17:00:42.977000  mlx5_0      python3              read after 42s
17:01:00.977000  mlx5_0      python3              not read for 1m0s, 3 errors
17:01:10.977000  mlx5_0      python3              discarded unread after 1m10s
`, showApplications(t, Config{Apps: true}, failingApplication()))
}

func TestTheJSONOfApplicationsIsAsItsSchemaSays(t *testing.T) {
	text := showApplications(t, Config{Apps: true, JSON: true}, failingApplication())
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Len(t, lines, 10)
	for _, line := range lines {
		schema.Require(t, "watch", line)
	}
	for i, want := range map[int]string{
		0: `"kind":"tracer","reason":"ok","tracer":{"attached":true,"hooks":"kprobe","hooks_missing":1}}`,
		1: `"kind":"app_event","device":"mlx5_0","event":"qp_fatal","count":1,` +
			`"app":{"name":"python3","pid":4711,"unit":"pod_3f2a","object":"qp","number":284}}`,
		3: `"kind":"app_unread","device":"mlx5_0","app":{"name":"python3"},"unread":{"errors":1,"age_ns":10500000000}}`,
		4: `"hang":{"threads":1,"tid":4713,"missing":1,"age_ns":12000000000,"proof":"asleep"}}`,
		6: `"app":{"name":"python3","pid":4711,"unit":"pod_3f2a","object":"qp","number":284},` +
			`"hang":{"threads":0,"tid":4713,"lasted_ns":15000000000}}`,
		7: `"unread":{"errors":0,"lasted_ns":42500000000,"end":"read"}}`,
	} {
		require.Contains(t, lines[i], want)
	}
}

func TestApplicationsAreShownOnlyWhereTheyAreAskedFor(t *testing.T) {
	gather := func(time.Time) []measure.Point { return failingApplication() }
	wait := func(s *Screen) {
		emitDrop(s)
		<-time.After(1500 * time.Millisecond)
	}
	require.Equal(t, runScreen(t, Config{}, gatherNothing, wait), runScreen(t, Config{}, gather, func(s *Screen) {
		for _, p := range failingApplication() {
			s.Emit(p)
		}
		wait(s)
	}))
}

// Unread errors and hangs of applications are in the points of an interval, among points that do not change.
func TestOfAnIntervalOnlyWhatIsNewOfApplicationsIsShown(t *testing.T) {
	gather := func(time.Time) []measure.Point {
		return []measure.Point{
			deviceView("mlx5_0", true, status.ReasonOK), portView("mlx5_0", verbs.PortActive), &measure.App{Device: "mlx5_0", App: "python3"},
			appAsync(10*time.Second, 10*time.Second, 1, 4, 0), appHang(12*time.Second, 1), tracerView(true, status.ReasonOK, 0, 0),
		}
	}
	require.Equal(t, `17:00:00.000000              applications traced: kprobe, 1 hook missing
17:00:10.977000  mlx5_0      python3              not read for 10s
17:00:12.977000  mlx5_0      python3[4711] pod_3f2a  hangs in destroy of qp 284, 1 ack missing
`, runScreen(t, Config{Apps: true}, gather, func(*Screen) { <-time.After(3500 * time.Millisecond) }))
}

func TestATracerThatIsNotAttachedIsShownWithItsReason(t *testing.T) {
	require.Equal(t, `17:00:00.000000              applications not traced: no_permission
17:00:00.000000              applications traced: kprobe, 1 hook missing
17:00:00.000000              applications traced: kprobe, 1 hook missing, not for 3.1s before
17:00:00.000000              applications not traced: crashed
`, showApplications(t, Config{Apps: true}, []measure.Point{
		tracerView(false, status.ReasonNoPermission, 0, 0), tracerView(false, status.ReasonNoPermission, 0, 0),
		tracerView(true, status.ReasonOK, 0, 0), tracerView(true, status.ReasonOK, 1, 3100*time.Millisecond),
		tracerView(false, status.ReasonCrashed, 2, 3100*time.Millisecond),
	}))
}

// A program can have any name, and a compromised tracer can report any text.
func TestANameThatCommandsATerminalIsShownHarmless(t *testing.T) {
	const hostile = "\x1b]0;x\x07\u009b2J\nE! all is lost"
	event, unread, hangs := appEvent(verbs.EventQPFatal, 284, 1), appAsync(10*time.Second, 10*time.Second, 1, 0, 0), appHang(time.Second, 1)
	seen := tracerView(true, status.ReasonOK, 0, 0)
	event.Device, event.App, event.Unit, seen.Hooks = hostile, hostile, hostile, hostile
	unread.Device, unread.App, unread.Unit = hostile, hostile, hostile
	hangs.Device, hangs.App, hangs.Unit = hostile, hostile, hostile
	over := appHang(2*time.Second, 0)
	over.Device, over.App = hostile, hostile
	got := showApplications(t, Config{Apps: true}, []measure.Point{event, unread, hangs, over, seen})
	require.Equal(t, 5, strings.Count(got, "\n"), got)
	require.NotContains(t, got, "\x1b")
	require.NotContains(t, got, "\x07")
	require.NotContains(t, got, "\u009b")
	require.Contains(t, got, "?]0;x??2J?E! all is lost[4711] ")
}
