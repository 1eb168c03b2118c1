package devices

import (
	"path"

	"rdma_events/internal/device/verbs"
)

// conditionEntry is a [[fabric]] of a scenario: a period in which packets between ports of this host and other hosts are lost or delayed.
type conditionEntry struct {
	target // ports of this host
	window
	host      string // glob for the other hosts
	path      int    // path of the datagrams, allPaths or writePath
	direction string
	loss      float64 // share of lost packets
	delay     int64   // delay of the other packets in ns
	index     int     // index of its table, for errors
}

// The special values of conditionEntry.path and of the path of a packet.
const (
	allPaths  = -1
	writePath = verbs.MaxFabricPaths
)

// The directions of packets, seen from this host. A write goes forward, and its acknowledgement in reverse.
const (
	forward = "forward"
	reverse = "reverse"
	both    = "both"
)

func readCondition(t *table) conditionEntry {
	e := conditionEntry{
		target: readTarget(t, true), window: t.window("for"), index: t.index,
		host: readHosts(t), path: readPath(t),
		direction: t.choice("direction", both, []string{forward, reverse, both}),
		delay:     t.span("delay", 0, 0),
	}
	all := 1.0
	if e.delay > 0 {
		all = 0
	}
	e.loss = t.number("loss", all, 0, 1)
	return e
}

// readHosts reads the glob for the other hosts of an entry.
func readHosts(t *table) string {
	hosts := t.text("host", "*")
	if _, err := path.Match(hosts, ""); err != nil {
		t.fail("host", "is no glob; allowed: the name of a host, or one with * ? [a-z]")
	}
	return hosts
}

// readPath reads the path of an entry.
func readPath(t *table) int {
	const word = "write"
	switch v := t.value("path").(type) {
	case nil:
		return allPaths
	case int64:
		if v >= 0 && v < verbs.MaxFabricPaths {
			return int(v)
		}
	case string:
		if v == word {
			return writePath
		}
	}
	t.fail("path", "is %v; allowed: 0 to %d, %q", t.values["path"], verbs.MaxFabricPaths-1, word)
	return allPaths
}

// appliesTo reports whether an entry applies to packets between a port and a host.
func (e *conditionEntry) appliesTo(device string, port int, host string) bool {
	return e.covers(device, port) && matchesGlob(e.host, host)
}

// covers reports whether the target includes a port.
func (t target) covers(device string, port int) bool {
	return matchesGlob(t.device, device) && (t.port == 0 || t.port == port)
}

// matchesGlob reports whether a name matches a valid glob.
func matchesGlob(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// lossAndDelay returns the share of packets that arrive, and their delay, for packets sent in a direction on a path at a time.
func lossAndDelay(ways []conditionEntry, direction string, path int, at int64) (arrives float64, delay int64) {
	arrives = 1
	for i := range ways {
		e := &ways[i]
		if e.direction != both && e.direction != direction || e.path != allPaths && e.path != path {
			continue
		}
		if _, ok := e.active(at); ok {
			arrives *= 1 - e.loss
			delay += e.delay
		}
	}
	return arrives, delay
}
