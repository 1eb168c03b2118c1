package devices

import (
	"fmt"
	"net/netip"
	"slices"

	"rdma_events/internal/device/verbs"
)

// gidEntry is a [[gid]] of a scenario: an entry of the GID table is removed and added again.
type gidEntry struct {
	target
	window
	gid   int // index of the GID; -1: the last entry
	to    int // index at which the GID is added again; -1: the same
	index int // index of the entry's table, for errors
}

func readGID(t *table) gidEntry {
	e := gidEntry{
		target: readTarget(t, true),
		window: t.window("away"),
		gid:    int(t.integer("index", -1, 0, 1023)),
		to:     int(t.integer("to", -1, 0, 1023)),
		index:  t.index,
	}
	return e
}

// portGIDs returns the first count entries of a port's GID table. On Ethernet, these are the
// default GID and the GID of an address of the host, each for both versions of RoCE.
// Otherwise, or if count is 1, the table has only the port's own GID.
func portGIDs(device, port, count int, attr *verbs.PortAttr) []verbs.GID {
	local := netip.MustParseAddr(fmt.Sprintf("fe80::200:ff:fe%02x:%02x%02x", device/256, device%256, port)).As16()
	if attr.LinkLayer != verbs.LinkEthernet || count == 1 {
		return []verbs.GID{{Raw: local, NetDev: attr.NetDev}}
	}
	mapped := netip.AddrFrom4([4]byte{10, 4, byte(device), byte(port)}).As16()
	all := []verbs.GID{
		{Raw: local, Type: verbs.GIDRoCEv1}, {Raw: local, Type: verbs.GIDRoCEv2},
		{Raw: mapped, Type: verbs.GIDRoCEv1}, {Raw: mapped, Type: verbs.GIDRoCEv2},
	}[:count]
	for i := range all {
		all[i].Index, all[i].NetDev = i, attr.NetDev
	}
	return all
}

// planGID removes one entry of a port's table and adds it again. Each repetition moves the
// entry back to its previous index.
func (h *hardware) planGID(e gidEntry) error {
	for _, port := range h.portsOf(e.target) {
		l := &h.ports[port-1]
		at := e.gid
		if at < 0 {
			at = len(l.table) - 1
		}
		to := e.to
		if to < 0 {
			to = at
		}
		switch {
		case at >= len(l.table):
			return &problem{table: "gid", index: e.index, key: "index", text: fmt.Sprintf(
				"is %d; allowed: 0 to %d, the entries of port %d of %s", at, len(l.table)-1, port, h.attr.Name)}
		case to != at && to < len(l.table):
			return &problem{table: "gid", index: e.index, key: "to", text: fmt.Sprintf(
				"is %d, which has another GID; allowed: index, or from %d", to, len(l.table))}
		}
		gid := l.table[at]
		notify := func(due int64) { h.emit(pending{typ: verbs.EventGIDChange, port: port, count: 1, due: due}) }
		h.addEntry(e.schedule, true, func(due int64) {
			l.table = slices.DeleteFunc(l.table, func(g verbs.GID) bool { return g.Index == gid.Index })
			notify(due)
		})
		h.addEntry(e.shift(e.length), true, func(due int64) {
			if gid.Index == at {
				gid.Index = to
			} else {
				gid.Index = at
			}
			i, _ := slices.BinarySearchFunc(l.table, gid, func(a, b verbs.GID) int { return a.Index - b.Index })
			l.table = slices.Insert(l.table, i, gid)
			notify(due)
		})
	}
	return nil
}

// AddAddress adds the GID of another address to the end of a port's table now, like a new
// address of the host.
func (w *World) AddAddress(device string, port int, address netip.Addr) error {
	return w.changePort("add address", device, port, func(h *hardware, l *link, now int64) {
		next := 0
		if n := len(l.table); n > 0 {
			next = l.table[n-1].Index + 1
		}
		gid := verbs.GID{Index: next, Raw: address.As16(), NetDev: l.attr.NetDev}
		if l.attr.LinkLayer == verbs.LinkEthernet {
			gid.Type = verbs.GIDRoCEv2
		}
		l.table = append(l.table, gid)
		h.emit(pending{typ: verbs.EventGIDChange, port: port, count: 1, due: now})
	})
}

// ReadGIDs implements verbs.Device.
func (d *device) ReadGIDs(port int) (verbs.GIDTable, error) {
	t, err := d.readGIDs(port)
	return t, opError("ibv_query_gid_table", d.attr.Name, port, err)
}

func (d *device) readGIDs(port int) (verbs.GIDTable, error) {
	if !d.gate.enter() {
		return verbs.GIDTable{}, verbs.ErrClosed
	}
	defer d.gate.leave()
	if port < 1 || port > len(d.h.ports) {
		return verbs.GIDTable{}, fmt.Errorf("%w: the device has %d ports", verbs.ErrUnsupported, len(d.h.ports))
	}
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	now := d.w.clock()
	d.h.advance(now)
	if d.gone {
		return verbs.GIDTable{}, verbs.ErrNoDevice
	}
	return verbs.GIDTable{
		Port: port, Mono: now, Entries: slices.Clone(d.h.ports[port-1].table), Probed: d.probedGIDs(port),
	}, nil
}

// probedGIDs returns the indexes of the GIDs from which the open probes of a port send.
func (d *device) probedGIDs(port int) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var indexes []int
	for p := range d.probes {
		if i := p.c.GIDIndex; p.c.Port == port && p.c.Method != verbs.MethodFlush && i >= 0 && !slices.Contains(indexes, i) {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	return indexes
}
