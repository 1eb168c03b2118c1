package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

func onNetDev(h *harness, netdev string, gbps float64) verbs.Item {
	return verbs.Item{Reading: &verbs.Reading{
		Port: 1, Mono: h.mono.Load(), Attr: verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkEthernet, NetDev: netdev, RateGbps: gbps},
	}}
}

// opensOn acts as a worker that opens a device with one port.
func (h *harness) opensOn(device, netdev string, gbps float64) {
	h.t.Helper()
	sup := h.sup(device, 0)
	sup.Started(h.ledger(), nil)
	h.batch(sup, verbs.Item{Opened: &verbs.DeviceAttr{Name: device, Ports: 1}}, onNetDev(h, netdev, gbps))
}

func startRouted(t *testing.T) *harness {
	t.Helper()
	return startMonitor(t, func(c *Config) {
		c.CarriesDefaultRoute = func(netdev string) bool { return netdev == "eth0" }
		c.Role = func(device string, port int) string {
			if device == "mlx5_7" {
				return verbs.RoleStorage
			}
			return ""
		}
	})
}

// requireRoles requires the roles of the ports, and that no point of a port has had another role.
func requireRoles(t *testing.T, h *harness, want map[string]string) {
	t.Helper()
	s := h.gather()
	got := map[string]string{}
	for _, p := range append(pointsOf[measure.Port](h.sink.takePoints()), s.Ports...) {
		if role, ok := got[p.Device]; ok {
			require.Equal(t, role, p.Role, "the role of %s changes", p.Device)
		}
		got[p.Device] = p.Role
	}
	require.Equal(t, want, got)
}

func TestPortWithTheDefaultRouteBesideAFasterOneIsForManagement(t *testing.T) {
	h := startRouted(t)
	h.reportFound(foundDevice("mlx5_0", 0), foundDevice("mlx5_1", 1), foundDevice("mlx5_7", 2))
	h.opensOn("mlx5_0", "eth0", 25)
	h.opensOn("mlx5_7", "eth7", 25)
	requireRoles(t, h, map[string]string{"mlx5_7": verbs.RoleStorage}) // another device is not open yet
	h.opensOn("mlx5_1", "eth1", 400)
	requireRoles(t, h, map[string]string{"mlx5_0": verbs.RoleManagement, "mlx5_1": "", "mlx5_7": verbs.RoleStorage})
	h.mono.Add(sec)
	h.batch(h.sup("mlx5_0", 0), onNetDev(h, "eth0", 800))
	h.reportFound(foundDevice("mlx5_0", 0))
	h.mono.Add(sec)
	requireRoles(t, h, map[string]string{"mlx5_0": verbs.RoleManagement, "mlx5_1": "", "mlx5_7": verbs.RoleStorage})
}

// A tag that is added later would begin another series.
func TestProbesAndCommandsHaveTheRoleOfManagementAlone(t *testing.T) {
	h := startRouted(t)
	h.reportFound(foundDevice("mlx5_0", 0), foundDevice("mlx5_1", 1), foundDevice("mlx5_7", 2))
	for device, netdev := range map[string]string{"mlx5_0": "eth0", "mlx5_7": "eth7"} {
		h.opensOn(device, netdev, 25)
		h.batch(h.sup(device, 0), verbs.Item{Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodUDSend}}},
			verbs.Item{Command: &verbs.Command{Call: verbs.CommandQueryPort, Port: 1, Status: "ETIMEDOUT"}})
	}
	roles := func() (got []string) {
		s := h.gather()
		for _, p := range s.Probes {
			got = append(got, p.Device+" probe "+p.Role)
		}
		for _, c := range s.Commands {
			got = append(got, c.Device+" command "+c.Role)
		}
		return got
	}
	require.Equal(t, []string{"mlx5_7 probe ", "mlx5_7 command "}, roles(), "the role of mlx5_0 is not known")
	h.opensOn("mlx5_1", "eth1", 400)
	require.Equal(t, []string{"mlx5_0 probe management", "mlx5_7 probe ", "mlx5_0 command management", "mlx5_7 command "}, roles())
	h.sink.takePoints()
	for range 3 {
		h.batch(h.sup("mlx5_0", 0), verbs.Item{Command: &verbs.Command{Call: verbs.CommandQueryPort, Port: 1, Status: "ETIMEDOUT"}})
	}
	stuck := pointsOf[measure.Command](h.sink.takePoints())
	require.Len(t, stuck, 1)
	require.Equal(t, verbs.RoleManagement, stuck[0].Role, "it is emitted at once")
}

func TestPortWithTheDefaultRouteThatIsTheFastestHasNoRole(t *testing.T) {
	h := startRouted(t)
	h.reportFound(foundDevice("mlx5_0", 0), foundDevice("mlx5_1", 1))
	h.opensOn("mlx5_0", "eth0", 100)
	h.opensOn("mlx5_1", "eth1", 100)
	requireRoles(t, h, map[string]string{"mlx5_0": "", "mlx5_1": ""})
	h.mono.Add(sec)
	h.batch(h.sup("mlx5_1", 0), onNetDev(h, "eth1", 400))
	requireRoles(t, h, map[string]string{"mlx5_0": "", "mlx5_1": ""})
}

func TestRoleIsDecidedWithoutADeviceThatIsNeverOpened(t *testing.T) {
	h := startRouted(t)
	h.reportFound(foundDevice("mlx5_0", 0), foundDevice("mlx5_1", 1))
	h.mono.Store(sec)
	h.opensOn("mlx5_0", "eth0", 100)
	requireRoles(t, h, map[string]string{})
	h.runUntil(h.sup("mlx5_0", 0), sec+int64(roleLimit))
	requireRoles(t, h, map[string]string{"mlx5_0": ""})
}

// After a boot one of eight equal ports trains at half of its rate: it is not a port for management, whose problems would be warnings.
func TestPortThatIsSlowerThanItWasIsNotForManagement(t *testing.T) {
	for name, known := range map[string]func(*Config){
		"remembered": func(c *Config) { c.Memory.RememberPort("mlx5_0", 1, 400) },
		"configured": func(c *Config) {
			c.Configured = func(device string, _ int) (float64, bool) { return 400, device == "mlx5_0" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := startMonitor(t, func(c *Config) {
				c.Memory = memory.New(time.Now)
				c.CarriesDefaultRoute = func(netdev string) bool { return netdev == "eth0" }
				known(c)
			})
			h.reportFound(foundDevice("mlx5_0", 0), foundDevice("mlx5_1", 1))
			h.opensOn("mlx5_0", "eth0", 200)
			h.opensOn("mlx5_1", "eth1", 400)
			requireRoles(t, h, map[string]string{"mlx5_0": "", "mlx5_1": ""})
		})
	}
}
