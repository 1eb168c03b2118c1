package inspect

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/inspect/doctor"
	"rdma_events/internal/ledger"
	"rdma_events/internal/process"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
	"rdma_events/internal/worker"
)

const (
	// tryRounds is how many rounds of a probe measure how long a wake-up takes.
	tryRounds = 5
	// tryPace is the time between two rounds, tryTimeout the limit for one round.
	tryPace    = 100 * time.Millisecond
	tryTimeout = 500 * time.Millisecond
)

// Program is a worker program that also watches devices, for trials. It is started anew for each
// query and trial.
type Program struct {
	Queries
	// Timing has the time limits of a worker. The zero value means those of the
	// plugin.
	Timing process.Timing

	dir *process.Dir
}

// OpenProgram is OpenQueries for trials.
func OpenProgram(path string) (*Program, error) {
	q, err := OpenQueries(path)
	if err != nil {
		return nil, err
	}
	dir, err := process.OpenDir("")
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return &Program{Queries: *q, dir: dir}, nil
}

// Close implements doctor.Worker.
func (p *Program) Close() error { return errors.Join(p.dir.Close(), p.Queries.Close()) }

// Try implements doctor.Worker. It starts a worker that watches the device, as the
// plugin does, until every port has answered.
func (p *Program) Try(ctx context.Context, device string, m verbs.Method) doctor.Trial {
	ctx, cancel := context.WithTimeout(ctx, doctor.TryLimit)
	defer cancel()
	o := verbs.Options{
		Device: device, CommandInterval: doctor.TryLimit, CommandStuck: doctor.TryLimit, // queries are reported as commands
		Probe: verbs.ProbeOptions{
			Interval: tryPace, Timeout: tryTimeout, Method: m, Vectors: []int{0}, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
		},
	}
	t := &trial{done: cancel, Trial: doctor.Trial{Ports: make(map[int]doctor.PortTrial)}}
	if err := p.Watch(ctx, o, t); err != nil && t.Why == "" {
		t.Reason, t.Why = status.ReasonStuck, err.Error()
	}
	return t.Trial
}

// Watch starts workers that watch a device until ctx ends. The error is
// process.ErrAbandoned if one of them cannot be killed.
func (p *Program) Watch(ctx context.Context, o verbs.Options, h worker.Handler) error {
	r := p.Request
	r.Options = o
	return worker.New(worker.Config{Exe: p.exe, Dir: p.dir, Request: r, Reads: p.Reads, Timing: p.Timing}, h).Run(ctx)
}

// trial collects the reports of a worker. No two calls of it overlap.
type trial struct {
	doctor.Trial
	done  func()
	ports int
}

// Started implements worker.Handler.
func (*trial) Started(*ledger.Ledger) {}

// Status implements worker.Handler.
func (*trial) Status(status.Status) {}

// Ended implements worker.Handler. The reason is ok if the trial ended the worker.
func (t *trial) Ended(why status.End) {
	if why.Reason != status.ReasonOK {
		t.Reason, t.Why = why.Reason, why.Message
	}
	t.done()
}

// Batch implements worker.Handler.
func (t *trial) Batch(b verbs.Batch, _ status.Status) {
	for _, it := range b.Items {
		t.item(it)
	}
	if t.Opened && t.answered() {
		t.done()
	}
}

func (t *trial) item(it verbs.Item) {
	switch {
	case it.Opened != nil:
		t.Opened, t.Attr, t.ports = true, *it.Opened, min(it.Opened.Ports, verbs.MaxPorts)
	case it.Command != nil && it.Command.Call == verbs.CommandQueryPort:
		one := t.Ports[it.Command.Port]
		one.Query = it.Command.Status
		t.Ports[it.Command.Port] = one
	case it.Probe != nil && it.Probe.Method == verbs.MethodNone:
		one := t.Ports[it.Probe.Port]
		one.Refused = it.Probe.Reason
		t.Ports[it.Probe.Port] = one
	case it.Round != nil:
		one := t.Ports[it.Round.Port]
		one.Rounds = append(one.Rounds, it.Round.Round)
		t.Ports[it.Round.Port] = one
	}
}

// answered reports whether every port has refused the probe or run enough rounds.
func (t *trial) answered() bool {
	for n := 1; n <= t.ports; n++ {
		one := t.Ports[n]
		if one.Refused == "" && len(one.Rounds) < tryRounds {
			return false
		}
	}
	return true
}

var _ doctor.Worker = (*Program)(nil)
