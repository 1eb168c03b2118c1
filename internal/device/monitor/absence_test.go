package monitor

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// bus holds the PCI functions of a simulated host, by address.
type bus struct {
	mu        sync.Mutex
	functions map[string]verbs.PCIFunction
}

func (b *bus) set(address string, f verbs.PCIFunction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.functions == nil {
		b.functions = map[string]verbs.PCIFunction{}
	}
	b.functions[address] = f
}

func (b *bus) get(address string) verbs.PCIFunction {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.functions[address]
}

// deviceOn returns a device on a PCI function of mlx5_core.
func deviceOn(address, name string, index int) verbs.Found {
	f := foundDevice(name, index)
	f.PCI, f.Driver = address, "mlx5_core"
	return f
}

func ownDriver(master string) verbs.PCIFunction {
	return verbs.PCIFunction{Driver: "mlx5_core", Master: master}
}

func TestDeviceRenamedOutOfTheFilterIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := startMonitor(t, func(c *Config) {
			c.Devices = func(name string) bool { return strings.HasPrefix(name, "mlx5_") }
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		h.reportFound(foundDevice("mlx5_0", 3))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		h.reportFound(foundDevice("ibp8s0", 3))
		synctest.Wait()
		<-h.sup("mlx5_0", 0).ended
		for range 3 {
			v := findDevice(h.gather(), "mlx5_0")
			require.Equal(t, status.ReasonRemoved, v.Reason)
			require.False(t, v.Present)
			require.Zero(t, v.Removals)
		}
		require.Equal(t, 1, strings.Count(log.String(),
			`msg="device renamed to a name that the configuration excludes" device=mlx5_0 new_name=ibp8s0`))

		h.reportFound(foundDevice("mlx5_0", 3))
		h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")
		require.True(t, findDevice(h.gather(), "mlx5_0").Open)
	})
}

func TestExpectedDeviceThatIsRenamedIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := startMonitor(t, func(c *Config) {
			c.Expect = []string{"mlx5_0"}
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		h.reportFound(foundDevice("mlx5_0", 3))
		h.reportFound(foundDevice("ibp8s0", 3))
		synctest.Wait()
		h.openDevice(h.sup("ibp8s0", 0), "ibp8s0")
		for range 3 {
			s := h.gather()
			require.Equal(t, status.ReasonRemoved, findDevice(s, "mlx5_0").Reason)
			require.True(t, findDevice(s, "ibp8s0").Open)
		}
		require.Contains(t, log.String(), `msg="device renamed, but expect has the old name" device=mlx5_0 new_name=ibp8s0`)
	})
}

func TestFunctionWithAnotherDriverIsReassigned(t *testing.T) {
	var pci bus
	h := startMonitor(t, func(c *Config) { c.Function = pci.get })
	reason := func() status.Reason { return findDevice(h.gather(), "mlx5_0").Reason }
	pci.set("0000:08:00.2", ownDriver(""))
	h.reportFound(deviceOn("0000:08:00.2", "mlx5_0", 3))
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")

	pci.set("0000:08:00.2", verbs.PCIFunction{})
	h.reportFound()
	require.Equal(t, status.ReasonRemoved, reason(), "it has no driver")
	pci.set("0000:08:00.2", verbs.PCIFunction{Driver: "vfio-pci"})
	require.Equal(t, status.ReasonReassigned, reason())
	require.Equal(t, status.ReasonReassigned, reason())
	pci.set("0000:08:00.2", ownDriver(""))
	require.Equal(t, status.ReasonRemoved, reason(), "it was given back, and no RDMA device came")
	h.reportFound(deviceOn("0000:08:00.2", "mlx5_0", 7))
	require.True(t, findDevice(h.gather(), "mlx5_0").Present)
}

func TestBothLegsOfABondAreReassigned(t *testing.T) {
	for name, bond := range map[string]verbs.Found{
		"its device has a name of its own": deviceOn("0000:08:00.0", "mlx5_bond_0", 5),
		"its device has a leg's name":      deviceOn("0000:08:00.0", "mlx5_0", 5),
	} {
		t.Run(name, func(t *testing.T) {
			var pci bus
			h := startMonitor(t, func(c *Config) { c.Function = pci.get })
			pci.set("0000:08:00.0", ownDriver(""))
			pci.set("0000:08:00.1", ownDriver(""))
			h.reportFound(deviceOn("0000:08:00.0", "mlx5_0", 3), deviceOn("0000:08:00.1", "mlx5_1", 4))
			h.sink.takePoints()

			pci.set("0000:08:00.0", ownDriver("bond0"))
			pci.set("0000:08:00.1", ownDriver("bond0"))
			h.reportFound()
			bond.NodeGUID = foundDevice("mlx5_0", 3).NodeGUID
			h.reportFound(bond)
			s := h.gather()
			require.Equal(t, status.ReasonReassigned, findDevice(s, "mlx5_1").Reason)
			require.True(t, findDevice(s, bond.Name).Present)
			if bond.Name != "mlx5_0" {
				require.Equal(t, status.ReasonReassigned, findDevice(s, "mlx5_0").Reason)
			}
			last := pointsOf[measure.Device](h.sink.takePoints())
			require.Equal(t, status.ReasonReassigned, last[len(last)-1].Reason, "it is reported at once")
		})
	}
}

// The kernel raises device_fatal on a device that it withdraws, whatever the reason.
func TestFatalOfADeviceThatIsReassignedIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, pci, sup := startOnFunction(t, deviceOn("0000:08:00.2", "mlx5_0", 3))
		pci.set("0000:08:00.2", verbs.PCIFunction{Instance: 7})
		h.removeDevice(sup)
		requireCounts(t, findDevice(h.gather(), "mlx5_0"), 1, 0, 0)
		pci.set("0000:08:00.2", verbs.PCIFunction{Driver: "vfio-pci", Instance: 7})
		h.gather()
		h.mono.Add(2 * int64(fatalLimit))
		v := findDevice(h.gather(), "mlx5_0")
		require.Equal(t, status.ReasonReassigned, v.Reason)
		requireCounts(t, v, 1, 0, 0)
		require.Zero(t, v.UnplannedRemovals)
	})
}

// Two ports of an adapter form a bond, and the driver makes one RDMA device of the two (RoCE LAG). With the names of rdma-core's udev
// rules, which come from the PCI function, the bond's device has the name of a leg.
func TestDeviceThatABondReplacesHasNoFault(t *testing.T) {
	for name, row := range map[string]struct {
		before, after, back bool // the network device is in a bond: at first, when the device goes, and when it is back
		faults              uint64
	}{
		"the bond forms":                     {after: true, back: true},
		"firmware recovers without a bond":   {faults: 1},
		"firmware recovers below a bond":     {before: true, after: true, back: true, faults: 1},
		"and its network device leaves it":   {before: true, faults: 1},
		"and its network device is new, too": {before: true, back: true, faults: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pci bus
				pci.set("0000:08:00.0", boundFunction(7))
				bonded := row.before
				h := startMonitor(t, func(c *Config) {
					c.Function, c.Legs = pci.get, func(string) (legs, up int, ok bool) { return 2, 2, bonded }
				})
				h.reportFound(deviceOn("0000:08:00.0", "rocep8s0f0", 3))
				sup := h.sup("rocep8s0f0", 0)
				h.openDevice(sup, "rocep8s0f0")
				h.mono.Store(sec)
				active := readingItem(1, h.mono.Load(), verbs.PortActive)
				active.Reading.Attr.NetDev = "enp8s0f0np0"
				h.batch(sup, active)
				h.mono.Add(int64(time.Minute))

				bonded = row.after
				h.LegsChanged()
				h.removeDevice(sup)
				h.mono.Add(5 * sec)
				bonded = row.back
				h.LegsChanged()
				h.reportFound(deviceOn("0000:08:00.0", "rocep8s0f0", 5))
				h.mono.Add(2 * int64(fatalLimit))
				v := findDevice(h.gather(), "rocep8s0f0")
				require.True(t, v.Present)
				requireCounts(t, v, 1, 0, row.faults)
				require.Equal(t, row.faults, v.UnplannedRemovals)
			})
		})
	}
}

func TestDeviceThatIsGoneIsNotReassigned(t *testing.T) {
	const own, other = "0000:08:00.0", "0000:08:00.1"
	bonded := func(b *bus) { b.set(own, ownDriver("bond0")); b.set(other, ownDriver("bond0")) }
	for name, row := range map[string]struct {
		set  func(*bus)
		left []verbs.Found
	}{
		"its function is gone too":            {left: []verbs.Found{deviceOn(other, "mlx5_1", 4)}},
		"its function has its driver":         {set: func(b *bus) { b.set(own, ownDriver("")) }},
		"a new device is on another function": {left: []verbs.Found{deviceOn(other, "mlx5_5", 9)}},
		"the other leg was there before":      {set: bonded, left: []verbs.Found{deviceOn(other, "mlx5_1", 2)}},
		"another adapter is in the bond": {
			set:  func(b *bus) { bonded(b); b.set("0000:09:00.0", ownDriver("bond0")) },
			left: []verbs.Found{deviceOn("0000:09:00.0", "mlx5_5", 9)},
		},
		"the new one's network device is in no bond": {
			set: func(b *bus) { b.set(own, ownDriver("br0")); b.set(other, ownDriver("")) }, left: []verbs.Found{deviceOn(other, "mlx5_5", 9)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var pci bus
			h := startMonitor(t, func(c *Config) { c.Function = pci.get })
			h.reportFound(deviceOn(own, "mlx5_0", 3))
			if row.set != nil {
				row.set(&pci)
			}
			h.reportFound(row.left...)
			require.Equal(t, status.ReasonRemoved, findDevice(h.gather(), "mlx5_0").Reason)
		})
	}
}

func TestExpectedDeviceThatIsReassignedIsMissing(t *testing.T) {
	pci := new(bus)
	h := startMonitor(t, func(c *Config) { c.Function, c.Expect = pci.get, []string{"mlx5_0"} })
	h.reportFound(deviceOn("0000:08:00.0", "mlx5_0", 3))
	pci.set("0000:08:00.0", verbs.PCIFunction{Driver: "vfio-pci"})
	h.reportFound()
	require.Equal(t, status.ReasonRemoved, findDevice(h.gather(), "mlx5_0").Reason)
}

// The driver was reloaded, and udev gave the device another name.
func TestReloadedDeviceOfAnotherNameIsRenamed(t *testing.T) {
	pci := new(bus)
	pci.set("0000:08:00.0", ownDriver(""))
	h := startMonitor(t, func(c *Config) { c.Function = pci.get })
	h.reportFound(deviceOn("0000:08:00.0", "mlx5_0", 3))
	h.reportFound()
	again := deviceOn("0000:08:00.0", "ibp8s0", 8)
	again.NodeGUID = foundDevice("mlx5_0", 3).NodeGUID
	h.reportFound(again)
	require.Equal(t, status.ReasonRenamed, findDevice(h.gather(), "mlx5_0").Reason)
}
