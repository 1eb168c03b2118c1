package worker

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// notes is a Handler that records its calls.
type notes struct {
	calls   []string
	items   []string
	led     *ledger.Ledger
	collect func()
	last    ledger.Contents // taken when the worker had ended
}

func (n *notes) Started(l *ledger.Ledger, collect func()) {
	n.led, n.collect, n.calls = l, collect, append(n.calls, "started")
}
func (n *notes) Status(s status.Status) { n.calls = append(n.calls, "status "+string(s.State)) }
func (n *notes) Batch(b verbs.Batch, s status.Status) {
	n.calls = append(n.calls, "batch, "+string(s.State))
	n.recordItems(b.Items)
}

func (n *notes) RingItems(items []verbs.Item) {
	n.calls = append(n.calls, "ring items")
	n.recordItems(items)
}

func (n *notes) recordItems(items []verbs.Item) {
	for _, it := range items {
		switch {
		case it.Run != nil:
			n.items = append(n.items, fmt.Sprintf("%d %v", it.Run.Count, it.Run.Type))
		case it.Round != nil:
			n.items = append(n.items, it.Round.Outcome.String())
		case it.Reading != nil:
			n.items = append(n.items, "reading")
		}
	}
}

func (n *notes) Ended(e status.End) {
	n.led.CopyTo(&n.last)
	n.calls = append(n.calls, "ended "+string(e.Reason))
}

func newAttempt(t *testing.T) (*contract, process.Attempt[message], *notes, *os.File) {
	t.Helper()
	n := &notes{}
	c := &contract{request: verbs.Request{Options: verbs.Options{Device: "mlx5_0"}}, handler: n}
	a, shared, err := c.Begin()
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, f := range shared {
			require.NoError(t, f.Close())
		}
	})
	return c, a, n, shared[0]
}

// The handler gets the items of a batch and the events of the ring in the order in which the worker observed them, and nothing
// before it knows that the device is open.
func TestEventsComeBeforeWhatWasSeenAfterThem(t *testing.T) {
	_, a, n, shared := newAttempt(t)
	theirs, err := ledger.Open(shared)
	require.NoError(t, err)
	defer theirs.Close()
	event := func(typ verbs.EventType, count uint64) {
		theirs.Count(int32(typ), 1, count, count)
		theirs.WriteRun(ledger.Run{Type: int32(typ), Port: 1, Count: count, First: 1, Last: 1})
	}
	slot, err := theirs.AddProbe(1, 0, int(verbs.MethodUDSend))
	require.NoError(t, err)
	event(verbs.EventPortErr, 3)
	n.collect()
	require.Empty(t, n.items, "the device is not known to be open")
	reading := verbs.Item{Reading: &verbs.Reading{Port: 1}, After: theirs.RunsWritten()}
	event(verbs.EventPortActive, 4)
	theirs.WriteRound(slot, ledger.Round{Outcome: int32(verbs.OutcomeLostEvent), Start: 1}, true)
	a.Take(message{batch: verbs.Batch{Items: append(openedBatch().Items, reading)}}, status.Status{})
	require.Equal(t, []string{"3 port_err", "reading", "4 port_active", "lost_event"}, n.items)
	n.items = nil
	n.collect()
	require.Empty(t, n.items, "nothing is handed on twice")
	event(verbs.EventPortErr, 5)
	n.collect()
	event(verbs.EventPortErr, 6)
	a.Ended(status.End{})
	require.Equal(t, []string{"5 port_err", "6 port_err"}, n.items, "the last events of a worker that died")
	n.collect()
	require.Equal(t, []string{"started", "batch, ", "ring items", "ring items", "ended "}, n.calls)
}

func TestABatchComesWithTheStatusThatFollowsFromIt(t *testing.T) {
	c, a, n, _ := newAttempt(t)
	running := status.Status{State: status.StateRunning, PID: 7}
	c.Status(status.Status{State: status.StateStarting})
	a.Take(message{batch: openedBatch()}, running)
	a.Take(message{}, running)
	a.Ended(status.End{Reason: status.ReasonRemoved})
	require.Equal(t, []string{"started", "status starting", "batch, running", "batch, running", "ended removed"}, n.calls)
}

func TestTheLedgerOfAnEndedWorkerHasItsLastCounts(t *testing.T) {
	_, a, n, shared := newAttempt(t)
	theirs, err := ledger.Open(shared)
	require.NoError(t, err)
	theirs.Count(int32(verbs.EventPortErr), 1, 3, 2)
	require.NoError(t, theirs.Close())
	a.Ended(status.End{})
	require.Equal(t, []ledger.EventCounts{{Type: int32(verbs.EventPortErr), Port: 1, Read: 3, Acked: 2}}, n.last.Events)
}

func TestACallIsTakenFromTheLedger(t *testing.T) {
	_, a, n, _ := newAttempt(t)
	require.Equal(t, process.Call{}, a.Busy(nil))
	since := clock.Monotonic()
	n.led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Thread: 7, Since: since})
	require.Equal(t, process.Call{Name: "ibv_query_port", Since: since}, a.Busy(nil))
	held := func(thread int) bool { return thread == 7 }
	require.Equal(t, process.Call{}, a.Busy(held))
	n.led.SetReaderCall(ledger.CallAckAsyncEvent, since+1)
	require.Equal(t, process.Call{Name: "ibv_ack_async_event", Since: since + 1}, a.Busy(held))
	a.Ended(status.End{})
}

func TestASignalIsOfACallIntoTheLibrary(t *testing.T) {
	_, a, n, _ := newAttempt(t)
	since := clock.Monotonic()
	for _, call := range []ledger.Call{ledger.CallReadSysfs, ledger.CallEthtool} {
		n.led.SetEvidenceCall(ledger.ThreadCall{Call: call, Port: 1, Thread: 7, Since: since})
		require.Equal(t, process.Call{}, a.Faulted())
		n.led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Thread: 8, Since: since + 1})
		require.Equal(t, process.Call{Name: "ibv_query_port", Since: since + 1}, a.Faulted(), "it began later")
		n.led.SetControlCall(ledger.ThreadCall{})
	}
	a.Ended(status.End{})
}

func TestAMessageSaysWhetherItsWorkerRunsOrEnds(t *testing.T) {
	var a attempt
	require.Equal(t, process.Sign{}, a.Sign(message{batch: verbs.Batch{Items: []verbs.Item{{Run: &verbs.Run{}}}}}))
	require.Equal(t, process.Sign{Running: true}, a.Sign(message{batch: openedBatch()}))
	for retry, reasons := range map[process.Retry][]status.Reason{
		process.OnWake: {status.ReasonRemoved, status.ReasonRenamed},
		process.Slowly: {
			status.ReasonNoLibrary, status.ReasonNoPermission, status.ReasonNoDevice, status.ReasonUnsupported,
			status.ReasonExcludedNetns, status.ReasonLimit,
		},
		process.Rarely: {status.ReasonUnwatchable},
		process.Soon:   {status.ReasonCrashed, status.ReasonStuck, status.ReasonRecovering},
	} {
		for _, why := range reasons {
			end := &status.End{Reason: why, Message: "m"}
			require.Equal(t, process.Sign{End: end, Retry: retry}, a.Sign(message{end: end}))
		}
	}
}

func TestExpectedDeviceIsNeverUnwatchable(t *testing.T) {
	for expected, want := range map[bool]status.Reason{false: status.ReasonUnwatchable, true: status.ReasonUnsupported} {
		c := contract{expected: func() bool { return expected }}
		end := status.End{Reason: status.ReasonUnwatchable}
		c.faultIfExpected(&end)
		require.Equal(t, want, end.Reason)
		end.Reason = status.ReasonLimit
		c.faultIfExpected(&end)
		require.Equal(t, status.ReasonLimit, end.Reason)
		c.faultIfExpected(nil)
	}
}

func TestAWorkerGetsOfTheHostsEnvironmentWhatLibrariesRead(t *testing.T) {
	kept := []string{
		"PATH=/bin", "LD_LIBRARY_PATH=/opt/rdma", "RDMAV_ALLOW_DISASSOC_DESTROY=1", "MLX5_SINGLE_THREADED=1",
		"VERBS_LOG_LEVEL=4", "IBV_SHOW_WARNINGS=1",
	}
	host := append([]string{"TELEGRAF_SECRET=hush", "HOME=/root", "GODEBUG=gctrace=1", "GOGC=1"}, kept...)
	require.Equal(t, append([]string{"GODEBUG=asyncpreemptoff=1"}, kept...), inheritedEnvironment(host))
}

func TestFilesThatAWorkerReadsReachItsNeeds(t *testing.T) {
	require.Empty(t, readEnvironment(nil))
	require.Equal(t, []string{readKey + "=/etc/a.toml:/etc/b.toml"}, readEnvironment([]string{"/etc/a.toml", "/etc/b.toml"}))
	t.Setenv(readKey, "/etc/a.toml:/etc/b.toml")
	c := ServeConfig{Needs: func() confine.Needs { return confine.Needs{Read: []string{"/lib"}} }}
	require.Equal(t, []string{"/lib", "/etc/a.toml", "/etc/b.toml"}, c.workerNeeds().Read)
}

func TestAWorkerWithoutItsLedgerDoesNotServe(t *testing.T) {
	shared, err := os.Open(os.DevNull)
	require.NoError(t, err)
	bell, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer bell.Close()
	_, err = ServeConfig{}.service(process.Inherited{Shared: []*os.File{shared, bell}})
	require.ErrorContains(t, err, "open ledger")
	_, err = shared.Read(nil)
	require.ErrorIs(t, err, os.ErrClosed)
}
