//go:build guest

package verbs_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/verbstest"
	"rdma_events/tests/lab/guest"
)

// The contract suite on soft RoCE: what holds the simulator holds here.
func TestNativeBackendKeepsTheContract(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, "rxe0", "d0")
	var addresses atomic.Int32
	verbstest.Run(t, verbstest.Fixture{
		Backend:  verbs.Native(verbs.NewSysfs("/sys")),
		Device:   "rxe0",
		Port:     1,
		Methods:  []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush},
		LinkDown: func(t testing.TB) { guest.IP(t, "link", "set", "d0", "down") },
		LinkUp:   func(t testing.TB) { guest.IP(t, "link", "set", "d0", "up") },
		Inject: func(t testing.TB, typ verbs.EventType, port, count int) {
			guest.Inject(t, "rxe0", int(typ), max(port, 1), count)
		},
		AddAddress: func(t testing.TB) {
			guest.IP(t, "addr", "add", fmt.Sprintf("10.88.%d.1/24", addresses.Add(1)), "dev", "d0")
		},
	})
}
