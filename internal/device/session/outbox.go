package session

import (
	"sync"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// outboxLimit is the most items that wait for a host that does not read.
const outboxLimit = 8192

// factsLimit is the most facts of Fabrics that wait likewise, a few MiB.
const factsLimit = 1 << 15

// outbox holds the items that were not sent yet. Its writers never wait. Readings and GID tables
// beyond the limit are left out: a newer reading or table follows. Who adds facts of a Fabric hears
// that they are left out: their host counts on having them all. Events and rounds are not here, but
// in the rings of the ledger.
type outbox struct {
	led   *ledger.Ledger
	mu    sync.Mutex
	now   *buffer
	taken *buffer     // the buffer whose items take returned last
	ready wake.Signal // holds one token while items wait
}

// buffer is memory for items. It is reused.
type buffer struct {
	items []verbs.Item
	facts slab[verbs.FabricFacts]
	fact  row[verbs.FabricFact] // of facts
}

func (b *buffer) reset() {
	clear(b.items)
	b.items = b.items[:0]
	if cap(b.items) > 4*slabChunk {
		b.items = nil // release the memory of a host that did not read for a while
	}
	b.facts.reset()
	b.fact.reset()
}

func newOutbox(led *ledger.Ledger) *outbox {
	return &outbox{led: led, now: &buffer{}, taken: &buffer{}, ready: wake.New()}
}

// add reports whether all items were added.
func (o *outbox) add(items ...verbs.Item) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := true
	for _, it := range items {
		if len(o.now.items) < outboxLimit || it.Probe != nil || it.Command != nil || it.FabricPort != nil {
			o.append(it)
		} else {
			all = false
		}
	}
	o.ready.Send()
	return all
}

func (o *outbox) append(it verbs.Item) {
	it.After = o.led.RunsWritten()
	o.now.items = append(o.now.items, it)
}

// addFacts adds a copy of what a Fabric saw, and reports whether there was room.
func (o *outbox) addFacts(f verbs.FabricFacts) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full() {
		return false
	}
	kept := o.now.facts.next()
	*kept = f
	kept.Facts = o.now.fact.keep(f.Facts)
	o.append(verbs.Item{FabricFacts: kept})
	o.ready.Send()
	return true
}

// isFull reports whether the facts of a Fabric would be left out now.
func (o *outbox) isFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.full()
}

func (o *outbox) full() bool { return len(o.now.items) >= outboxLimit || o.now.fact.kept >= factsLimit }

// take returns the items that wait. They are valid until the next call of take.
func (o *outbox) take() []verbs.Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now, o.taken = o.taken, o.now
	o.now.reset()
	return o.taken.items
}

// row holds copies of slices, one behind the other, and releases all of them at once.
type row[T any] struct {
	chunk []T // the newest; those that are full belong to the copies in them
	kept  int // elements
}

const (
	rowChunk    = 256           // elements that a chunk has space for at least
	rowChunkMax = 16 * rowChunk // and for how many at most one that was reset keeps its memory
)

func (r *row[T]) keep(from []T) []T {
	if cap(r.chunk)-len(r.chunk) < len(from) {
		r.chunk = make([]T, 0, max(rowChunk, len(from)))
	}
	begin := len(r.chunk)
	r.chunk = append(r.chunk, from...)
	r.kept += len(from)
	return r.chunk[begin:len(r.chunk):len(r.chunk)]
}

func (r *row[T]) reset() {
	r.chunk, r.kept = r.chunk[:0], 0
	if cap(r.chunk) > rowChunkMax {
		r.chunk = nil
	}
}

// slabChunk is how many elements a chunk has. A slab that was reset keeps one chunk.
const slabChunk = 64

// slab allocates elements, which stay where they are, and releases all of them at once.
type slab[T any] struct {
	chunks [][]T
	used   int
}

func (s *slab[T]) next() *T {
	if s.used == len(s.chunks)*slabChunk {
		s.chunks = append(s.chunks, make([]T, slabChunk))
	}
	e := &s.chunks[s.used/slabChunk][s.used%slabChunk]
	s.used++
	return e
}

func (s *slab[T]) reset() {
	s.used = 0
	if len(s.chunks) > 1 {
		s.chunks = [][]T{s.chunks[0]}
	}
}
