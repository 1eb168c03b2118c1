package hardware

import (
	"context"
	"errors"

	"rdma_events/internal/ledger"
	"rdma_events/internal/process"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// gathering collects the reports of one worker. No two calls of it overlap.
type gathering struct {
	attr     *verbs.DeviceAttr
	readings []verbs.Reading
	rounds   []verbs.RoundItem
	choices  []verbs.ProbeItem
	runs     []verbs.Run
	counts   ledger.ProbeCounts // the sum over all its probes
	why      string             // why the device was not opened or not kept open; one line
	stuck    bool               // the worker cannot be killed

	enough func(*gathering) bool
	done   context.CancelFunc
	led    *ledger.Ledger
}

// gather has a worker watch a device until enough returns true or ctx ends.
func gather(ctx context.Context, w Worker, o verbs.Options, enough func(*gathering) bool) *gathering {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &gathering{enough: enough, done: cancel}
	err := w.Watch(ctx, o, g)
	if err != nil && g.why == "" {
		g.why = err.Error()
	}
	g.stuck = errors.Is(err, process.ErrAbandoned)
	return g
}

// Started implements worker.Handler.
func (g *gathering) Started(led *ledger.Ledger) { g.led = led }

// Status implements worker.Handler.
func (*gathering) Status(status.Status) {}

// Ended implements worker.Handler. The reason is ok if the gathering ended the
// worker.
func (g *gathering) Ended(why status.End) {
	if why.Reason != status.ReasonOK {
		g.why = why.Message
	}
	if g.led != nil {
		var s ledger.Snapshot
		g.led.Snapshot(&s)
		for _, p := range s.Probes {
			g.counts = g.counts.Add(p.ProbeCounts)
		}
		g.led = nil
	}
	g.done()
}

// Batch implements worker.Handler.
func (g *gathering) Batch(b verbs.Batch, _ status.Status) {
	for _, it := range b.Items {
		g.item(it)
	}
	if g.attr != nil && g.enough(g) {
		g.done()
	}
}

func (g *gathering) item(it verbs.Item) {
	switch {
	case it.Opened != nil:
		attr := *it.Opened
		g.attr = &attr
	case it.Reading != nil:
		g.readings = append(g.readings, *it.Reading)
	case it.Round != nil:
		g.rounds = append(g.rounds, *it.Round)
	case it.Probe != nil:
		g.choices = append(g.choices, *it.Probe)
	case it.Run != nil:
		g.runs = append(g.runs, *it.Run)
	}
}
