package ledger

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// FabricCounts counts what the Fabric of a port did apart from its own probes, in the order of struct ledger_fabric in
// internal/device/native/native.h.
type FabricCounts struct {
	Events, Acked uint64
	Spurious      uint64 // events without a completion
	Echoed        uint64 // probes of peers that were answered
	Refused       uint64 // those that were not: too many, or the device did not send
	Foreign       uint64 // datagrams that are of no pair of the port, or arrive again
	Dry           uint64 // times that all receives of a path were used up
}

// FabricPairCounts counts the probes and writes of a pair since it was joined, in the order of struct ledger_fabric_pair. Of a
// pair whose probes this side answers, only Answered counts.
type FabricPairCounts struct {
	Sent, Answered                uint64
	Writes, WritesOK, WriteErrors uint64
}

const (
	numFabricCounts = int(unsafe.Sizeof(FabricCounts{}) / unsafe.Sizeof(uint64(0)))
	numPairCounts   = int(unsafe.Sizeof(FabricPairCounts{}) / unsafe.Sizeof(uint64(0)))
)

// Fabric is the state of one fabric slot.
type Fabric struct {
	Port    int
	Lane    Lane // of the thread that echoes and probes
	Control Lane // of the thread that makes and destroys queues
	FabricCounts
	Pairs []FabricPair
}

// FabricPair is the last pair in one of the places of a port. A pair that has left keeps its counts until another is joined
// in its place.
type FabricPair struct {
	Session uint64 // not 0
	FabricPairCounts
}

func (c *FabricCounts) all() *[numFabricCounts]uint64 {
	return (*[numFabricCounts]uint64)(unsafe.Pointer(c))
}

func (c *FabricPairCounts) all() *[numPairCounts]uint64 {
	return (*[numPairCounts]uint64)(unsafe.Pointer(c))
}

// Add returns the sum of both, field by field.
func (c FabricCounts) Add(o FabricCounts) FabricCounts {
	for i, n := range o.all() {
		c.all()[i] += n
	}
	return c
}

// load copies counts that a worker writes. It reads Acked before Events, so that no event is acknowledged before it is read.
func (c *FabricCounts) load() FabricCounts {
	var out FabricCounts
	from, to := c.all(), out.all()
	for i := numFabricCounts - 1; i >= 0; i-- {
		to[i] = atomic.LoadUint64(&from[i])
	}
	out.Events = max(out.Events, out.Acked)
	return out
}

// load copies the pair's counts, answers before what they answer. Its session is 0 if there is none, or if another one
// began meanwhile.
func (s *fabricPairSlot) load() FabricPair {
	p := FabricPair{Session: atomic.LoadUint64(&s.session)}
	from, to := s.counts.all(), p.all()
	for i := numPairCounts - 1; i >= 0; i-- {
		to[i] = atomic.LoadUint64(&from[i])
	}
	if atomic.LoadUint64(&s.session) != p.Session {
		return FabricPair{}
	}
	return p
}

func (p *FabricPair) believable() bool { return p.Session != 0 && slices.Max(p.all()[:]) < Believable }

// fabrics copies the fabric slots into s.
func (l *Ledger) fabrics(s *Snapshot) {
	s.Fabrics = s.Fabrics[:0]
	for i := range min(atomic.LoadUint32(&l.p.fabrics), FabricSlots) {
		slot := &l.p.fabric[i]
		f := Fabric{
			Port: int(slot.port), Lane: slot.thread.get(), Control: slot.ctl.get(), FabricCounts: slot.counts.load(),
			Pairs: s.formerPairs(),
		}
		if slices.Max(f.all()[:]) >= Believable {
			continue
		}
		for k := range slot.pair {
			if p := slot.pair[k].load(); p.believable() {
				f.Pairs = append(f.Pairs, p)
			}
		}
		s.Fabrics = append(s.Fabrics, f)
	}
}

// formerPairs returns the slice of pairs of the Fabric that the next one replaces, for its memory.
func (s *Snapshot) formerPairs() []FabricPair {
	n := len(s.Fabrics)
	if n == cap(s.Fabrics) {
		return nil
	}
	return s.Fabrics[:n+1][n].Pairs[:0]
}

// AddFabric finds or adds the slot of a port's Fabric and returns its index, or ErrFull. A Fabric that is made anew goes on
// in the slot of its predecessor.
func (l *Ledger) AddFabric(port int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := atomic.LoadUint32(&l.p.fabrics)
	for i := range min(n, FabricSlots) {
		if int(l.p.fabric[i].port) == port {
			return int(i), nil
		}
	}
	if n >= FabricSlots {
		return 0, ErrFull
	}
	l.p.fabric[n].port = uint32(port)
	atomic.StoreUint32(&l.p.fabrics, n+1)
	return int(n), nil
}

// FabricLane records the call that the thread of a Fabric is in.
func (l *Ledger) FabricLane(index int, c Call, now int64) {
	l.p.fabric[index].thread.set(Lane{Call: c, Beat: now})
}

// FabricControl records the call of the thread that makes and destroys the queues of a Fabric, as Control does.
func (l *Ledger) FabricControl(index int, to Lane) { l.p.fabric[index].ctl.set(to) }

// AddFabricCounts adds c to the counts of a Fabric. Only the Fabric's thread may call it.
func (l *Ledger) AddFabricCounts(index int, c FabricCounts) {
	to, from := l.p.fabric[index].counts.all(), c.all()
	for i := range to {
		atomic.AddUint64(&to[i], from[i])
	}
}

// JoinFabricPair begins the counts of a session in a place of a Fabric. Nothing may count there meanwhile.
func (l *Ledger) JoinFabricPair(index, pair int, session uint64) {
	s := &l.p.fabric[index].pair[pair]
	atomic.StoreUint64(&s.session, 0)
	for i := range s.counts.all() {
		atomic.StoreUint64(&s.counts.all()[i], 0)
	}
	atomic.StoreUint64(&s.session, session)
}

// AddFabricPair adds c to the counts of the pair in a place of a Fabric. Only the Fabric's thread may call it.
func (l *Ledger) AddFabricPair(index, pair int, c FabricPairCounts) {
	to, from := l.p.fabric[index].pair[pair].counts.all(), c.all()
	for i := range to {
		atomic.AddUint64(&to[i], from[i])
	}
}
