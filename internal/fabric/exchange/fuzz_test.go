package exchange

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange/proto"
)

func requirePort(t *testing.T, p Port) {
	t.Helper()
	require.True(t, isDevice(p.Device))
	require.NotZero(t, p.Epoch)
	require.True(t, p.Position >= 0 && p.Position <= maxPosition)
	require.True(t, p.Port >= 1 && p.Port <= maxPort)
	require.Contains(t, []verbs.LinkLayer{verbs.LinkInfiniBand, verbs.LinkEthernet}, p.LinkLayer)
	require.True(t, p.LID >= 0 && p.LID <= maxLID)
	require.Contains(t, []int{0, 256, 512, 1024, 2048, 4096}, p.MTU)
	require.LessOrEqual(t, len(p.GIDs), maxGIDs)
	require.True(t, len(p.UD) >= 1 && len(p.UD) <= verbs.MaxFabricPaths)
	for _, n := range p.UD {
		requireQP(t, n)
	}
	require.Zero(t, p.QKey>>31)
}

func requireQP(t *testing.T, n uint32) {
	t.Helper()
	require.True(t, n >= 2 && n < 1<<24)
}

// Values accepted from arbitrary bytes are within the limits, and remain the same when they are encoded and decoded again.
func FuzzNoBytesOfACallerLeaveTheLimits(f *testing.F) {
	for _, m := range []*proto.Call{
		offerCall(newOffer(1)), greetingCall(ownVersions.newGreeting("gpu1", "00")), {What: &proto.Call_Leave{Leave: &proto.Leave{Session: 3}}}, {},
	} {
		seed, err := pb.Marshal(m)
		require.NoError(f, err)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m proto.Call
		if pb.Unmarshal(raw, &m) != nil {
			return
		}
		hasUnknown(m.ProtoReflect())
		if g := m.GetGreeting(); g != nil {
			v, ok := ownVersions.highestCommon(versions{g.GetLeast(), g.GetMost()})
			require.True(t, !ok || v == 1)
		}
		o, err := offerFromProto(m.GetOffer())
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			require.Zero(t, o)
			return
		}
		requirePort(t, o.Port)
		requireQP(t, o.RC)
		require.True(t, o.Session != 0 && o.PSN < 1<<24)
		again, err := offerFromProto(throughWire(t, offerToProto(o)))
		require.NoError(t, err)
		require.Equal(t, o, again)
	})
}

func FuzzNoBytesOfAHostLeaveTheLimits(f *testing.F) {
	for _, m := range []*proto.Reply{
		{What: &proto.Reply_Answer{Answer: answerToProto(1, Answer{Port: newPort("mlx5_0"), RC: 2, PSN: 3})}},
		{What: &proto.Reply_Answer{Answer: answerToProto(1, Answer{Reason: "full"})}},
		{What: &proto.Reply_Answer{Answer: &proto.Answer{Fault: 1}}},
		{What: &proto.Reply_Change{Change: changeToProto(Change{Device: "mlx5_0", Port: 1, Epoch: 2})}},
		{What: &proto.Reply_Greeting{Greeting: ownVersions.newGreeting("gpu1", "00")}},
	} {
		seed, err := pb.Marshal(m)
		require.NoError(f, err)
		f.Add(seed)
	}
	p := &tcpPeer{host: "gpu1", network: New(NetworkConfig{})}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m proto.Reply
		if pb.Unmarshal(raw, &m) != nil {
			return
		}
		if p.checkGreeting(m.GetGreeting()) == nil {
			require.True(t, m.GetGreeting().GetVersion() == 1 && isDigest(m.GetGreeting().GetDigest()))
		}
		if c, err := changeFromProto(m.GetChange()); err == nil {
			require.True(t, isDevice(c.Device) && c.Port >= 1 && c.Port <= maxPort)
			again, err := changeFromProto(throughWire(t, changeToProto(c)))
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
		a, err := answerFromProto(m.GetAnswer())
		if err != nil {
			require.Zero(t, a)
			return
		}
		require.True(t, isReason(a.Reason))
		if a.Reason == "" {
			requirePort(t, a.Port)
			requireQP(t, a.RC)
		}
		again, err := answerFromProto(throughWire(t, answerToProto(m.GetAnswer().GetSession(), a)))
		require.NoError(t, err)
		require.Equal(t, a, again)
	})
}

func FuzzNoBytesOfAStateLeaveTheLimits(f *testing.F) {
	seed, err := pb.Marshal(statesToProto(newFakeHandler().States("gpu2", nil)))
	require.NoError(f, err)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m proto.StateReply
		if pb.Unmarshal(raw, &m) != nil {
			return
		}
		state, err := stateFromProto(&m)
		if err != nil {
			require.Zero(t, state)
			return
		}
		for _, s := range state.Ports {
			require.True(t, isDevice(s.Device) && s.Port >= 1 && s.Port <= maxPort)
		}
		again, err := stateFromProto(throughWire(t, statesToProto(state.Ports, state.Lacking)))
		require.NoError(t, err)
		state.LackingKnown = true
		require.Equal(t, state, again)
	})
}

// A file with any content is either rejected or a key that two hosts can use, and no other file has the same key.
func FuzzAKeyFileOfAnyBytesIsAKeyOrRefused(f *testing.F) {
	f.Add([]byte(key), uint32(0o640))
	f.Add([]byte(key+"\n"), uint32(0o600))
	f.Add(make([]byte, 40), uint32(0o640))
	f.Add([]byte{}, uint32(0o644))
	f.Fuzz(func(t *testing.T, content []byte, mode uint32) {
		path := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		require.NoError(t, os.Chmod(path, os.FileMode(mode&0o777)))
		got, err := readKey(path)
		if err != nil {
			require.Nil(t, got)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.Zero(t, mode&0o777&^keyMode)
		require.Equal(t, content, got)
		a, err := issueIdentity(got, "gpu1")
		require.NoError(t, err)
		b, err := issueIdentity(got, "gpu2")
		require.NoError(t, err)
		_, err = a.cert.Leaf.Verify(x509.VerifyOptions{Roots: b.roots, CurrentTime: clockAt(1970)()})
		require.NoError(t, err)
		c, err := issueIdentity(append(got, 'x'), "gpu1")
		require.NoError(t, err)
		_, err = c.cert.Leaf.Verify(x509.VerifyOptions{Roots: b.roots, CurrentTime: clockAt(1970)()})
		require.Error(t, err)
	})
}
