package devices

import (
	"slices"
	"sort"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// datagram is a probe or an echo under way. An echo has the members from rx on.
type datagram struct {
	at          int64 // when it is received
	echo        bool
	from        uint32 // the queue pair that sent it
	path        int
	session     uint64
	seq         uint64
	rx, tx, dry uint64
	delay       int64
}

// nearby is how long a datagram takes to another Fabric of this world, in ns.
const nearby = int64(8 * time.Microsecond)

// inbox has the datagrams that a Fabric receives, by the moments when they come.
type inbox struct {
	mu     sync.Mutex
	all    []datagram
	closed bool
	came   wake.Signal // ends the wait of Run
}

// put adds a datagram. The goroutine of Run calls it.
func (b *inbox) put(m datagram) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	i := sort.Search(len(b.all), func(i int) bool { return b.all[i].at > m.at })
	b.all = slices.Insert(b.all, i, m)
}

// deliver is put for other goroutines. Like a device, it drops a datagram for which no receive is left.
func (b *inbox) deliver(m datagram) {
	if b.waiting(m.path, m.at) < fabricReceives {
		b.put(m)
		b.came.Send()
	}
}

// waiting returns how many datagrams of a path there are by a moment.
func (b *inbox) waiting(path int, at int64) int {
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

// close drops what comes from now on.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.all = true, nil
}

// first returns when the next datagram comes, or never.
func (b *inbox) first() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return never
	}
	return b.all[0].at
}

// take returns the next datagram, which there must be.
func (b *inbox) take() datagram {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.all[0]
	b.all = b.all[1:]
	return m
}

// connections has the RC queue pairs of a Fabric that answer writes, and of which queue pair.
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

// connected reports whether a queue pair is connected to one of a peer.
func (c *connections) connected(own, peer uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, ok := c.to[own]
	return ok && to == peer
}

// fabricEnds has the Fabrics of a world. They may be each other's peers, as ports of one host are.
type fabricEnds struct {
	mu   sync.Mutex
	all  []*fabricEnd
	last uint32 // number of a queue pair
}

// leastNumber is above the queue pairs of the kernel.
const leastNumber = 0x100

// number returns that of a new queue pair.
func (e *fabricEnds) number() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next()
}

func (e *fabricEnds) next() uint32 {
	e.last = leastNumber + (e.last+1)%(maxNumber-leastNumber)
	return e.last
}

// add gives a Fabric its queue pairs and their Q_Key, and keeps it.
func (e *fabricEnds) add(f *fabricEnd, qkey uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range f.c.Paths {
		f.ud = append(f.ud, e.next())
	}
	f.qkey = qkey
	e.all = append(e.all, f)
}

func (e *fabricEnds) remove(f *fabricEnd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = slices.DeleteFunc(e.all, func(other *fabricEnd) bool { return other == f })
}

// find returns the Fabric that has a queue pair, nil if it is of another host.
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

// wire returns the median of one way to a near host, in ns: two adapters and a switch, or two kernels.
func (p *portSpec) wire() float64 {
	switch {
	case p.software:
		return 14_000
	case p.attr.LinkLayer == verbs.LinkInfiniBand:
		return 900
	}
	return 1400
}

// distance returns how much longer the way to a host is than that to a near one: 0 to 0.5 of it.
func (p *far) distance() float64 { return float64(p.w.key("", 0, 0, "distance of "+p.host)%100) / 200 }

// ackTimeout returns how long the device waits for an acknowledgement before it sends again: 4.096 us << 14 in software, and up to
// four times that in adapters (InfiniBand specification, 9.7.6.1.3).
func (h *hardware) ackTimeout() int64 {
	const least = 4096 << 14
	if h.ports[0].software {
		return least
	}
	return 4 * least
}
