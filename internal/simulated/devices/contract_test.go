package devices

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/verbstest"
	"rdma_events/internal/device/verbs"
)

func TestTheSimulatorKeepsTheContract(t *testing.T) {
	all := []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush}
	for _, row := range []struct {
		profile, device string
		port            int
		methods         []verbs.Method
		noFabric        string
	}{
		{"roce2", "sim1", 1, all, ""},
		{"ib8", "sim7", 1, all, ""},
		{"dual", "sim0", 2, all, "the other port is InfiniBand"},
		{"iwarp", "sim0", 1, []verbs.Method{verbs.MethodFlush}, "the device is iWARP"},
	} {
		t.Run(row.profile, func(t *testing.T) {
			f := newFixture(t, row.profile, row.device, row.port, row.methods)
			if f.Lacks = map[verbstest.Capability]string{verbstest.Fabric: row.noFabric}; row.noFabric == "" {
				f.Lacks, f.Peer = nil, &verbstest.Peer{Device: "sim0", Port: 1}
			}
			verbstest.Run(t, f)
		})
	}
}

// The peer is a host of the scenario. What silences it is another host, which is silent from the start.
func TestSimulatedHostsKeepTheContract(t *testing.T) {
	all := []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush}
	f := newFixture(t, "roce2", "sim0", 1, all)
	w := mustLoad(t, Options{Profile: "roce2", Scenario: writeScenario(t, "[[peer]]\nhost = 'busy'\nwhat = 'stopped'\n[[fabric]]\nhost = 'gone'\n")})
	host := func(name string) verbs.FabricPeer {
		q := w.Peer(name).Ports(w.Now())[0]
		return verbs.FabricPeer{Host: name, Device: q.Device, Port: q.Port, UD: q.UD, QKey: q.QKey, RC: q.RC, GID: q.GIDs[0].Raw}
	}
	well := host("well")
	alone := well
	f.Backend, f.Peer = New(w), &verbstest.Peer{Device: "sim0", Port: 1, Alone: &alone}
	f.Lacks = map[verbstest.Capability]string{verbstest.BothEnds: "the host is simulated"}
	f.Peer.Silence = func(t testing.TB, echoes, writes bool) {
		require.True(t, echoes)
		t.Cleanup(func() { alone = well })
		if alone = host("busy"); writes {
			alone = host("gone")
		}
	}
	verbstest.RunFabrics(t, f)
}

func TestADeviceWithoutEventsKeepsTheRestOfTheContract(t *testing.T) {
	f := newFixture(t, "efa", "sim0", 1, []verbs.Method{verbs.MethodUDSend})
	const reason = "the driver raises no events"
	f.LinkDown, f.LinkUp, f.Inject, f.AddAddress = nil, nil, nil, nil
	f.Lacks = map[verbstest.Capability]string{
		verbstest.Link: reason, verbstest.Injection: reason, verbstest.Addresses: reason,
		verbstest.Fabric: "the device has no RC queue pairs",
	}
	verbstest.Run(t, f)
}

func newFixture(t *testing.T, profile, device string, port int, methods []verbs.Method) verbstest.Fixture {
	t.Helper()
	w := mustLoad(t, Options{Profile: profile})
	inject := func(t testing.TB, typ verbs.EventType, port, count int) {
		t.Helper()
		require.NoError(t, w.Inject(device, typ, port, uint64(count)))
	}
	link := func(up bool) func(testing.TB) {
		return func(t testing.TB) {
			t.Helper()
			require.NoError(t, w.SetLink(device, port, up))
		}
	}
	return verbstest.Fixture{
		Backend: New(w), Device: device, Port: port, Methods: methods,
		LinkDown: link(false), LinkUp: link(true), Inject: inject,
		AddAddress: func(t testing.TB) {
			require.NoError(t, w.AddAddress(device, port, netip.MustParseAddr("10.99.0.1")))
		},
	}
}
