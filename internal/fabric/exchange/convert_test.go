package exchange

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange/proto"
	"rdma_events/internal/fabric/verdict"
)

// throughWire encodes and decodes a message.
func throughWire[M pb.Message](t *testing.T, m M) M {
	t.Helper()
	raw, err := pb.Marshal(m)
	require.NoError(t, err)
	got := m.ProtoReflect().New().Interface().(M)
	require.NoError(t, pb.Unmarshal(raw, got))
	return got
}

// invalidPortChanges returns changes with which a hostile host could make a port invalid.
func invalidPortChanges() map[string]func(*proto.Port) {
	gid := func(raw ...byte) func(*proto.Port) {
		return func(p *proto.Port) { p.Gids[0].Raw = raw }
	}
	v4 := func(a, b, c, d byte) func(*proto.Port) {
		return gid(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d)
	}
	return map[string]func(*proto.Port){
		"no device":                       func(p *proto.Port) { p.Device = "" },
		"a device that is a directory":    func(p *proto.Port) { p.Device = ".." },
		"a device with a slash":           func(p *proto.Port) { p.Device = "a/b" },
		"a device with a newline":         func(p *proto.Port) { p.Device = "mlx5_0\nE! forged" },
		"a device with a blank":           func(p *proto.Port) { p.Device = "mlx5 0" },
		"a device that turns the line":    func(p *proto.Port) { p.Device = "mlx5_\u202e0" },
		"a device with a long name":       func(p *proto.Port) { p.Device = strings.Repeat("m", 64) },
		"port 0":                          func(p *proto.Port) { p.Port = 0 },
		"port 256":                        func(p *proto.Port) { p.Port = 256 },
		"a port of 32 bits":               func(p *proto.Port) { p.Port = 1<<32 - 1 },
		"no epoch":                        func(p *proto.Port) { p.Epoch = 0 },
		"a position beyond all":           func(p *proto.Port) { p.Position = 1024 },
		"no link layer":                   func(p *proto.Port) { p.LinkLayer = 0 },
		"a link layer of 2030":            func(p *proto.Port) { p.LinkLayer = 3 },
		"a link layer that wraps":         func(p *proto.Port) { p.LinkLayer = 256 + 1 },
		"a LID of multicast":              func(p *proto.Port) { p.Lid = 0xc000 },
		"a LID of 17 bits":                func(p *proto.Port) { p.Lid = 1 << 16 },
		"an MTU of 1500":                  func(p *proto.Port) { p.Mtu = 1500 },
		"an MTU of 8192":                  func(p *proto.Port) { p.Mtu = 8192 },
		"a P_Key of 17 bits":              func(p *proto.Port) { p.Pkey = 1 << 16 },
		"a Q_Key with the top bit":        func(p *proto.Port) { p.Qkey = 1 << 31 },
		"no UD queue pair":                func(p *proto.Port) { p.Ud = nil },
		"five UD queue pairs":             func(p *proto.Port) { p.Ud = []uint32{2, 3, 4, 5, 6} },
		"the subnet manager's queue pair": func(p *proto.Port) { p.Ud[2] = 0 },
		"that of the general services":    func(p *proto.Port) { p.Ud[3] = 1 },
		"a queue pair of 25 bits":         func(p *proto.Port) { p.Ud[0] = 1 << 24 },
		"65 GIDs":                         func(p *proto.Port) { p.Gids = make([]*proto.Gid, 65) },
		"a GID of nothing":                func(p *proto.Port) { p.Gids[1] = nil },
		"a GID of 15 bytes":               gid(make([]byte, 15)...),
		"a GID of 17 bytes":               gid(make([]byte, 17)...),
		"a GID of zeros":                  gid(make([]byte, 16)...),
		"a GID of multicast":              gid([]byte{0xff, 0x0e, 15: 1}...),
		"a GID of IPv4 multicast":         v4(224, 0, 0, 1),
		"a GID of all hosts":              v4(255, 255, 255, 255),
		"a GID of no host":                v4(0, 0, 0, 0),
		"a GID of this host":              v4(127, 0, 0, 1),
		"the GID of this host":            gid([]byte{15: 1}...),
		"an index of 17 bits":             func(p *proto.Port) { p.Gids[0].Index = 1 << 16 },
	}
}

func TestAnOfferWithWhatCannotBeIsRefusedAndTheConversationGoesOn(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.offers = 1000 })
	s := rawGreet(t, rawClient(t, r, credentialsOf(t, "gpu2", key)), "gpu2")
	rows := map[string]func(*proto.Offer){
		"no port":                   func(o *proto.Offer) { o.Port = nil },
		"no session":                func(o *proto.Offer) { o.Session = 0 },
		"RC number 0":               func(o *proto.Offer) { o.Rc = 0 },
		"RC number 1":               func(o *proto.Offer) { o.Rc = 1 },
		"an RC number of 25 bits":   func(o *proto.Offer) { o.Rc = 1 << 24 },
		"a PSN of 25 bits":          func(o *proto.Offer) { o.Psn = 1 << 24 },
		"nothing but the session":   func(o *proto.Offer) { pb.Reset(o); o.Session = 5 },
		"nothing, not even session": func(o *proto.Offer) { pb.Reset(o) },
	}
	for name, spoil := range invalidPortChanges() {
		rows[name] = func(o *proto.Offer) { spoil(o.Port) }
	}
	for name, spoil := range rows {
		call := offerCall(newOffer(5))
		spoil(call.GetOffer())
		for i, g := range call.GetOffer().GetPort().GetGids() {
			if g == nil {
				call.GetOffer().GetPort().GetGids()[i] = &proto.Gid{}
			}
		}
		require.NoError(t, s.Send(call), name)
		m, err := s.Recv()
		require.NoError(t, err, name)
		require.Equal(t, proto.Fault_FAULT_MALFORMED, m.GetAnswer().GetFault(), name)
		require.Equal(t, call.GetOffer().GetSession(), m.GetAnswer().GetSession(), name)
	}
	require.Empty(t, r.offers)
	require.EqualValues(t, len(rows), r.server.Counts().Malformed)
	require.NoError(t, s.Send(offerCall(newOffer(6))))
	m, err := s.Recv()
	require.NoError(t, err)
	require.NotNil(t, m.GetAnswer().GetPort())
}

func TestAnOfferThatTheHostCallsMalformedIsAnError(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	o := newOffer(1)
	o.RC = 1
	_, err := c.Offer(testContext(t), o)
	require.ErrorIs(t, err, ErrMalformed)
	require.NoError(t, c.Err())
}

// The host has connected the pair that it answered, and has to be told that the session has ended.
func TestAnAnswerWithWhatCannotBeIsAnErrorAndIsLeft(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	r.meet = func(context.Context, string, Offer) Answer {
		p := newPort("mlx5_1")
		p.UD[3] = 1
		return Answer{Port: p, RC: 2}
	}
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	_, err := c.Offer(testContext(t), newOffer(42))
	require.ErrorIs(t, err, ErrMalformed)
	r.await(t, func() bool { return len(r.left) == 1 && r.left[0] == 42 })
	require.NoError(t, c.Err())
}

func TestAnswersWithWhatCannotBeAreRefused(t *testing.T) {
	good := answerToProto(7, Answer{Port: newPort("mlx5_1"), RC: 2, PSN: 3})
	_, err := answerFromProto(good)
	require.NoError(t, err)
	for name, spoil := range invalidPortChanges() {
		m := pb.Clone(good).(*proto.Answer)
		spoil(m.Port)
		_, err := answerFromProto(m)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	for _, m := range []*proto.Answer{nil, {}, {Session: 7}, {Fault: 7}, {Session: 7, Port: good.Port}} {
		_, err := answerFromProto(m)
		require.ErrorIs(t, err, ErrMalformed)
	}
}

func TestAnErrorOfAPortHasNoTextOfThePeer(t *testing.T) {
	m := portToProto(newPort("mlx5_0"))
	m.Device = "forged\nline"
	_, err := portFromProto(m)
	require.ErrorIs(t, err, ErrMalformed)
	require.NotContains(t, err.Error(), "forged")
}

func TestStatesWithWhatCannotBeAreAnError(t *testing.T) {
	for name, ports := range map[string][]*proto.PortState{
		"no device":  {{Port: 1}},
		"port 0":     {{Device: "mlx5_0"}},
		"nothing":    {nil},
		"1025 ports": make([]*proto.PortState, 1025),
	} {
		_, err := stateFromProto(&proto.StateReply{Ports: ports})
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	state, err := stateFromProto(&proto.StateReply{Ports: []*proto.PortState{{Device: "mlx5_0", Port: 1, State: -77}}})
	require.NoError(t, err)
	require.Equal(t, "unknown", state.Ports[0].State.String())
}

func TestEveryReasonArrives(t *testing.T) {
	for _, reason := range []verdict.Reason{
		verdict.ReasonStarting, verdict.ReasonNoResponder, verdict.ReasonKey, verdict.ReasonNotListed, verdict.ReasonFull,
		verdict.ReasonVersion, verdict.ReasonNoCommonGID, verdict.ReasonPKey, verdict.ReasonUnsupported, verdict.ReasonNotActive,
		verdict.ReasonFailed,
	} {
		a, err := answerFromProto(throughWire(t, answerToProto(1, Answer{Reason: reason})))
		require.NoError(t, err)
		require.Equal(t, Answer{Reason: reason}, a)
	}
}

// The largest valid offer and the largest valid state fit into a message.
func TestTheLargestMessagesFit(t *testing.T) {
	p := newPort(strings.Repeat("m", maxDeviceName))
	for len(p.GIDs) < maxGIDs {
		p.GIDs = append(p.GIDs, verbs.FabricGID{Index: maxGIDIndex, Raw: p.GIDs[0].Raw})
	}
	raw, err := pb.Marshal(offerCall(Offer{Session: 1, Port: p, RC: maxQP, PSN: maxPSN}))
	require.NoError(t, err)
	require.Less(t, len(raw), maxMessage/16)
	names := slices.Repeat([]string{p.Device}, 2*maxDevices) // names beyond the limit are omitted
	raw, err = pb.Marshal(offerCall(Offer{Session: 1, Port: p, RC: maxQP, PSN: maxPSN, Devices: names}))
	require.NoError(t, err)
	require.Less(t, len(raw), maxMessage/2)
	sessions := slices.Repeat([]uint64{1 << 63}, maxSessions)
	raw, err = pb.Marshal(&proto.Call{What: &proto.Call_Held{Held: &proto.Held{Sessions: sessions, Epochs: sessions[:maxEpochs]}}})
	require.NoError(t, err)
	require.Less(t, len(raw), maxMessage/2)

	var states []PortState
	for range maxPorts / 2 {
		states = append(states, PortState{Device: strings.Repeat("m", maxDeviceName), Port: maxPort, Epoch: 1, State: verbs.PortAbsent})
	}
	raw, err = pb.Marshal(statesToProto(states, sessions))
	require.NoError(t, err)
	require.Less(t, len(raw), maxMessage)
}
