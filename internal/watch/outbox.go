package watch

import (
	"sync"

	"rdma_events/internal/verbs"
)

// outboxLimit bounds what waits for a host that does not read. 8192 runs are
// several minutes of a link that flaps twenty times a second.
const outboxLimit = 8192

// outbox holds what has been seen and not been sent. Its writers never wait:
// equal consecutive runs are joined, and beyond the limit runs join the last
// one of their type and port, which keeps every count and gives up the order.
// Rounds and readings beyond the limit are left out; the ledger has the counts
// of rounds, and a newer reading follows.
type outbox struct {
	mu    sync.Mutex
	items []Item
	spare []Item
	ready chan struct{} // holds one token while items wait that are to go at once
	round chan struct{} // holds one token while rounds wait
}

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), round: make(chan struct{}, 1)}
}

func (o *outbox) add(items ...Item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, it := range items {
		if it.Run != nil {
			o.addRun(*it.Run)
		} else if len(o.items) < outboxLimit || it.Ended != nil || it.Probe != nil {
			o.items = append(o.items, it)
		}
	}
	signal(o.ready)
}

// addRound is add for a round, which may wait for company: at a short interval
// the sending would cost more than the probing, and disturb it.
func (o *outbox) addRound(r *RoundItem) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.items) < outboxLimit {
		o.items = append(o.items, Item{Round: r})
	}
	signal(o.round)
}

func (o *outbox) addRuns(runs []verbs.Run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range runs {
		o.addRun(r)
	}
	signal(o.ready)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (o *outbox) addRun(r verbs.Run) {
	last := len(o.items) - 1
	stop := max(last-1, -1) // look at the last item only
	if len(o.items) >= outboxLimit {
		stop = -1
	}
	for i := last; i > stop; i-- {
		if have := o.items[i].Run; have != nil && have.Type == r.Type && have.Port == r.Port {
			join(have, r)
			return
		}
	}
	o.items = append(o.items, Item{Run: &r})
}

func join(have *verbs.Run, r verbs.Run) {
	have.Count += r.Count
	have.Last = r.Last
	have.HoldSum += r.HoldSum
	have.AckSum += r.AckSum
	have.HoldMax = max(have.HoldMax, r.HoldMax)
	have.AckMax = max(have.AckMax, r.AckMax)
}

// take returns what waits. The slice is valid until the next call of take.
func (o *outbox) take() []Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	items := o.items
	clear(o.spare)
	o.items, o.spare = o.spare[:0], items
	return items
}
