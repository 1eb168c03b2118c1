package days

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/device/verbs"
)

// action is something that an administrator or a scheduler does to a host on an ordinary day.
type action struct {
	name     string
	do       func(h *host)
	warnings []string // that may be reported, as in "function-removed mlx5_4"
}

// each is the time between two actions. A counter is looked at for half an hour at most, but for flaps in a day.
const each = 31 * time.Minute

// routineActions returns the actions of the day and, for each, the alerts that it may raise. The list was written before the day was
// first played.
func routineActions() []action {
	return []action{
		{name: "the host is rebooted, and its links train for 40 s", do: func(h *host) {
			h.stop()
			time.Sleep(5 * time.Minute)
			for name := range h.nics {
				h.next++
				h.nics[name].found.Index = h.next
			}
			h.state("mlx5_0", 1, verbs.PortDown)
			h.state("mlx5_1", 1, verbs.PortInit)
			h.begin()
			h.passes(40 * time.Second)
			h.state("mlx5_0", 1, verbs.PortActive)
			h.state("mlx5_1", 1, verbs.PortActive)
		}},
		{name: "the plugin is restarted", do: func(h *host) { h.restart(5 * time.Second) }},
		{name: "the driver is reloaded for two minutes, with release", do: func(h *host) { h.reload("mlx5_1", 2*time.Minute) }},
		{name: "the firmware is updated for five minutes, with release", do: func(h *host) { h.reload("mlx5_2", 5*time.Minute) }},
		{name: "a virtual function is serviced for 20 s", warnings: []string{"function-removed mlx5_4"}, do: func(h *host) {
			address := h.nics["mlx5_4"].found.PCI
			h.event("mlx5_4", 0, verbs.EventDeviceFatal)
			h.passes(time.Second)
			h.functions.Delete(address)
			n := h.unplug("mlx5_4")
			h.passes(20 * time.Second)
			h.functions.Store(address, verbs.PCIFunction{Driver: "mlx5_core", Instance: 1000})
			h.replug("mlx5_4", n)
		}},
		{name: "a pod borrows a device for ten minutes", do: func(h *host) {
			n := h.nics["mlx5_3"]
			here := n.found
			h.event("mlx5_3", 0, verbs.EventDeviceFatal) // the kernel takes the device from its users
			h.passes(time.Second)
			for _, w := range h.plugin.list() {
				if w.device == "mlx5_3" {
					w.lose()
				}
			}
			n.found = verbs.Found{Name: here.Name, Index: -1, Node: here.Node, PCI: here.PCI, Driver: here.Driver, Netns: verbs.NetnsOther}
			h.discover()
			h.passes(10 * time.Minute)
			n.found = here
			n.found.Added++
			h.state("mlx5_3", 1, verbs.PortDown) // the kernel closes a network device that it moves
			h.discover()
			h.passes(10 * time.Minute)
			h.state("mlx5_3", 1, verbs.PortActive)
		}},
		{name: "the guest is paused for a migration", do: func(h *host) {
			h.paused.Add(int64(40 * time.Second))
			h.passes(time.Minute)
			h.jumped.Add(int64(20 * time.Second))
		}},
		{name: "the MTU is changed", do: func(h *host) { h.nics["mlx5_0"].ports[0].MTU = 1024 }},
		{name: "a cable is moved within 40 s", do: func(h *host) {
			h.state("mlx5_0", 1, verbs.PortDown)
			h.passes(40 * time.Second)
			h.state("mlx5_0", 1, verbs.PortActive)
		}},
		{name: "a link drops for 40 ms", do: func(h *host) {
			h.event("mlx5_0", 1, verbs.EventPortErr)
			h.event("mlx5_0", 1, verbs.EventPortActive)
		}},
		{name: "a device is renamed", do: func(h *host) {
			n := h.nics["mlx5_2"]
			delete(h.nics, "mlx5_2")
			n.found.Name = "rail2"
			h.nics["rail2"] = n
			h.discover()
		}},
		{name: "a cable is put into an unused port", do: func(h *host) { h.state("mlx5_5", 2, verbs.PortActive) }},
		{name: "a port is listed in expected_down, and its cable is taken away", do: func(h *host) {
			h.down["mlx5_5"] = true
			h.restart(5 * time.Second)
			h.passes(time.Minute)
			h.state("mlx5_5", 2, verbs.PortDown)
		}},
		{name: "all links are set to half their speed, and the plugin is told to forget their devices", do: func(h *host) {
			for _, n := range h.nics {
				for i := range n.ports {
					n.ports[i].RateGbps = 200
				}
			}
			h.passes(time.Minute)
			for name := range h.nics {
				h.memory.Forget(name, 0)
				h.plugin.monitor.Forget(name, 0)
			}
		}},
		{name: "a soft device is added for ten minutes and deleted", do: func(h *host) {
			n := h.plug("rxe0", 1)
			n.found.PCI, n.found.Driver, n.found.Soft = "", "", true
			h.discover()
			h.passes(10 * time.Minute)
			h.unplug("rxe0")
			h.passes(2 * time.Minute)
		}},
		{name: "the standby takes over from the subnet manager", do: func(h *host) {
			for name, n := range h.nics {
				n.ports[0].SMLID = 2
				h.event(name, 1, verbs.EventSMChange)
			}
		}},
		{name: "an address is added", do: func(h *host) { h.event("mlx5_0", 1, verbs.EventGIDChange) }},
		{name: "a leg is added to a bond, and comes up after 40 s", do: func(h *host) {
			h.legs = [2]int{3, 2}
			h.passes(40 * time.Second)
			h.legs = [2]int{3, 3}
		}},
		{name: "an unused card is taken out, and the plugin is told to forget it", do: func(h *host) {
			h.released["mlx5_5"] = true
			h.review()
			h.passes(time.Minute)
			h.unplug("mlx5_5")
			h.memory.Forget("mlx5_5", 0)
			h.plugin.monitor.Forget("mlx5_5", 0)
			h.passes(10 * time.Minute)
			delete(h.released, "mlx5_5")
			h.review()
		}},
		// A driver in switchdev mode has one RDMA port for the cable, and one for each function that may exist.
		{name: "a pod's scalable function is added to a switch, and deleted with the pod", do: func(h *host) {
			n := h.plug("mlx5_6", 3)
			n.uplink = 3
			for i := range n.ports {
				n.ports[i].LinkLayer = verbs.LinkEthernet
			}
			h.state("mlx5_6", 1, verbs.PortDown)
			h.discover()
			h.passes(10 * time.Minute)
			h.state("mlx5_6", 2, verbs.PortDown)
			h.passes(5 * time.Minute)
			h.restart(5 * time.Second)
			h.passes(5 * time.Minute)
		}},
		// Only the engines can see that hosts differ: fabric-lists-differ takes half an hour, fabric-key ten minutes.
		{name: "the fabric's list is rolled out, to this host 20 minutes before another", do: func(h *host) {
			h.other.otherHas = h.wall().Add(20 * time.Minute)
		}},
		{name: "the fabric's key is changed, on this host five minutes before its peers", do: func(h *host) {
			h.other.newKey = true
			h.restart(5 * time.Second)
			h.passes(5 * time.Minute)
			h.other.newKey = false
		}},
		{name: "the plugin is updated, and restarted twice", do: func(h *host) {
			h.restart(20 * time.Second)
			h.passes(30 * time.Second)
			h.restart(20 * time.Second)
		}},
	}
}

// reload has the driver of a device reloaded while the device is released.
func (h *host) reload(name string, lasts time.Duration) {
	h.released[name] = true
	h.review()
	h.passes(10 * time.Second)
	n := h.unplug(name)
	h.passes(lasts)
	h.replug(name, n)
	h.passes(10 * time.Second)
	delete(h.released, name)
	h.review()
}

// settledHost returns a host with six cards that has been without a problem for some minutes. One port of the last card is unused.
func settledHost(t *testing.T) *host {
	h := newOrdinary(t)
	h.settleIn()
	return h
}

// newOrdinary is the ordinary host before the plugin has started.
func newOrdinary(t *testing.T) *host {
	h := newHost(t, "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5")
	h.nics["mlx5_3"].found.Netns = verbs.NetnsOwn
	h.state("mlx5_5", 2, verbs.PortDown)
	h.nics["mlx5_0"].ports[1].NetDev = "bond0"
	h.legs = [2]int{2, 2}
	return h
}

// settleIn starts the plugin and waits until it has seen the host.
func (h *host) settleIn() {
	h.begin()
	h.passes(10 * time.Minute)
	require.Empty(h.t, h.problems())
}

func TestRoutineDayRaisesNoCriticalProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { playRoutineDay(t, settledHost(t), func(*action, time.Time) {}) })
}

// playRoutineDay has health judge each action. It calls begins before each of them.
func playRoutineDay(t *testing.T, h *host, begins func(a *action, at time.Time)) {
	warnings := 0
	for _, a := range routineActions() {
		begins(&a, h.wall())
		begin := len(h.seen)
		end := h.elapsed() + each
		a.do(h)
		h.passes(max(time.Minute, end-h.elapsed()))
		for _, s := range h.seen[begin:] {
			of := fmt.Sprintf("%s %s", s.ID, s.Device)
			t.Logf("%s: %s from %v to %v: %s", a.name, problemName(&s.Problem), s.from, s.till, s.Text)
			if s.Severity == alerts.Critical {
				t.Errorf("%s: %s", a.name, problemName(&s.Problem))
				continue
			}
			warnings++
			require.Contains(t, a.warnings, of, a.name)
		}
	}
	t.Logf("%d actions, %d warnings", len(routineActions()), warnings)
	h.passes(each)
	require.Empty(t, h.problems(), "in the end")
}
