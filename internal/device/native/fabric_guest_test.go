//go:build guest

package native_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/verbstest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// Two devices on one network, each opened with a ledger of its own, probe each other.
func TestTheFabricKeepsItsContractOnSoftRoCE(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	n := guest.AddNetwork(t, 2)
	verbstest.RunFabrics(t, verbstest.Fixture{
		Backend: native.New(sysfs.New("/sys")),
		Device:  n.Device(1), Port: 1,
		Peer: &verbstest.Peer{Device: n.Device(2), Port: 1},
	})
}

func TestNativeBackendOnSIWNeverHasAFabric(t *testing.T) {
	guest.RequireDriver(t, "siw")
	guest.AddDevice(t, device, "siw", netdev)
	led, f, err := ledger.New("siw")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	dev, err := native.New(sysfs.New("/sys")).Open(device, led)
	require.NoError(t, err)
	_, _, err = dev.NewFabricEndpoint(verbs.FabricConfig{
		Port: 1, FabricOptions: verbs.FabricOptions{Paths: 4, Interval: time.Second, GIDIndex: -1, PKeyIndex: -1},
	})
	require.ErrorIs(t, err, verbs.ErrNeverFabric)
	require.NoError(t, dev.Close(time.Second))
	require.NoError(t, led.Close())
}
