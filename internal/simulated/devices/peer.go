package devices

import "time"

// peerKind is a kind of condition of another host. The value is its name in scenarios.
type peerKind string

// The kinds. A host without a [[peer]] has no fault.
const (
	peerStopped       peerKind = "stopped"        // all its processes are stopped: only its devices answer
	peerWorkerStopped peerKind = "worker_stopped" // its worker is stopped, and its host process runs
	peerBusy          peerKind = "busy"           // its echoes are late
	peerDown          peerKind = "down"           // it is off, or has no plugin
	peerRestarts      peerKind = "restarts"       // its worker ends, and another one starts at the end of the period
	peerInactive      peerKind = "inactive"       // its port is not active
	peerRefuses       peerKind = "refuses"        // it refuses to connect
)

// peerEntry is a [[peer]] of a scenario: a condition of other hosts for a period. The device and port are on the other host, which has the
// devices of the profile.
type peerEntry struct {
	target
	window
	host   string // a glob
	kind   peerKind
	took   int64 // delay of an echo in ns, if kind is busy
	reason Refusal
	index  int // of its table, for errors
}

// Refusal is the reason why another host refuses to connect, with the value of a verdict.Reason. It is "" if the host does not refuse.
type Refusal string

// These refusals concern all ports of a host. The others concern a single port.
const (
	RefusesKey     Refusal = "key"
	RefusesHost    Refusal = "not_listed"
	RefusesVersion Refusal = "version"
)

// allRefusals returns all Refusals. The value is true if the refusal concerns all ports of a host.
func allRefusals() map[Refusal]bool {
	return map[Refusal]bool{
		RefusesKey: true, RefusesHost: true, RefusesVersion: true,
		"full": false, "no_common_gid": false, "pkey": false, "unsupported": false,
	}
}

// peerReaders returns for each kind the function that reads its keys, except what, host, at, every, times and for.
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
			if e.reason = choiceFrom(t, "reason", "", allRefusals()); !allRefusals()[e.reason] {
				port(t, e)
			}
		},
	}
}

func readPeer(t *table) peerEntry {
	readers := peerReaders()
	e := peerEntry{
		target: target{device: "*"}, window: t.window("for"), index: t.index,
		host: readHosts(t), kind: choiceFrom(t, "what", "", readers),
	}
	if read := readers[e.kind]; read != nil {
		read(t, &e)
	}
	return e
}

// changesNumbers reports whether the port has new queue pairs with new numbers after a condition of this kind.
func (k peerKind) changesNumbers() bool {
	return k == peerDown || k == peerRestarts || k == peerInactive
}

// remotePort is a port of another host in a scenario. It is immutable.
type remotePort struct {
	w            *World
	host, device string
	port         int
	entries      []peerEntry
}

// remotePort returns a port of another host.
func (w *World) remotePort(host, device string, port int) *remotePort {
	p := &remotePort{w: w, host: host, device: device, port: port}
	for _, e := range w.peers {
		if matchesGlob(e.host, host) && e.covers(device, port) {
			p.entries = append(p.entries, e)
		}
	}
	return p
}

// activeEntry returns an entry of one of the kinds that is in effect at a time, and the end of its period. It returns nil if there is none.
func (p *remotePort) activeEntry(at int64, kinds ...peerKind) (e *peerEntry, end int64) {
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

// hasActive reports whether an entry of one of the kinds is in effect at a time.
func (p *remotePort) hasActive(at int64, kinds ...peerKind) bool {
	e, _ := p.activeEntry(at, kinds...)
	return e != nil
}

// firstWithout returns the first time, not earlier than at, at which no entry of the kinds is in effect, or never.
func (p *remotePort) firstWithout(at int64, kinds ...peerKind) int64 {
	for at != never {
		e, end := p.activeEntry(at, kinds...)
		if e == nil {
			return at
		}
		at = end
	}
	return never
}

// epochAt returns the Epoch of the port's Fabric at a time, or 0 if it has none.
func (p *remotePort) epochAt(at int64) uint64 {
	if p.hasActive(at, peerDown, peerRestarts, peerInactive) {
		return 0
	}
	generation := int64(0)
	for _, e := range p.entries {
		if e.kind.changesNumbers() {
			generation += e.shift(e.length).count(at)
		}
	}
	return max(1, p.w.randomSeed(p.device, p.port, int(generation), "epoch of "+p.host))
}
