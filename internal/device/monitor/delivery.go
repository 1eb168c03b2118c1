package monitor

import (
	"sync"
	"time"

	"rdma_events/internal/telemetry/aggregate"
)

// delivery measures how long asynchronous events of all devices take from the library to
// the monitor. Probe rounds are not measured, because the worker delays them to send
// several at once. Of a run of events only the first is measured: it waited longest.
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
