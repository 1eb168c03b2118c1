package devices

import (
	"path"

	"rdma_events/internal/device/verbs"
)

// wayEntry is a [[fabric]] of a scenario: a period in which packets between ports and other hosts are lost or late.
type wayEntry struct {
	target // the own ports
	window
	host      string // a glob of the hosts at the other end
	path      int    // allPaths, writePath, or that of the datagrams
	direction string
	loss      float64 // the share of the packets
	delay     int64   // of those that are not lost, in ns
	index     int     // of its table, for errors
}

// What wayEntry.path and the path of a packet may be, besides that of a datagram.
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

func readWay(t *table) wayEntry {
	e := wayEntry{
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

// readHosts reads which other hosts an entry is about.
func readHosts(t *table) string {
	hosts := t.text("host", "*")
	if _, err := path.Match(hosts, ""); err != nil {
		t.fail("host", "is no glob; allowed: the name of a host, or one with * ? [a-z]")
	}
	return hosts
}

// readPath reads which packets an entry is about.
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

// leadsTo reports whether an entry is about packets between a port and a host.
func (e *wayEntry) leadsTo(device string, port int, host string) bool {
	return e.covers(device, port) && matches(e.host, host)
}

// covers reports whether a port is one of the target.
func (t target) covers(device string, port int) bool {
	return matches(t.device, device) && (t.port == 0 || t.port == port)
}

// matches reports whether a glob that was read fits a name.
func matches(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// fate returns what share of the packets arrives that leave in a direction, on a path, at a moment, and how much later.
func fate(ways []wayEntry, direction string, path int, at int64) (arrives float64, delay int64) {
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
