package ledger

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// FabricCounts counts the completion events and echoes of a port's FabricEndpoint. The fields have the order of struct
// ledger_fabric in internal/device/native/native.h.
type FabricCounts struct {
	Events, Acked uint64
	Spurious      uint64 // events without a completion
	Echoed        uint64 // probes of peers that were answered
	Refused       uint64 // probes of peers that were not answered: too many, or the device did not send
	Foreign       uint64 // datagrams that belong to no pair of the port, or are duplicates
	Dry           uint64 // times that all receives of a path were used up
}

// FabricPairCounts counts the probes and writes of a pair since it was joined. The fields have the order of struct
// ledger_fabric_pair. If this side is the responder of the pair, only Answered counts.
type FabricPairCounts struct {
	Sent, Answered                uint64
	Writes, WritesOK, WriteErrors uint64
}

const (
	numFabricCounts = int(unsafe.Sizeof(FabricCounts{}) / unsafe.Sizeof(uint64(0)))
	numPairCounts   = int(unsafe.Sizeof(FabricPairCounts{}) / unsafe.Sizeof(uint64(0)))
)

// FabricState is a copy of one fabric slot.
type FabricState struct {
	Port    int
	Call    ThreadCall // of the thread that echoes and probes
	Control ThreadCall // of the thread that creates and destroys queues
	FabricCounts
	Pairs []FabricPair
}

// FabricPair is a copy of the last pair in a pair slot of a port. After the pair has left, its counts stay until another
// pair joins in the slot.
type FabricPair struct {
	Session uint64 // not 0
	FabricPairCounts
}

func (c *FabricCounts) asArray() *[numFabricCounts]uint64 {
	return (*[numFabricCounts]uint64)(unsafe.Pointer(c))
}

func (c *FabricPairCounts) asArray() *[numPairCounts]uint64 {
	return (*[numPairCounts]uint64)(unsafe.Pointer(c))
}

// Add returns the sum of both, field by field.
func (c FabricCounts) Add(o FabricCounts) FabricCounts {
	for i, n := range o.asArray() {
		c.asArray()[i] += n
	}
	return c
}

// load copies counts that a worker is writing. It reads Acked before Events, so that Acked never exceeds Events.
func (c *FabricCounts) load() FabricCounts {
	var out FabricCounts
	from, to := c.asArray(), out.asArray()
	for i := numFabricCounts - 1; i >= 0; i-- {
		to[i] = atomic.LoadUint64(&from[i])
	}
	out.Events = max(out.Events, out.Acked)
	return out
}

// load copies the pair's counts. It reads answers before probes, and completed writes before posted ones. The session of the
// result is 0 if the slot has no pair, or if another pair joined meanwhile.
func (s *fabricPairSlot) load() FabricPair {
	p := FabricPair{Session: atomic.LoadUint64(&s.session)}
	from, to := s.counts.asArray(), p.asArray()
	for i := numPairCounts - 1; i >= 0; i-- {
		to[i] = atomic.LoadUint64(&from[i])
	}
	if atomic.LoadUint64(&s.session) != p.Session {
		return FabricPair{}
	}
	return p
}

func (p *FabricPair) isPlausible() bool {
	return p.Session != 0 && slices.Max(p.asArray()[:]) < ImplausibleCount
}

// copyFabrics copies the fabric slots into s.
func (l *Ledger) copyFabrics(s *Contents) {
	s.Fabrics = s.Fabrics[:0]
	for i := range min(atomic.LoadUint32(&l.p.fabrics), FabricSlots) {
		slot := &l.p.fabric[i]
		f := FabricState{
			Port: int(slot.port), Call: slot.thread.get(), Control: slot.ctl.get(), FabricCounts: slot.counts.load(),
			Pairs: s.reusablePairs(),
		}
		if slices.Max(f.asArray()[:]) >= ImplausibleCount {
			continue
		}
		for k := range slot.pair {
			if p := slot.pair[k].load(); p.isPlausible() {
				f.Pairs = append(f.Pairs, p)
			}
		}
		s.Fabrics = append(s.Fabrics, f)
	}
}

// reusablePairs returns an empty slice with the memory of the pairs that the next element of s.Fabrics had before.
func (s *Contents) reusablePairs() []FabricPair {
	n := len(s.Fabrics)
	if n == cap(s.Fabrics) {
		return nil
	}
	return s.Fabrics[:n+1][n].Pairs[:0]
}

// AddFabric finds or adds the slot of a port's FabricEndpoint and returns its index, or ErrFull. A recreated endpoint gets
// the slot of its predecessor.
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

// SetFabricCall records the call that the thread of a FabricEndpoint is in; now is CLOCK_MONOTONIC in ns.
func (l *Ledger) SetFabricCall(index int, c Call, now int64) {
	l.p.fabric[index].thread.set(ThreadCall{Call: c, Since: now})
}

// SetFabricControlCall records the call of the thread that creates and destroys the queues of a FabricEndpoint, as
// SetControlCall does.
func (l *Ledger) SetFabricControlCall(index int, c ThreadCall) { l.p.fabric[index].ctl.set(c) }

// AddFabricCounts adds c to the counts of a FabricEndpoint. Only the endpoint's thread may call it.
func (l *Ledger) AddFabricCounts(index int, c FabricCounts) {
	to, from := l.p.fabric[index].counts.asArray(), c.asArray()
	for i := range to {
		atomic.AddUint64(&to[i], from[i])
	}
}

// JoinFabricPair clears the counts of a pair slot and starts to count for a session. No other thread may count in the slot
// meanwhile.
func (l *Ledger) JoinFabricPair(index, pair int, session uint64) {
	s := &l.p.fabric[index].pair[pair]
	atomic.StoreUint64(&s.session, 0)
	for i := range s.counts.asArray() {
		atomic.StoreUint64(&s.counts.asArray()[i], 0)
	}
	atomic.StoreUint64(&s.session, session)
}

// AddFabricPairCounts adds c to the counts of a pair slot. Only the thread of the FabricEndpoint may call it.
func (l *Ledger) AddFabricPairCounts(index, pair int, c FabricPairCounts) {
	to, from := l.p.fabric[index].pair[pair].counts.asArray(), c.asArray()
	for i := range to {
		atomic.AddUint64(&to[i], from[i])
	}
}
