package monitor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/expect"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// withMemory returns a function that gives a configuration a Memory, and that Memory.
func withMemory() (*memory.Memory, func(*Config)) {
	m := memory.New(time.Now)
	return m, func(c *Config) { c.Memory = m }
}

// sharedDevice returns a device with a PCI function that all network namespaces share.
func sharedDevice(name string, index int) verbs.Found {
	f := exclusiveDevice(name, index)
	f.Netns = verbs.NetnsShared
	return f
}

func identityOf(f verbs.Found) memory.Identity {
	return memory.Identity{NodeGUID: f.NodeGUID, PCI: f.PCI, Driver: f.Driver}
}

func requireExpected(t *testing.T, s gathered, device string, port int, up bool, why expect.Reason) {
	t.Helper()
	v := findPort(s, device, port)
	require.Equal(t, why, v.ExpectedReason)
	require.Equal(t, up, v.ExpectedUp)
}

func TestPortIsRememberedAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		h := startMonitor(t, with)
		h.reportFound(sharedDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		h.runUntil(sup, 59*sec)
		requireExpected(t, h.gather(), "mlx5_0", 1, false, expect.ReasonNeverActive)
		h.batch(sup, eventItem(verbs.EventPortErr, 2, 1, 59*sec, 59*sec))
		h.runUntil(sup, 61*sec)
		h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, 61*sec, 61*sec)) // between two intervals
		s := h.gather()
		requireExpected(t, s, "mlx5_0", 1, true, expect.ReasonRemembered)
		requireExpected(t, s, "mlx5_0", 2, false, expect.ReasonNeverActive)
		rate, ok := m.Port("mlx5_0", 1)
		require.True(t, ok)
		require.Zero(t, rate, "no rate of a port that is down")
		require.True(t, m.Devices()[0].Missed)
		require.Equal(t, identityOf(sharedDevice("mlx5_0", 0)), m.Devices()[0].Identity)
	})
}

func TestRememberedPortShouldBeUpFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		m.RememberPort("mlx5_0", 1, 400)
		h := startMonitor(t, func(c *Config) {
			with(c)
			c.ExpectedDown = func(_ string, port int) bool { return port == 2 }
		})
		h.reportFound(sharedDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		s := h.gather()
		requireExpected(t, s, "mlx5_0", 1, true, expect.ReasonRemembered)
		requireExpected(t, s, "mlx5_0", 2, false, expect.ReasonExpectedDown)
		require.Equal(t, 400.0, findPort(s, "mlx5_0", 1).RateExpectedGbps, "it was faster before the start")
		require.Equal(t, 100.0, findPort(s, "mlx5_0", 2).RateExpectedGbps)
		m.Forget("mlx5_0", 1)
		h.Forget("mlx5_0", 1)
		s = h.gather()
		requireExpected(t, s, "mlx5_0", 1, false, expect.ReasonNeverActive)
		require.Equal(t, 100.0, findPort(s, "mlx5_0", 1).RateExpectedGbps)
		h.runUntil(sup, 61*sec)
		requireExpected(t, h.gather(), "mlx5_0", 1, true, expect.ReasonRemembered)
	})
}

// The other ports represent functions. They are down when nobody uses these, whatever the host remembers or the configuration expects.
func TestUplinkOfACardInSwitchdevModeShouldBeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		m.RememberPort("mlx5_0", 1, 400) // in another mode it was the port of the cable
		h := startMonitor(t, func(c *Config) {
			with(c)
			c.Configured = func(_ string, port int) (float64, bool) { return 0, port == 2 }
		})
		h.reportFound(sharedDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		sup.Started(h.ledger(), nil)
		opened := openedItem("mlx5_0", 130)
		opened.Opened.Uplink = 130
		h.batch(sup, opened)
		for _, port := range []int{1, 2, 130} {
			h.batch(sup, readingItem(port, h.mono.Load(), verbs.PortActive))
		}
		h.runUntil(sup, 120*sec)
		h.gather()
		for _, port := range []int{1, 2, 130} {
			h.batch(sup, readingItem(port, h.mono.Load(), verbs.PortDown))
		}
		s := h.gather()
		requireExpected(t, s, "mlx5_0", 1, false, expect.ReasonRepresentor)
		requireExpected(t, s, "mlx5_0", 2, false, expect.ReasonRepresentor)
		requireExpected(t, s, "mlx5_0", 130, true, expect.ReasonRemembered)
		_, remembered := m.Port("mlx5_0", 2)
		require.False(t, remembered)
	})
}

func TestConfiguredPortShouldBeUpAndFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, func(c *Config) {
			c.Configured = func(_ string, port int) (float64, bool) { return 200, port == 1 }
		})
		h.reportFound(sharedDevice("mlx5_0", 0))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		s := h.gather()
		requireExpected(t, s, "mlx5_0", 1, true, expect.ReasonConfigured)
		require.Equal(t, 200.0, findPort(s, "mlx5_0", 1).RateExpectedGbps)
		requireExpected(t, s, "mlx5_0", 2, false, expect.ReasonNeverActive)
	})
}

func TestLinkThatWaitsForASubnetManagerShouldBeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(sharedDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		waits := func() {
			item := readingItem(1, h.mono.Load(), verbs.PortInit)
			item.Reading.Attr.Phys = verbs.PhysLinkUp
			h.batch(sup, item)
		}
		h.runUntil(sup, 10*sec)
		waits()
		h.runUntil(sup, 11*sec)
		waits() // the second reading confirms the first
		h.runUntil(sup, 130*sec)
		requireExpected(t, h.gather(), "mlx5_0", 1, false, expect.ReasonNeverActive)
		h.runUntil(sup, 132*sec)
		requireExpected(t, h.gather(), "mlx5_0", 1, true, expect.ReasonLinkWaits)
	})
}

func TestRememberedDeviceIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		m.RememberDevice("mlx5_1", identityOf(sharedDevice("mlx5_1", 1)), true)
		m.RememberDevice("rxe0", memory.Identity{}, false)
		m.RememberDevice("other", memory.Identity{}, true)
		h := startMonitor(t, func(c *Config) {
			with(c)
			c.Devices = func(name string) bool { return name != "other" }
		})
		require.Empty(t, h.gather().Devices, "before the devices have been looked for")
		h.reportFound(sharedDevice("mlx5_0", 0))
		s := h.gather()
		require.Len(t, s.Devices, 2)
		v := findDevice(s, "mlx5_1")
		require.True(t, v.Missing())
		require.Equal(t, status.ReasonNoDevice, v.Reason)
		require.EqualValues(t, 1, s.Hosts[0].Missing)
		m.Forget("mlx5_1", 0)
		h.Forget("mlx5_1", 0)
		s = h.gather()
		require.Len(t, s.Devices, 1)
		require.Zero(t, s.Hosts[0].Missing)
	})
}

func TestRememberedDeviceThatComesIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		m.RememberDevice("mlx5_0", identityOf(sharedDevice("mlx5_0", 0)), true)
		h := startMonitor(t, with)
		h.reportFound()
		require.True(t, isMissing(h.gather(), "mlx5_0"))
		h.reportFound(sharedDevice("mlx5_0", 0))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		v := findDevice(h.gather(), "mlx5_0")
		require.False(t, v.Missing())
		require.Zero(t, v.Removals)
		h.reportFound()
		require.Equal(t, status.ReasonRemoved, findDevice(h.gather(), "mlx5_0").Reason)
	})
}

func TestDeviceRenamedSinceTheLastStartIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		m.RememberDevice("mlx5_0", identityOf(sharedDevice("mlx5_0", 0)), true)
		m.RememberPort("mlx5_0", 1, 100)
		h := startMonitor(t, with)
		renamed := sharedDevice("rail0", 0)
		h.reportFound(renamed)
		s := h.gather()
		require.Len(t, s.Devices, 1)
		require.Equal(t, "rail0", s.Devices[0].Device)
		_, ok := m.Port("rail0", 1)
		require.True(t, ok)
		require.Len(t, m.Devices(), 1)
	})
}

func TestCardThatIsGoneIsMissingThoughOthersMovedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		for i, name := range []string{"mlx5_0", "mlx5_1", "mlx5_2"} {
			m.RememberDevice(name, identityOf(sharedDevice(name, i)), true)
		}
		h := startMonitor(t, with)
		moved := sharedDevice("mlx5_1", 2) // what was mlx5_2 before
		h.reportFound(sharedDevice("mlx5_0", 0), moved)
		s := h.gather()
		require.Len(t, s.Devices, 3)
		require.True(t, isMissing(s, "mlx5_2"))
		require.EqualValues(t, 1, s.Hosts[0].Missing)
	})
}

// The driver is loaded again, the first card does not come back, and each of the others takes the next lower number.
func TestCardThatDoesNotSurviveAReloadIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		h := startMonitor(t, with)
		names := []string{"mlx5_0", "mlx5_1", "mlx5_2"}
		var cards []verbs.Found
		for i, name := range names {
			cards = append(cards, sharedDevice(name, i))
			m.RememberDevice(name, identityOf(cards[i]), true)
		}
		h.reportFound(cards...)
		h.reportFound()
		var found []verbs.Found
		for i, card := range cards[1:] {
			card.Name, card.Index = names[i], 10+i
			found = append(found, card)
			h.reportFound(found...)
		}
		s := h.gather()
		require.Len(t, s.Devices, 3)
		require.True(t, findDevice(s, "mlx5_0").Present)
		require.True(t, findDevice(s, "mlx5_1").Present)
		require.True(t, isMissing(s, "mlx5_2"))
		require.EqualValues(t, 1, s.Hosts[0].Missing)
		require.Len(t, m.Devices(), 3)

		cards[0].Name, cards[0].Index = "mlx5_2", 20
		h.reportFound(append(found, cards[0])...)
		require.Zero(t, h.gather().Hosts[0].Missing, "the first card was repaired, and has the last number")
	})
}

// A device that gets back a name that was its own is not missing under the other one, although expect has kept that name.
func TestDeviceThatGetsBackItsExpectedNameIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, func(c *Config) { c.Expect = []string{"mlx5_0"} })
		h.reportFound(foundDevice("mlx5_0", 0))
		h.reportFound(foundDevice("rocep1s0", 0))
		require.True(t, isMissing(h.gather(), "mlx5_0"))
		h.reportFound(foundDevice("mlx5_0", 0))
		s := h.gather()
		require.Equal(t, status.ReasonRenamed, findDevice(s, "rocep1s0").Reason)
		require.Zero(t, s.Hosts[0].Missing)
	})
}

func TestRememberedDeviceWithAnotherUseIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		m.RememberDevice("mlx5_0", identityOf(sharedDevice("mlx5_0", 0)), true)
		driver := "vfio-pci"
		h := startMonitor(t, func(c *Config) {
			with(c)
			c.Function = func(string) verbs.PCIFunction { return verbs.PCIFunction{Driver: driver} }
		})
		h.reportFound()
		v := findDevice(h.gather(), "mlx5_0")
		require.Equal(t, status.ReasonReassigned, v.Reason)
		require.False(t, v.Missing())
		driver = "mlx5_core"
		require.True(t, isMissing(h.gather(), "mlx5_0"), "it was given back, and has no RDMA device")
	})
}

func TestRememberedDeviceOfAnotherNamespaceIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		m.RememberDevice("mlx5_0", identityOf(exclusiveDevice("mlx5_0", 0)), true)
		m.RememberPort("mlx5_0", 1, 100)
		h := startMonitor(t, with)
		h.reportFound(movedDevice("mlx5_0", 0))
		v := findDevice(h.gather(), "mlx5_0")
		require.Equal(t, status.ReasonOtherNetns, v.Reason)
		require.False(t, v.Missing())

		h.reportFound(exclusiveDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		sup.Started(h.ledger(), nil)
		sup.setStatus(status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: 42})
		h.batch(sup, openedItem("mlx5_0", 1), readingItem(1, h.mono.Load(), verbs.PortDown))
		requireExpected(t, h.gather(), "mlx5_0", 1, false, expect.ReasonReturned)
		h.runUntil(sup, 5*sec)
		h.batch(sup, eventItem(verbs.EventPortActive, 1, 1, 5*sec, 5*sec))
		requireExpected(t, h.gather(), "mlx5_0", 1, true, expect.ReasonRemembered)
		h.runUntil(sup, 6*sec)
		h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, 6*sec, 6*sec))
		requireExpected(t, h.gather(), "mlx5_0", 1, true, expect.ReasonRemembered)
	})
}

func TestFunctionsOfPodsAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		h := startMonitor(t, func(c *Config) {
			with(c)
			c.VirtualFunctions = verbs.VirtualAll
		})
		pf, vf := sharedDevice("mlx5_0", 0), sharedDevice("mlx5_1", 1)
		vf.VirtualFunction, vf.Parent = true, pf.PCI
		alone := sharedDevice("mlx5_9", 2)
		alone.VirtualFunction, alone.Parent = true, "0000:99:00.0"
		h.reportFound(pf, vf, alone)
		for _, name := range []string{"mlx5_0", "mlx5_1", "mlx5_9"} {
			h.openDevice(h.sup(name, 0), name)
		}
		h.runUntil(h.sup("mlx5_0", 0), 61*sec)
		h.gather()
		all := m.Devices()
		require.Len(t, all, 2)
		require.True(t, all[0].Name == "mlx5_0" && all[0].Missed)
		require.True(t, all[1].Name == "mlx5_9" && !all[1].Missed, "nobody misses a function, and its ports count")
		require.Len(t, all[1].Ports, 2)
	})
}

func TestRenamedDeviceTakesItsMemoryAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, with := withMemory()
		h := startMonitor(t, with)
		h.reportFound(sharedDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		h.runUntil(sup, 61*sec)
		h.gather()
		h.reportFound(sharedDevice("rail0", 0))
		synctest.Wait()
		require.Equal(t, []string{"rail0"}, slices.Collect(func(yield func(string) bool) {
			for _, d := range m.Devices() {
				if !yield(d.Name) {
					return
				}
			}
		}))
	})
}

func TestForgottenDeviceThatWasRemovedIsNoLongerReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, func(c *Config) { c.Expect = []string{"mlx5_1"} })
		h.reportFound(sharedDevice("mlx5_0", 0), sharedDevice("mlx5_1", 1))
		for _, name := range []string{"mlx5_0", "mlx5_1"} {
			sup := h.sup(name, 0)
			h.openDevice(sup, name)
			sup.Ended(status.End{Reason: status.ReasonRemoved})
			sup.Status(status.Status{State: status.StateStopped, Reason: status.ReasonRemoved})
		}
		h.reportFound()
		require.Len(t, h.gather().Devices, 2)
		h.Forget("mlx5_0", 0)
		h.Forget("mlx5_1", 0)
		h.Forget("mlx5_7", 0)
		s := h.gather()
		require.Len(t, s.Devices, 1, "expect goes on")
		require.Equal(t, "mlx5_1", s.Devices[0].Device)
	})
}
