package inspect

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// Watcher has workers watch a device, as Program does.
type Watcher interface {
	// Watch has workers watch a device until ctx ends.
	Watch(ctx context.Context, o verbs.Options, h worker.Handler) error
}

// Observation has the reports of the workers that watched a device.
type Observation struct {
	Attr     *verbs.DeviceAttr // nil if the device was not opened
	Readings []verbs.Reading
	Commands []verbs.Command
	Rounds   []verbs.RoundItem
	Choices  []verbs.ProbeItem
	Runs     []verbs.Run
	Counts   ledger.ProbeCounts // the sum over all probes

	Why    string        // why the device was not opened or not kept open; one line
	Reason status.Reason // the same as one word
	Stuck  bool          // a worker cannot be killed
}

// Observe has workers watch a device until enough returns true or ctx ends.
func Observe(ctx context.Context, w Watcher, o verbs.Options, enough func(*Observation) bool) *Observation {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &collector{enough: enough, done: cancel}
	var collecting sync.WaitGroup
	collecting.Go(func() { c.collectAll(ctx) })
	err := w.Watch(ctx, o, c)
	cancel()
	collecting.Wait()
	if err != nil && c.Why == "" {
		c.Reason, c.Why = status.ReasonStuck, err.Error()
	}
	c.Stuck = errors.Is(err, process.ErrAbandoned)
	return &c.Observation
}

// Refusal returns why there is no probe, "" if the worker refused none.
func (o *Observation) Refusal() string {
	for _, c := range o.Choices {
		if c.Method == verbs.MethodNone {
			return c.Reason
		}
	}
	return ""
}

// collector makes an Observation. No two calls of it overlap.
type collector struct {
	Observation
	enough func(*Observation) bool
	done   context.CancelFunc
	led    *ledger.Ledger
	rings  atomic.Pointer[func()] // see worker.Handler; nil: no worker runs
}

// collectEvery is how often good rounds are taken, of which no worker tells.
const collectEvery = 50 * time.Millisecond

// collectAll takes what the workers have left in their rings until ctx ends.
func (c *collector) collectAll(ctx context.Context) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if collect := c.rings.Load(); collect != nil {
				(*collect)()
			}
		}
	}
}

// Started implements worker.Handler.
func (c *collector) Started(led *ledger.Ledger, collect func()) {
	c.led = led
	if collect != nil {
		c.rings.Store(&collect)
	}
}

// Status implements worker.Handler.
func (*collector) Status(status.Status) {}

// Ended implements worker.Handler. The reason is ok if the collector ended the worker.
func (c *collector) Ended(why status.End) {
	if why.Reason != status.ReasonOK {
		c.Reason, c.Why = why.Reason, why.Message
	}
	if c.led != nil {
		var s ledger.Contents
		c.led.CopyTo(&s)
		for _, p := range s.Probes {
			c.Counts = c.Counts.Add(p.ProbeCounts)
		}
		c.led = nil
	}
	c.done()
}

// Batch implements worker.Handler.
func (c *collector) Batch(b verbs.Batch, _ status.Status) { c.RingItems(b.Items) }

// RingItems implements worker.Handler.
func (c *collector) RingItems(items []verbs.Item) {
	for _, it := range items {
		c.addItem(it)
	}
	if c.Attr != nil && c.enough(&c.Observation) {
		c.done()
	}
}

func (c *collector) addItem(it verbs.Item) {
	switch {
	case it.Opened != nil:
		attr := *it.Opened
		c.Attr = &attr
	case it.Reading != nil:
		c.Readings = append(c.Readings, *it.Reading)
	case it.Command != nil:
		c.Commands = append(c.Commands, *it.Command)
	case it.Round != nil:
		c.Rounds = append(c.Rounds, *it.Round)
	case it.Probe != nil:
		c.Choices = append(c.Choices, *it.Probe)
	case it.Run != nil:
		c.Runs = append(c.Runs, *it.Run)
	}
}
