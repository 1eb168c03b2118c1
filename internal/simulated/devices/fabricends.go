package devices

import (
	"slices"
	"sort"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// datagram is a probe or an echo in transit. Only an echo uses the fields from rx on.
type datagram struct {
	at          int64 // time at which it is received
	echo        bool
	from        uint32 // number of the sending queue pair
	path        int
	session     uint64
	seq         uint64
	rx, tx, dry uint64
	delay       int64
}

// nearby is the transmission time to another Fabric of this world, in ns.
const nearby = int64(8 * time.Microsecond)

// inbox has the datagrams that a Fabric receives, sorted by the time of receipt.
type inbox struct {
	mu      sync.Mutex
	all     []datagram
	closed  bool
	arrived wake.Signal // ends the wait of Run
}

// insert adds a datagram. Only the goroutine of Run calls it.
func (b *inbox) insert(m datagram) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	i := sort.Search(len(b.all), func(i int) bool { return b.all[i].at > m.at })
	b.all = slices.Insert(b.all, i, m)
}

// deliver adds a datagram from another goroutine. Like a device, it drops a datagram if no receive is left.
func (b *inbox) deliver(m datagram) {
	if b.countArrived(m.path, m.at) < fabricReceives {
		b.insert(m)
		b.arrived.Send()
	}
}

// countArrived returns the number of datagrams of a path that are received by a time.
func (b *inbox) countArrived(path int, at int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for i := range b.all {
		if b.all[i].path == path && b.all[i].at <= at {
			n++
		}
	}
	return n
}

// close drops all datagrams, including later ones.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.all = true, nil
}

// firstArrival returns the time at which the next datagram is received, or never.
func (b *inbox) firstArrival() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return never
	}
	return b.all[0].at
}

// pop removes and returns the next datagram. There must be one.
func (b *inbox) pop() datagram {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.all[0]
	b.all = b.all[1:]
	return m
}

// connections has the RC queue pairs of a Fabric that acknowledge writes, each with the peer's queue pair.
type connections struct {
	mu sync.Mutex
	to map[uint32]uint32
}

func (c *connections) set(own, peer uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to[own] = peer
}

func (c *connections) remove(own uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.to, own)
}

// connected reports whether a queue pair is connected to a peer's queue pair.
func (c *connections) connected(own, peer uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, ok := c.to[own]
	return ok && to == peer
}

// fabricEnds has the Fabrics of a world. They may be peers of each other, like ports of one host.
type fabricEnds struct {
	mu   sync.Mutex
	all  []*fabricEnd
	last uint32 // last assigned number of a queue pair
}

// minNumber is higher than the numbers of the kernel's queue pairs.
const minNumber = 0x100

// newNumber returns the number of a new queue pair.
func (e *fabricEnds) newNumber() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nextNumber()
}

func (e *fabricEnds) nextNumber() uint32 {
	e.last = minNumber + (e.last+1)%(maxNumber-minNumber)
	return e.last
}

// add adds a Fabric, and assigns its queue pairs and their Q_Key.
func (e *fabricEnds) add(f *fabricEnd, qkey uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range f.c.Paths {
		f.ud = append(f.ud, e.nextNumber())
	}
	f.qkey = qkey
	e.all = append(e.all, f)
}

func (e *fabricEnds) remove(f *fabricEnd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = slices.DeleteFunc(e.all, func(other *fabricEnd) bool { return other == f })
}

// find returns the Fabric with a queue pair, or nil if the queue pair belongs to another host.
func (e *fabricEnds) find(ud, qkey uint32) *fabricEnd {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.all {
		if f.qkey == qkey && slices.Contains(f.ud, ud) {
			return f
		}
	}
	return nil
}

// wire returns the median transmission time in one direction to a near host, in ns: two adapters and a switch, or two kernels.
func (p *portSpec) wire() float64 {
	switch {
	case p.software:
		return 14_000
	case p.attr.LinkLayer == verbs.LinkInfiniBand:
		return 900
	}
	return 1400
}

// extraDistance returns the additional transmission time to a host as a share of that to a near one, from 0 to 0.5.
func (p *remotePort) extraDistance() float64 {
	return float64(p.w.randomSeed("", 0, 0, "distance of "+p.host)%100) / 200
}

// ackTimeout returns the time after which the device retransmits without an acknowledgement: 4.096 us << 14 in software, and four times that,
// the maximum, in adapters (InfiniBand specification, 9.7.6.1.3).
func (h *hardware) ackTimeout() int64 {
	const least = 4096 << 14
	if h.ports[0].software {
		return least
	}
	return 4 * least
}
