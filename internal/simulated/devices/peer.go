package devices

import "time"

// peerKind is what becomes of another host, by its name in scenarios.
type peerKind string

// The kinds. A host that no [[peer]] names is well.
const (
	peerStopped       peerKind = "stopped"        // all its processes are: its devices alone answer
	peerWorkerStopped peerKind = "worker_stopped" // its host process goes on
	peerBusy          peerKind = "busy"           // its echoes are late
	peerDown          peerKind = "down"           // it is off, or has no such plugin
	peerRestarts      peerKind = "restarts"       // its worker dies, and has a successor at the end
	peerInactive      peerKind = "inactive"       // its port is not active
	peerRefuses       peerKind = "refuses"        // it refuses to meet
)

// peerEntry is a [[peer]] of a scenario: how other hosts are for a time. The times and names are those of the other host, whose
// devices are those of the profile.
type peerEntry struct {
	target
	window
	host   string // a glob
	kind   peerKind
	took   int64 // busy: of an echo, in ns
	reason Refusal
	index  int // of its table, for errors
}

// Refusal is why another host refuses to meet: the word of verdict.Reason, "" if it does not refuse.
type Refusal string

// The refusals that concern a host as a whole. The others are those of a port.
const (
	RefusesKey     Refusal = "key"
	RefusesHost    Refusal = "not_listed"
	RefusesVersion Refusal = "version"
)

// refusals has each Refusal, and whether it concerns a host as a whole.
func refusals() map[Refusal]bool {
	return map[Refusal]bool{
		RefusesKey: true, RefusesHost: true, RefusesVersion: true,
		"full": false, "no_common_gid": false, "pkey": false, "unsupported": false,
	}
}

// peerReaders returns for each kind the function that reads its keys beyond what, host, at, every, times and for.
func peerReaders() map[peerKind]func(*table, *peerEntry) {
	none := func(*table, *peerEntry) {}
	device := func(t *table, e *peerEntry) { e.target = readTarget(t, false) }
	port := func(t *table, e *peerEntry) { e.target = readTarget(t, true) }
	return map[peerKind]func(*table, *peerEntry){
		peerStopped:       none,
		peerDown:          none,
		peerWorkerStopped: device,
		peerRestarts:      device,
		peerInactive:      port,
		peerBusy: func(t *table, e *peerEntry) {
			device(t, e)
			e.took = t.span("took", int64(5*time.Second), time.Microsecond)
		},
		peerRefuses: func(t *table, e *peerEntry) {
			if e.reason = pick(t, "reason", "", refusals()); !refusals()[e.reason] {
				port(t, e)
			}
		},
	}
}

func readPeer(t *table) peerEntry {
	readers := peerReaders()
	e := peerEntry{
		target: target{device: "*"}, window: t.window("for"), index: t.index,
		host: readHosts(t), kind: pick(t, "what", "", readers),
	}
	if read := readers[e.kind]; read != nil {
		read(t, &e)
	}
	return e
}

// renews reports whether a kind leaves new queue pairs with new numbers behind.
func (k peerKind) renews() bool { return k == peerDown || k == peerRestarts || k == peerInactive }

// far is a port of another host, as a scenario has it. It does not change.
type far struct {
	w            *World
	host, device string
	port         int
	entries      []peerEntry
}

// far returns a port of another host.
func (w *World) far(host, device string, port int) *far {
	p := &far{w: w, host: host, device: device, port: port}
	for _, e := range w.peers {
		if matches(e.host, host) && e.covers(device, port) {
			p.entries = append(p.entries, e)
		}
	}
	return p
}

// now returns the entry of any of some kinds that is in effect at a moment, nil if there is none, and the end of its period.
func (p *far) now(at int64, kinds ...peerKind) (e *peerEntry, end int64) {
	for i := range p.entries {
		for _, k := range kinds {
			if p.entries[i].kind != k {
				continue
			}
			if end, ok := p.entries[i].active(at); ok {
				return &p.entries[i], end
			}
		}
	}
	return nil, 0
}

// is reports whether any of some kinds is in effect at a moment.
func (p *far) is(at int64, kinds ...peerKind) bool {
	e, _ := p.now(at, kinds...)
	return e != nil
}

// after returns the first moment, not earlier than at, when none of some kinds is in effect, or never.
func (p *far) after(at int64, kinds ...peerKind) int64 {
	for at != never {
		e, end := p.now(at, kinds...)
		if e == nil {
			return at
		}
		at = end
	}
	return never
}

// epoch returns the Epoch of the Fabric that the port has at a moment, 0 if it has none.
func (p *far) epoch(at int64) uint64 {
	if p.is(at, peerDown, peerRestarts, peerInactive) {
		return 0
	}
	generation := int64(0)
	for _, e := range p.entries {
		if e.kind.renews() {
			generation += e.shift(e.length).count(at)
		}
	}
	return max(1, p.w.key(p.device, p.port, int(generation), "epoch of "+p.host))
}
