package tracer

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer/proto"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

func pythonProcess() identity.Process {
	return identity.Process{PID: 4711, Start: 98765, Comm: "python3", Unit: "pod_3f2a"}
}

// fullUpdate returns an Update in which every field is set.
func fullUpdate() *trace.Update {
	a := trace.App{
		Device: "mlx5_0", Process: pythonProcess(), Read: 2, Discarded: 3, Skipped: 4, Unread: 5, UnreadErrors: 6, UnreadSince: 7,
		DestroyedUnacked: 8, Delays: 9, DelaySum: 10, DelayMax: 11, Ended: true,
	}
	for i := range a.Queued {
		a.Queued[i], a.Found[i] = uint64(20+i), uint64(50+i)
	}
	return &trace.Update{
		Mono: 1, Apps: []trace.App{a}, Lost: 12, Full: 13, Processes: 14,
		Events: []trace.Event{{Device: "mlx5_0", Process: pythonProcess(), Type: verbs.EventQPFatal, Number: 284, At: 15}},
		Hangs: []trace.Hang{{
			Device: "mlx5_1", Process: pythonProcess(), Thread: 4712, Object: verbs.ScopeQP, Number: 285, Since: 16, Missing: 17,
			Proof: trace.ProofAsleep,
		}},
	}
}

// requireFull fails for a field that is not set, because the test would not notice if the conversion omitted it.
func requireFull(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	require.False(t, v.IsZero(), name)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			requireFull(t, v.Field(i), name+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			requireFull(t, v.Index(i), name)
		}
	case reflect.Pointer:
		requireFull(t, v.Elem(), name)
	}
}

func throughWire[M any, PM interface {
	*M
	pb.Message
}](t *testing.T, in PM) PM {
	t.Helper()
	raw, err := pb.Marshal(in)
	require.NoError(t, err)
	out := PM(new(M))
	require.NoError(t, pb.Unmarshal(raw, out))
	return out
}

func TestEveryFieldCrossesTheBoundary(t *testing.T) {
	s := fullUpdate()
	requireFull(t, reflect.ValueOf(s), "Snapshot")
	require.Equal(t, message{update: s}, messageFromProto(throughWire(t, updateToProto(s))))

	a := trace.Attached{Hooks: "kprobe", Missing: []string{"ib_uverbs_release_ucq"}, Load: time.Second}
	requireFull(t, reflect.ValueOf(a), "Attached")
	require.Equal(t, message{attached: &a}, messageFromProto(throughWire(t, attachedToProto(a))))

	r := trace.Request{
		Backend: "sim", HangAfter: time.Second,
		Sim: verbs.Simulation{Profile: "dual", Scenario: "/etc/a.toml", Seed: -1, Epoch: 5},
	}
	requireFull(t, reflect.ValueOf(r), "Request")
	m := throughWire(t, requestToProto(r))
	require.Equal(t, r, requestFromProto(m))
	require.EqualValues(t, contractVersion, m.GetVersion())
}

func TestAQuietSecondIsAHeartbeat(t *testing.T) {
	want := &trace.Update{Mono: 7}
	require.Equal(t, message{update: want}, messageFromProto(throughWire(t, updateToProto(want))))
}

func TestEventsStayInTheirOrder(t *testing.T) {
	s := &trace.Update{}
	for i := range 100 {
		s.Events = append(s.Events, trace.Event{Device: "mlx5_0", Process: pythonProcess(), Number: uint32(i % 7), At: int64(i)})
	}
	require.Equal(t, s, updateFromProto(updateToProto(s).GetSnapshot()))
}

func TestWhatFoundNoPlaceHasNoName(t *testing.T) {
	s := fullUpdate()
	s.Apps[0].Process = identity.Process{}
	require.Equal(t, s, updateFromProto(updateToProto(s).GetSnapshot()))
	s.Apps[0].Process = identity.Process{Start: 1, Comm: "x", Unit: "y"}
	require.Zero(t, updateFromProto(updateToProto(s).GetSnapshot()).Apps[0].Process)
}

func TestAnUnknownKindOfMessageIsEmpty(t *testing.T) {
	require.Equal(t, message{}, messageFromProto(&proto.Message{}))
	require.Equal(t, message{}, messageFromProto(nil))
}

func TestAHostTakesBoundedMessages(t *testing.T) {
	one := updateToProto(fullUpdate()).GetSnapshot()
	m := &proto.Snapshot{Processes: 1 << 40}
	for range 10_000 {
		m.Apps = append(m.Apps, one.GetApps()...)
		m.Events = append(m.Events, one.GetEvents()...)
		m.Hangs = append(m.Hangs, one.GetHangs()...)
	}
	s := updateFromProto(m)
	require.Len(t, s.Apps, trace.MaxApps)
	require.Len(t, s.Events, trace.MaxEvents)
	require.Len(t, s.Hangs, trace.MaxHangs)
	require.Equal(t, maxPID, s.Processes)

	a := attachedFromProto(&proto.Attached{
		Hooks: strings.Repeat("k", 1000), Missing: make([]string, 1000), LoadNs: -1,
	})
	require.Len(t, a.Hooks, maxHooks)
	require.Len(t, a.Missing, maxFunctions)
	require.Zero(t, a.Load)
	require.Equal(t, []string{"a b" + strings.Repeat("c", maxFunctionName-3)},
		attachedFromProto(&proto.Attached{Missing: []string{"a\nb" + strings.Repeat("c", 1000)}}).Missing)
}

// The largest valid message is smaller than the limit of the host.
func TestTheLargestSnapshotIsRead(t *testing.T) {
	const most = ^uint64(0)
	who := &proto.Process{Pid: maxPID, Start: most, Comm: strings.Repeat("c", 64), Unit: strings.Repeat("u", 255)}
	device := strings.Repeat("d", maxDeviceName)
	m := &proto.Snapshot{Mono: -1, Lost: most, Full: most, Processes: maxPID}
	for range trace.MaxApps {
		a := &proto.App{
			Device: device, Process: who, Read: most, Discarded: most, Skipped: most, Unread: most, UnreadErrors: most,
			UnreadSince: -1, DestroyedUnacked: most, Delays: most, DelaySum: -1, DelayMax: -1, Ended: true,
		}
		for range trace.Types {
			a.Queued = append(a.Queued, most)
		}
		m.Apps = append(m.Apps, a)
	}
	for range trace.MaxEvents {
		m.Events = append(m.Events, &proto.Event{Device: device, Process: who, Type: int32(verbs.EventWQFatal), Number: 1 << 31, At: -1})
	}
	for range trace.MaxHangs {
		m.Hangs = append(m.Hangs, &proto.Hang{
			Device: device, Process: who, Thread: maxPID, Object: int32(verbs.ScopeWQ), Number: 1 << 31, Since: -1, Missing: 1 << 31,
			Proof: string(trace.ProofWaiting),
		})
	}
	require.Less(t, pb.Size(&proto.Message{What: &proto.Message_Snapshot{Snapshot: m}}), maxMessage)
	s := updateFromProto(m)
	require.Len(t, s.Apps, trace.MaxApps)
	require.Len(t, s.Events, trace.MaxEvents)
	require.Len(t, s.Hangs, trace.MaxHangs)
}

func TestWhatCannotBeIsLeftOut(t *testing.T) {
	for name, spoil := range map[string]func(*proto.App, *proto.Event, *proto.Hang){
		"no device": func(a *proto.App, e *proto.Event, h *proto.Hang) { a.Device, e.Device, h.Device = "", "", "" },
		"a device that is a path": func(a *proto.App, e *proto.Event, h *proto.Hang) {
			a.Device, e.Device, h.Device = "../x", "a/b", ".."
		},
		"a device with a newline": func(a *proto.App, e *proto.Event, h *proto.Hang) {
			a.Device, e.Device, h.Device = "a\nb", "a b", "a\x7f"
		},
		"a long device": func(a *proto.App, e *proto.Event, h *proto.Hang) {
			long := strings.Repeat("d", 64)
			a.Device, e.Device, h.Device = long, long, long
		},
		"no process number": func(a *proto.App, e *proto.Event, h *proto.Hang) {
			a.Process.Pid, e.Process.Pid, h.Process.Pid = -1, maxPID+1, 1<<40
		},
		"no type, no object": func(a *proto.App, e *proto.Event, h *proto.Hang) {
			a.Device, e.Type, h.Object = "", int32(trace.Types), int32(verbs.ScopePort)
		},
		"an object that wraps": func(a *proto.App, e *proto.Event, h *proto.Hang) {
			a.Device, e.Type, h.Object = "", -1, 256+int32(verbs.ScopeQP)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := updateToProto(fullUpdate()).GetSnapshot()
			spoil(m.GetApps()[0], m.GetEvents()[0], m.GetHangs()[0])
			s := updateFromProto(m)
			require.Empty(t, s.Apps)
			require.Empty(t, s.Events)
			require.Empty(t, s.Hangs)
			require.EqualValues(t, 12, s.Lost, "the rest stays")
		})
	}
}

func TestNamesAreClean(t *testing.T) {
	m := updateToProto(fullUpdate()).GetSnapshot()
	p := m.GetApps()[0].GetProcess()
	p.Comm, p.Unit = "a\nb", "pod 7"
	require.Equal(t, identity.Process{PID: 4711, Start: 98765, Comm: "a b"}, updateFromProto(m).Apps[0].Process)
	p.Comm, p.Unit = "", strings.Repeat("u", 256)
	require.Equal(t, identity.Process{PID: 4711, Start: 98765, Comm: "unknown"}, updateFromProto(m).Apps[0].Process)

	m.GetHangs()[0].Proof = "certain"
	require.Equal(t, trace.ProofWaiting, updateFromProto(m).Hangs[0].Proof)
}

func TestBytesThatAreNoTextDoNotEndTheStream(t *testing.T) {
	s := fullUpdate()
	s.Apps[0].Process.Comm = "py\xff"
	got := messageFromProto(throughWire(t, updateToProto(s)))
	require.Equal(t, "py?", got.update.Apps[0].Process.Comm)
	got = messageFromProto(throughWire(t, attachedToProto(trace.Attached{Hooks: "\xfe", Missing: []string{"\x80"}})))
	require.Equal(t, &trace.Attached{Hooks: "?", Missing: []string{"?"}}, got.attached)
	got = messageFromProto(throughWire(t, endToProto(status.End{Reason: status.ReasonLimit, Message: "a\x80\nb"})))
	require.Equal(t, &status.End{Reason: status.ReasonLimit, Message: "a? b"}, got.end)
}
