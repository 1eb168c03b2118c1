package sim

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/verbstest"
)

func TestTheSimulatorKeepsTheContract(t *testing.T) {
	all := []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush}
	for _, row := range []struct {
		profile, device string
		port            int
		methods         []verbs.Method
	}{
		{"roce2", "sim1", 1, all},
		{"ib8", "sim7", 1, all},
		{"dual", "sim0", 2, all},
		{"iwarp", "sim0", 1, []verbs.Method{verbs.MethodFlush}},
	} {
		t.Run(row.profile, func(t *testing.T) {
			verbstest.Run(t, fixture(t, row.profile, row.device, row.port, row.methods))
		})
	}
}

func TestADeviceWithoutEventsKeepsTheRestOfTheContract(t *testing.T) {
	f := fixture(t, "efa", "sim0", 1, []verbs.Method{verbs.MethodUDSend})
	const reason = "the driver raises no events"
	f.LinkDown, f.LinkUp, f.Inject, f.AddAddress = nil, nil, nil, nil
	f.Lacks = map[verbstest.Capability]string{
		verbstest.Link: reason, verbstest.Injection: reason, verbstest.Addresses: reason,
		verbstest.Fabric: noFabric,
	}
	verbstest.Run(t, f)
}

const noFabric = "the simulator has no Fabric yet"

func fixture(t *testing.T, profile, device string, port int, methods []verbs.Method) verbstest.Fixture {
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
		Lacks: map[verbstest.Capability]string{verbstest.Fabric: noFabric},
	}
}
