package tracer

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer/proto"
	"rdma_events/internal/sys/status"
)

// toProto is the inverse of messageFromProto.
func toProto(m message) *proto.Message {
	switch {
	case m.attached != nil:
		return attachedToProto(*m.attached)
	case m.update != nil:
		return updateToProto(m.update)
	case m.end != nil:
		return endToProto(*m.end)
	}
	return &proto.Message{}
}

// Values accepted from arbitrary bytes are within the limits, and remain the same when they are encoded and decoded again.
func FuzzNoBytesOfATracerLeaveTheLimits(f *testing.F) {
	for _, m := range []message{
		{update: fullUpdate()},
		{attached: &trace.Attached{Hooks: "kprobe", Missing: []string{"ib_uverbs_release_ucq"}, Load: 5}},
		{end: &status.End{Reason: status.ReasonLimit, Message: "no room"}},
		{},
	} {
		seed, err := pb.Marshal(toProto(m))
		require.NoError(f, err)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m proto.Message
		if pb.Unmarshal(raw, &m) != nil {
			return
		}
		got := messageFromProto(&m)
		if s := got.update; s != nil {
			requireBounded(t, s)
		}
		require.Equal(t, got, messageFromProto(throughWire(t, toProto(got))))
	})
}

func requireBounded(t *testing.T, s *trace.Update) {
	t.Helper()
	require.LessOrEqual(t, len(s.Apps), trace.MaxApps)
	require.LessOrEqual(t, len(s.Events), trace.MaxEvents)
	require.LessOrEqual(t, len(s.Hangs), trace.MaxHangs)
	require.GreaterOrEqual(t, s.Processes, 0)
	for i := range s.Apps {
		require.True(t, isDevice(s.Apps[i].Device))
		require.LessOrEqual(t, len(s.Apps[i].Process.Comm), 64)
		require.LessOrEqual(t, len(s.Apps[i].Process.Unit), 255)
	}
	for i := range s.Events {
		require.True(t, isDevice(s.Events[i].Device) && s.Events[i].Type.Known())
	}
	for i := range s.Hangs {
		require.True(t, isDevice(s.Hangs[i].Device) && s.Hangs[i].Thread >= 0)
	}
}

func FuzzARequestOfAnyBytesStaysTheSame(f *testing.F) {
	seed, err := pb.Marshal(requestToProto(trace.Request{Backend: "sim", HangAfter: 5}))
	require.NoError(f, err)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m proto.Request
		if pb.Unmarshal(raw, &m) == nil {
			r := requestFromProto(&m)
			require.Equal(t, r, requestFromProto(throughWire(t, requestToProto(r))))
		}
	})
}

// The variable is parsed by a process with privileges.
func FuzzSettingsAreAcceptedAsWrittenAlone(f *testing.F) {
	f.Add(Settings{}.encode())
	f.Add(Settings{Hooks: HooksKprobe}.encode())
	f.Add(Settings{Hooks: HooksKprobe, Reads: []string{"/etc/a.toml"}}.encode())
	f.Add(`{"hooks":"kprobe","reads":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSettings(text)
		if err != nil {
			require.Zero(t, s)
			return
		}
		require.Equal(t, text, s.encode())
		require.Contains(t, append(AllHooks(), ""), s.Hooks)
	})
}
