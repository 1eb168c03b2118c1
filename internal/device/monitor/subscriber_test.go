package monitor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// updateText returns a short description of an update.
func updateText(u Update) string {
	switch {
	case u.Port != nil:
		return fmt.Sprintf("port %d %v %s", u.Port.Port, u.Port.State, u.Port.Role)
	case u.Ledger != nil:
		return fmt.Sprintf("ledger ended %t with %d events", u.Ended, len(u.Ledger.Events))
	case u.Gone:
		return "gone"
	case u.Item.Objects != nil:
		return "objects " + u.Item.Objects.Problem
	case u.Item.FabricPort != nil:
		return fmt.Sprintf("fabric port %d", u.Item.FabricPort.Port)
	case u.Item.FabricFacts != nil:
		return fmt.Sprintf("facts of port %d", u.Item.FabricFacts.Port)
	}
	return "another item"
}

func TestSubscribersGetUpdatesOfADeviceInOrder(t *testing.T) {
	var got [2][]string
	var device []string
	subscribe := func(n int) func(Update) {
		return func(u Update) {
			got[n] = append(got[n], updateText(u))
			device = append(device, u.Device)
			require.Equal(t, epoch, u.Offset)
		}
	}
	h, sup, led := startWithOpenDevice(t, func(c *Config) {
		c.Role = func(string, int) string { return verbs.RoleManagement }
		c.Subscribers = []func(Update){subscribe(0), subscribe(1)}
	})
	take := func() []string {
		defer func() { got = [2][]string{} }()
		require.Equal(t, got[0], got[1])
		return got[0]
	}
	require.Equal(t, []string{
		"another item",
		"port 1 active management", "another item",
		"port 2 active management", "another item",
	}, take())

	h.batch(sup, verbs.Item{FabricPort: &verbs.FabricPort{Port: 1}}, eventItem(verbs.EventPortErr, 1, 1, ms, ms),
		verbs.Item{FabricFacts: &verbs.FabricFacts{Port: 1}}, verbs.Item{Objects: &verbs.Objects{Problem: "EPERM"}})
	require.Equal(t, []string{"fabric port 1", "port 1 down management", "another item", "facts of port 1", "objects EPERM"}, take())

	led.Count(int32(verbs.EventPortErr), 1, 1, 1)
	h.gather()
	require.Equal(t, []string{"ledger ended false with 1 events", "port 1 down management", "port 2 active management"}, take())

	h.reportFound()
	require.Equal(t, []string{"port 1 absent management", "port 2 absent management", "gone"}, take())
	h.batch(sup, verbs.Item{FabricFacts: &verbs.FabricFacts{Port: 1}}, verbs.Item{Objects: &verbs.Objects{}})
	require.Empty(t, take(), "the device is gone, and its worker has not noticed yet")

	sup.Ended(status.End{Reason: status.ReasonRemoved})
	require.Equal(t, []string{"ledger ended false with 1 events", "ledger ended true with 1 events"}, take())
	require.NotContains(t, device, "")
}
