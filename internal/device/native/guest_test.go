//go:build guest

package native_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"rdma_events/internal/conformance/verbstest"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// device and netdev are the names that the tests use with every driver.
const (
	device = "rdma0"
	netdev = "d0"
)

// The contract suite, which also checks the simulator, runs on a real kernel here.
func TestNativeBackendKeepsTheContract(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	f := verbstest.Fixture{
		Backend:  native.New(sysfs.New("/sys")),
		Device:   device,
		Port:     1,
		LinkDown: func(t testing.TB) { guest.IP(t, "link", "set", netdev, "down") },
		LinkUp:   func(t testing.TB) { guest.IP(t, "link", "set", netdev, "up") },
		Inject: func(t testing.TB, typ verbs.EventType, port, count int) {
			guest.Inject(t, device, int(typ), max(port, 1), count)
		},
	}
	switch guest.Driver() {
	case "rxe":
		f.Lacks = map[verbstest.Capability]string{
			verbstest.Fabric: "one device has no peer: TestTheFabricKeepsItsContractOnSoftRoCE has two",
		}
		f.Methods = []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush}
		var addresses atomic.Int32
		f.AddAddress = func(t testing.TB) {
			guest.IP(t, "addr", "add", fmt.Sprintf("10.88.%d.1/24", addresses.Add(1)), "dev", netdev)
		}
	case "siw":
		f.Methods = []verbs.Method{verbs.MethodFlush}
		f.Lacks = map[verbstest.Capability]string{
			verbstest.Addresses: "siw reports no change of its one GID", verbstest.Fabric: "siw is iWARP",
		}
	}
	verbstest.Run(t, f)
}
