package monitor

import (
	"sync"
	"time"

	"rdma_events/internal/aggregate"
)

// delivery is how long asynchronous events take from the library to the
// monitor, over all devices; probe rounds wait for company and tell nothing
// about it. Of a run of events the first, which waited longest, is measured.
type delivery struct {
	mu     sync.Mutex
	window *aggregate.Window
}

func newDelivery(span time.Duration) delivery {
	return delivery{window: aggregate.NewWindow(span)}
}

func (d *delivery) add(now, since int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.window.Add(now, max(0, now-since))
}

func (d *delivery) percentiles(now int64, tmp *aggregate.Scratch) aggregate.Percentiles {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.window.Percentiles(now, tmp)
}
