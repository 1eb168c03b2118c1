package session

import (
	"sync"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// outboxLimit is the most items that wait for a host that does not read. 8192 runs are
// several minutes of a link that flaps twenty times a second.
const outboxLimit = 8192

// factsLimit is the most facts of Fabrics that wait likewise, a few MiB.
const factsLimit = 1 << 15

// outbox holds the items that were not sent yet. Its writers never wait. Equal
// consecutive runs are joined. Beyond the limit a run joins the last one of its type and
// port, which keeps every count but loses the order. Rounds, readings and GID tables
// beyond the limit are left out: the ledger has the counts of rounds, and a newer reading
// or table follows. Who adds facts of a Fabric hears that they are left out: their host counts
// on having them all.
type outbox struct {
	mu    sync.Mutex
	now   *buffer
	taken *buffer     // the buffer whose items take returned last
	ready wake.Signal // holds one token while items wait that must be sent at once
	round wake.Signal // holds one token while rounds wait
}

// buffer is memory for items. It is reused, so that the reader allocates nothing for an
// event.
type buffer struct {
	items  []verbs.Item
	runs   slab[verbs.Run]
	rounds slab[verbs.RoundItem]
	facts  slab[verbs.FabricFacts]
	fact   row[verbs.FabricFact] // of facts
}

func (b *buffer) reset() {
	clear(b.items)
	b.items = b.items[:0]
	if cap(b.items) > 4*slabChunk {
		b.items = nil // release the memory of a storm of events
	}
	b.runs.reset()
	b.rounds.reset()
	b.facts.reset()
	b.fact.reset()
}

func newOutbox() *outbox {
	return &outbox{now: &buffer{}, taken: &buffer{}, ready: wake.New(), round: wake.New()}
}

// add reports whether all items were added.
func (o *outbox) add(items ...verbs.Item) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := true
	for _, it := range items {
		switch {
		case it.Run != nil:
			o.addRun(*it.Run)
		case len(o.now.items) < outboxLimit || it.Probe != nil || it.Command != nil || it.FabricPort != nil:
			o.now.items = append(o.now.items, it)
		default:
			all = false
		}
	}
	o.ready.Send()
	return all
}

// addRounds adds rounds of one probe; the other fields of each item are those of r. take
// returns them together. Good rounds may wait for others before they are sent; a bad one
// is sent at once.
func (o *outbox) addRounds(r verbs.RoundItem, rounds ...verbs.Round) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := o.round
	for _, r.Round = range rounds {
		if len(o.now.items) < outboxLimit {
			kept := o.now.rounds.next()
			*kept = r
			o.now.items = append(o.now.items, verbs.Item{Round: kept})
		}
		if r.Outcome != verbs.OutcomeSuccess {
			to = o.ready
		}
	}
	if len(rounds) > 0 {
		to.Send()
	}
}

// addFacts adds a copy of what a Fabric saw, and reports whether there was room. Facts that are not urgent may wait for others,
// as good rounds do.
func (o *outbox) addFacts(f verbs.FabricFacts, urgent bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full() {
		return false
	}
	kept := o.now.facts.next()
	*kept = f
	kept.Facts = o.now.fact.keep(f.Facts)
	o.now.items = append(o.now.items, verbs.Item{FabricFacts: kept})
	if urgent {
		o.ready.Send()
	} else {
		o.round.Send()
	}
	return true
}

// isFull reports whether the facts of a Fabric would be left out now.
func (o *outbox) isFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.full()
}

func (o *outbox) full() bool { return len(o.now.items) >= outboxLimit || o.now.fact.kept >= factsLimit }

func (o *outbox) addRuns(runs []verbs.Run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range runs {
		o.addRun(r)
	}
	o.ready.Send()
}

func (o *outbox) addRun(r verbs.Run) {
	last := len(o.now.items) - 1
	stop := max(last-1, -1) // compare with the last item only
	if len(o.now.items) >= outboxLimit {
		stop = -1
	}
	for i := last; i > stop; i-- {
		if have := o.now.items[i].Run; have != nil && have.Type == r.Type && have.Port == r.Port {
			join(have, r)
			return
		}
	}
	kept := o.now.runs.next()
	*kept = r
	o.now.items = append(o.now.items, verbs.Item{Run: kept})
}

func join(have *verbs.Run, r verbs.Run) {
	have.Count += r.Count
	have.Last = r.Last
	have.HoldSum += r.HoldSum
	have.AckSum += r.AckSum
	have.HoldMax = max(have.HoldMax, r.HoldMax)
	have.AckMax = max(have.AckMax, r.AckMax)
}

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
