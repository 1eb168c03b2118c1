//go:build guest

package fabric

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// holdings are what a plugin and its worker hold.
type holdings struct {
	listening       int // TCP sockets
	queuePairs      map[string]int
	plugin, worker  int64 // threads
	regions, queues int   // memory regions and completion queues
}

// TestWithoutAListNothingIsMade compares a plugin without the table fabric with one whose table has no list, and with one that
// probes.
func TestWithoutAListNothingIsMade(t *testing.T) {
	n := guest.AddNetwork(t, 1)
	dir := t.TempDir()
	c := config{device: n.Device(1), name: hostName(1), list: filepath.Join(dir, "peers"), key: filepath.Join(dir, "key"), listen: loopbackAddress(1) + ":14791"}
	writeFile(t, c.list, "h1 leaf1 127.0.0.1\nh2 leaf1 127.0.0.2\n")
	writeFile(t, c.key, randomKey())
	head, _, _ := strings.Cut(c.text(), "  [inputs.rdma_events.fabric]")
	nothing := measureHoldings(t, n, head)
	t.Logf("without the table: %+v", nothing)
	if nothing.listening != 0 {
		t.Errorf("want no socket that listens, got %d", nothing.listening)
	}
	off := c
	off.list = ""
	without := measureHoldings(t, n, off.text())
	t.Logf("without a list: %+v", without)
	if without.listening != 0 || !maps.Equal(without.queuePairs, nothing.queuePairs) || without.regions != nothing.regions ||
		without.queues != nothing.queues || without.worker > nothing.worker+1 {
		t.Errorf("want what there is without the table, %+v, got %+v", nothing, without)
	}
	on := measureHoldings(t, n, c.text())
	t.Logf("with a list: %+v", on)
	if on.listening != 1 || on.queuePairs["UD"] != nothing.queuePairs["UD"]+paths || on.regions != nothing.regions+1 {
		t.Errorf("want a socket, %d queue pairs and a memory region more, got %+v", paths, on)
	}
}

// measureHoldings runs a plugin until it has been open for some seconds, and returns what it holds then.
func measureHoldings(t *testing.T, n *guest.Network, conf string) holdings {
	t.Helper()
	before := len(guest.ListeningPorts(t))
	h := &host{t: t, number: 1, name: hostName(1), device: n.Device(1), config: conf}
	h.start()
	h.awaitOpen()
	pauseTest(t, 3*time.Second)
	worker := h.worker()
	found := holdings{
		listening: len(guest.ListeningPorts(t)) - before, queuePairs: map[string]int{},
		plugin: rig.Threads(t, h.plugin.PID()), worker: rig.Threads(t, worker),
		regions: len(guest.Resources(t, "mr", n.Device(1))), queues: len(guest.Resources(t, "cq", n.Device(1))),
	}
	for _, qp := range guest.Resources(t, "qp", n.Device(1)) {
		kind, _ := qp["type"].(string)
		found.queuePairs[kind]++
	}
	h.end()
	return found
}
