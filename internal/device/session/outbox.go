package session

import (
	"sync"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// outboxLimit is the largest number of items that wait for a host that does not read.
const outboxLimit = 8192

// factsLimit is the largest number of FabricFacts' facts that wait for such a host, a few MiB.
const factsLimit = 1 << 15

// outbox queues items to be sent. Its writers never wait. Readings and GID tables beyond the
// limit are dropped; the writer then sends the next one even if nothing has changed. addFacts
// reports whether it dropped facts, because the host relies on getting all of them. Events and
// rounds do not pass through the outbox, but through the rings of the ledger.
type outbox struct {
	led   *ledger.Ledger
	mu    sync.Mutex
	now   *buffer
	taken *buffer     // the buffer that takeItems returned last
	ready wake.Signal // holds one token while items wait
}

// buffer is reusable memory for items.
type buffer struct {
	items []verbs.Item
	facts arena[verbs.FabricFacts]
	fact  sliceArena[verbs.FabricFact] // the Facts of the elements of facts
}

func (b *buffer) reset() {
	clear(b.items)
	b.items = b.items[:0]
	if cap(b.items) > 4*arenaChunk {
		b.items = nil // release the memory that was needed while the host did not read
	}
	b.facts.reset()
	b.fact.reset()
}

func newOutbox(led *ledger.Ledger) *outbox {
	return &outbox{led: led, now: &buffer{}, taken: &buffer{}, ready: wake.New()}
}

// add queues items for the host, and reports whether all of them were queued.
func (o *outbox) add(items ...verbs.Item) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := true
	for _, it := range items {
		if len(o.now.items) < outboxLimit || it.Probe != nil || it.Command != nil || it.FabricPort != nil {
			o.appendItem(it)
		} else {
			all = false
		}
	}
	o.ready.Send()
	return all
}

func (o *outbox) appendItem(it verbs.Item) {
	it.After = o.led.RunsWritten()
	o.now.items = append(o.now.items, it)
}

// addFacts queues a copy of a FabricEndpoint's facts, and reports whether there was room.
func (o *outbox) addFacts(f verbs.FabricFacts) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fullLocked() {
		return false
	}
	kept := o.now.facts.next()
	*kept = f
	kept.Facts = o.now.fact.copyOf(f.Facts)
	o.appendItem(verbs.Item{FabricFacts: kept})
	o.ready.Send()
	return true
}

// isFull reports whether addFacts would drop facts now.
func (o *outbox) isFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fullLocked()
}

func (o *outbox) fullLocked() bool {
	return len(o.now.items) >= outboxLimit || o.now.fact.kept >= factsLimit
}

// takeItems removes and returns the queued items. They are valid until the next call.
func (o *outbox) takeItems() []verbs.Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now, o.taken = o.taken, o.now
	o.now.reset()
	return o.taken.items
}

// sliceArena stores copies of slices back to back, and releases all of them at once.
type sliceArena[T any] struct {
	chunk []T // the current chunk; earlier chunks are referenced only by the copies in them
	kept  int // number of elements
}

const (
	sliceChunk    = 256             // least capacity of a chunk, in elements
	sliceChunkMax = 16 * sliceChunk // a reset releases a chunk with more capacity
)

func (r *sliceArena[T]) copyOf(from []T) []T {
	if cap(r.chunk)-len(r.chunk) < len(from) {
		r.chunk = make([]T, 0, max(sliceChunk, len(from)))
	}
	begin := len(r.chunk)
	r.chunk = append(r.chunk, from...)
	r.kept += len(from)
	return r.chunk[begin:len(r.chunk):len(r.chunk)]
}

func (r *sliceArena[T]) reset() {
	r.chunk, r.kept = r.chunk[:0], 0
	if cap(r.chunk) > sliceChunkMax {
		r.chunk = nil
	}
}

// arenaChunk is the number of elements in a chunk. After a reset an arena keeps one chunk.
const arenaChunk = 64

// arena allocates elements at stable addresses, and releases all of them at once.
type arena[T any] struct {
	chunks [][]T
	used   int
}

func (s *arena[T]) next() *T {
	if s.used == len(s.chunks)*arenaChunk {
		s.chunks = append(s.chunks, make([]T, arenaChunk))
	}
	e := &s.chunks[s.used/arenaChunk][s.used%arenaChunk]
	s.used++
	return e
}

func (s *arena[T]) reset() {
	s.used = 0
	if len(s.chunks) > 1 {
		s.chunks = [][]T{s.chunks[0]}
	}
}
