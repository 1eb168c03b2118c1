package devices

import (
	"cmp"
	"path"

	"rdma_events/internal/device/verbs"
)

// plan adds the entries of a scenario to the devices. The times of a scenario are
// relative to epoch. Entries with the same time happen in the order of planning: faults,
// links, GIDs, counters, events.
func (w *World) plan(s scenario, epoch int64) error {
	for _, f := range s.faults {
		if err := w.planFault(f, epoch); err != nil {
			return err
		}
	}
	for _, l := range s.links {
		l.at += epoch
		where := problem{table: "link", index: l.index}
		if err := w.forEachDevice(l.target, where, func(h *hardware) { h.planLink(l) }); err != nil {
			return err
		}
	}
	for _, g := range s.gids {
		g.at += epoch
		where := problem{table: "gid", index: g.index}
		var wrong error
		err := w.forEachDevice(g.target, where, func(h *hardware) {
			if err := h.planGID(g); wrong == nil {
				wrong = err
			}
		})
		if err := cmp.Or(err, wrong); err != nil {
			return err
		}
	}
	for _, c := range s.commands {
		c.at += epoch
		where := problem{table: "command", index: c.index}
		if err := w.forEachDevice(c.target, where, func(h *hardware) { h.slowness = append(h.slowness, c) }); err != nil {
			return err
		}
	}
	for _, c := range s.counters {
		c.at += epoch
		where := problem{table: "counter", index: c.index}
		if err := w.forEachDevice(c.target, where, func(h *hardware) { h.planCounter(c) }); err != nil {
			return err
		}
	}
	for _, a := range s.apps {
		a.at += epoch
		where := problem{table: "app", index: a.index}
		if err := w.forEachDevice(a.target, where, func(h *hardware) { h.apps = append(h.apps, a) }); err != nil {
			return err
		}
	}
	for _, e := range s.events {
		e.at += epoch
		where := problem{table: "event", index: e.index}
		if err := w.forEachDevice(e.target, where, func(h *hardware) { h.planEvent(e) }); err != nil {
			return err
		}
	}
	return w.planFabric(s, epoch)
}

// planFabric adds the conditions of other hosts and of the network to them.
func (w *World) planFabric(s scenario, epoch int64) error {
	known := func(*hardware) {}
	for _, e := range s.conditions {
		e.at += epoch
		if err := w.forEachDevice(e.target, problem{table: "fabric", index: e.index}, known); err != nil {
			return err
		}
		w.conditions = append(w.conditions, e)
	}
	for _, e := range s.peers {
		e.at += epoch
		if err := w.forEachDevice(e.target, problem{table: "peer", index: e.index}, known); err != nil {
			return err
		}
		w.peers = append(w.peers, e)
	}
	return nil
}

func (w *World) planFault(f fault, epoch int64) error {
	f.at += epoch
	if f.kind.ofTracer() {
		w.tracer[f.kind] = append(w.tracer[f.kind], f)
		return nil
	}
	where := problem{table: "fault", index: f.index}
	var on []*hardware
	if err := w.forEachDevice(f.target, where, func(h *hardware) { on = append(on, h) }); err != nil {
		return err
	}
	if f.kind == renamed && len(on) != 1 {
		where.key, where.text = "device", "matches several devices; allowed: one, as a name is given to one"
		return &where
	}
	if f.kind == renamed && w.isNameTaken(f.to) {
		where.key, where.text = "to", "is the name of another device; allowed: names other than "+w.deviceNames()
		return &where
	}
	for _, h := range on {
		h.planFault(f)
	}
	return nil
}

// forEachDevice calls do for every device that an entry selects.
func (w *World) forEachDevice(t target, where problem, do func(*hardware)) error {
	matched, withPort := false, false
	for _, h := range w.hardware {
		ok, err := path.Match(t.device, h.attr.Name)
		if err != nil {
			where.key, where.text = "device", "is no glob; allowed: a name, or one with * ? [a-z]"
			return &where
		}
		if !ok {
			continue
		}
		matched = true
		if t.port <= len(h.ports) {
			withPort = true
			do(h)
		}
	}
	switch {
	case !matched:
		where.key, where.text = "device", "matches no device; allowed: "+w.deviceNames()+", or a glob"
		return &where
	case !withPort:
		where.key, where.text = "port", "no device of the profile that is meant has this port"
		return &where
	}
	return nil
}

func (h *hardware) planFault(f fault) {
	h.faults[f.kind] = append(h.faults[f.kind], f)
	switch f.kind {
	case crash:
		h.addEntry(f.schedule, false, func(due int64) { h.emit(pending{signal: f.signal, due: due}) })
	case removed:
		h.addEntry(f.schedule, true, h.remove)
		h.addEntry(f.shift(f.length), true, func(int64) { h.gone-- })
	}
}

func (h *hardware) planLink(l linkEntry) {
	for _, port := range h.portsOf(l.target) {
		p := &h.ports[port-1]
		h.addEntry(l.schedule, true, func(due int64) { p.down, p.why = p.down+1, l.why; h.updateLink(port, due) })
		h.addEntry(l.shift(l.length), true, func(due int64) { p.down, p.lanes = p.down-1, l.lanes; h.updateLink(port, due) })
	}
}

func (h *hardware) planEvent(e eventEntry) {
	ports := []int{0}
	if e.typ.Scope() == verbs.ScopePort {
		ports = h.portsOf(e.target)
	}
	if e.typ.Scope() == verbs.ScopeDevice {
		h.notices = append(h.notices, e)
	}
	h.addEntry(e.schedule, false, func(due int64) {
		for _, port := range ports {
			if e.smLID > 0 && h.ports[port-1].attr.LinkLayer == verbs.LinkInfiniBand {
				h.ports[port-1].attr.SMLID = e.smLID
			}
			h.emit(pending{typ: e.typ, port: port, count: e.count, due: due})
		}
	})
}

// portsOf returns the ports that an entry selects.
func (h *hardware) portsOf(t target) []int {
	if t.port != 0 {
		return []int{t.port}
	}
	var all []int
	for i := range h.ports {
		all = append(all, i+1)
	}
	return all
}
