//go:build guest

package app

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// device and netdev are the names of the device and the netdev.
const (
	device = "rdma0"
	netdev = "d0"
)

func startApp(t *testing.T) *App {
	t.Helper()
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	return Start(t, device)
}

func TestAnApplicationReadsAndHoldsWhatIsInjected(t *testing.T) {
	a := startApp(t)
	for _, typ := range []verbs.EventType{verbs.EventQPFatal, verbs.EventCQErr, verbs.EventSRQErr} {
		require.Positive(t, a.Inject(t, typ, 2))
	}
	a.Read(t, 1)
	a.Hold(t, 2)
	require.Equal(t, Counts{
		PID: a.PID(), QP: a.Counts().QP, Read: 3, Acked: 1, Held: 2,
		Types: map[verbs.EventType]int{verbs.EventQPFatal: 2, verbs.EventCQErr: 1},
	}, a.Counts())
	a.Read(t, 0)
	require.Equal(t, map[verbs.EventType]int{verbs.EventQPFatal: 2, verbs.EventCQErr: 2, verbs.EventSRQErr: 2}, a.Counts().Types)
	a.Acknowledge(t, 0)
	require.Equal(t, 6, a.Counts().Acked)
	a.Close(t)
	a.Exit(t)
}

// A destruction waits for what is held, and for nothing else.
func TestADestructionWaitsForItsAcknowledgements(t *testing.T) {
	for kind, typ := range map[string]verbs.EventType{"qp": verbs.EventQPFatal, "cq": verbs.EventCQErr, "srq": verbs.EventSRQErr} {
		t.Run(kind, func(t *testing.T) {
			a := startApp(t)
			number := a.Inject(t, typ, 3)
			a.Hold(t, 2)
			thread := a.Destroy(t, kind)
			require.Equal(t, 1, a.Counts().Destroying, "the third one is gone with the object")
			require.DirExists(t, "/proc/"+strconv.Itoa(a.PID())+"/task/"+strconv.Itoa(thread))
			numbers := map[string]string{"qp": "lqpn", "cq": "cqn", "srq": "srqn"}
			for _, o := range guest.Resources(t, kind, device) {
				require.NotEqualValues(t, number, o[numbers[kind]], "the kernel has destroyed it")
			}
			a.Acknowledge(t, 1)
			require.Equal(t, 1, a.Counts().Destroying, "one is missing")
			a.Acknowledge(t, 1)
			a.Join(t)
			require.Zero(t, a.Counts().Destroying)
			a.Close(t)
		})
	}
}

func TestADestructionWaitsForCompletionEventsToo(t *testing.T) {
	a := startApp(t)
	a.Complete(t, 3)
	require.Equal(t, 3, a.Counts().CompletionsAcked)
	a.HoldCompletions(t, 2)
	a.Destroy(t, "cq")
	require.Equal(t, 1, a.Counts().Destroying)
	a.AcknowledgeCompletions(t, 0)
	a.Join(t)
	require.Zero(t, a.Counts().Destroying)
	require.Equal(t, 5, a.Counts().CompletionsAcked)
}

func TestADestructionWithoutEventsDoesNotWait(t *testing.T) {
	a := startApp(t)
	for _, kind := range []string{"qp", "cq", "srq"} {
		a.Destroy(t, kind)
		require.Zero(t, a.Counts().Destroying, kind)
	}
	require.Zero(t, a.Counts().QP)
	require.EqualError(t, commandError(t, a, "destroy qp"), "destroy qp: error destroy: No such file or directory")
}

func TestADeviceCausesEventsByItself(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	a := startApp(t)
	a.Overflow(t, 3)
	a.Read(t, 3)
	a.Limit(t)
	a.Read(t, 1)
	require.Equal(t, map[verbs.EventType]int{verbs.EventCQErr: 3, verbs.EventSRQLimitReached: 1}, a.Counts().Types)
	a.Fail(t)
	for _, qp := range guest.Resources(t, "qp", device) {
		if qp["lqpn"] == float64(a.Number(t, "qp")) {
			require.Equal(t, "ERR", qp["state"])
		}
	}
	a.Close(t)
}

func TestAChildReadsWhatItsParentWouldHaveRead(t *testing.T) {
	a := startApp(t)
	a.Inject(t, verbs.EventQPFatal, 3)
	a.Read(t, 1)
	child := a.Fork(t)
	require.NotEqual(t, a.PID(), child)
	require.Equal(t, "child", processName(t, child))
	theirs := a.ReadInChild(t, 0)
	require.Equal(t, child, theirs.PID)
	require.Equal(t, 3, theirs.Read)
	a.Read(t, 0)
	require.Equal(t, 1, a.Counts().Read)
	a.EndChild(t)
	a.Rename(t, "other")
	require.Equal(t, "other", processName(t, a.PID()))
}

func commandError(t *testing.T, a *App, line string) error {
	t.Helper()
	_, err := a.ask(t, line)
	return err
}

func processName(t *testing.T, pid int) string {
	t.Helper()
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	require.NoError(t, err)
	return strings.TrimSpace(string(comm))
}

func TestAnApplicationCrashesAndHangs(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	Start(t, device).Crash(t)
	a := Start(t, device)
	a.Hang(t)
	a.Kill(t)
	b := Launch(t)
	require.EqualError(t, commandError(t, b, "open rdma9"), "open rdma9: error ibv_open_device: No such device")
	require.EqualError(t, commandError(t, b, "read 0 ack"), "read 0 ack: error read: No such device")
	require.EqualError(t, commandError(t, b, "nonsense"), "nonsense: error parse the line: Invalid argument")
}
