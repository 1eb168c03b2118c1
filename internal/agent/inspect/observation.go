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

// Watcher starts workers that watch a device. WorkerProgram implements it.
type Watcher interface {
	// Watch runs workers that watch a device until ctx ends.
	Watch(ctx context.Context, o verbs.Options, h worker.Handler) error
}

// Observation contains the reports of the workers that watched a device.
type Observation struct {
	Attr     *verbs.DeviceAttr // nil if the device was not opened
	Readings []verbs.Reading
	Commands []verbs.Command
	Rounds   []verbs.RoundItem
	Choices  []verbs.ProbeItem
	Runs     []verbs.Run
	Counts   ledger.ProbeCounts // sum over all probes

	Why    string        // why the device was not opened or was closed again; one line
	Reason status.Reason // Why as one word
	Stuck  bool          // a killed worker has not ended
}

// Observe runs workers that watch a device until enough returns true or ctx ends.
func Observe(ctx context.Context, w Watcher, o verbs.Options, enough func(*Observation) bool) *Observation {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &collector{isEnough: enough, stop: cancel}
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

// Refusal returns why the worker refused a probe, or "" if it refused none.
func (o *Observation) Refusal() string {
	for _, c := range o.Choices {
		if c.Method == verbs.MethodNone {
			return c.Reason
		}
	}
	return ""
}

// collector implements worker.Handler and builds an Observation. Its methods are not called concurrently, except for
// collectAll.
type collector struct {
	Observation
	isEnough      func(*Observation) bool
	stop          context.CancelFunc
	ledger        *ledger.Ledger
	collectRounds atomic.Pointer[func()] // collects good rounds, see worker.Handler; nil while no worker runs
}

// collectInterval is the time between two collections of good rounds. Workers do not send these by themselves.
const collectInterval = 50 * time.Millisecond

// collectAll collects the good rounds from the workers' rings until ctx ends.
func (c *collector) collectAll(ctx context.Context) {
	tick := time.NewTicker(collectInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if collect := c.collectRounds.Load(); collect != nil {
				(*collect)()
			}
		}
	}
}

// Started implements worker.Handler.
func (c *collector) Started(led *ledger.Ledger, collect func()) {
	c.ledger = led
	if collect != nil {
		c.collectRounds.Store(&collect)
	}
}

// Status implements worker.Handler.
func (*collector) Status(status.Status) {}

// Ended implements worker.Handler. The reason is ok if the collector stopped the worker.
func (c *collector) Ended(why status.End) {
	if why.Reason != status.ReasonOK {
		c.Reason, c.Why = why.Reason, why.Message
	}
	if c.ledger != nil {
		var s ledger.Contents
		c.ledger.CopyTo(&s)
		for _, p := range s.Probes {
			c.Counts = c.Counts.Add(p.ProbeCounts)
		}
		c.ledger = nil
	}
	c.stop()
}

// Batch implements worker.Handler.
func (c *collector) Batch(b verbs.Batch, _ status.Status) { c.RingItems(b.Items) }

// RingItems implements worker.Handler.
func (c *collector) RingItems(items []verbs.Item) {
	for _, it := range items {
		c.addItem(it)
	}
	if c.Attr != nil && c.isEnough(&c.Observation) {
		c.stop()
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
