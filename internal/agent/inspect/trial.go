package inspect

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// TrialTimeout is the time limit for a whole trial. An emulated machine needs 2 s.
const TrialTimeout = 10 * time.Second

const (
	// trialRounds is the number of probe rounds in which the wake-up latency is measured.
	trialRounds = 5
	// trialInterval is the time between two rounds, and roundTimeout the time limit for one round.
	trialInterval = 100 * time.Millisecond
	roundTimeout  = 500 * time.Millisecond
)

// Trial is the result of trying one probe method on one device.
type Trial struct {
	Opened bool
	Attr   verbs.DeviceAttr // valid if Opened
	Why    string           // why the device was not opened or was closed again; one line
	Reason status.Reason    // Why as one word
	Ports  map[int]PortTrial
}

// PortTrial is the part of a Trial for one port.
type PortTrial struct {
	Refused string // why there is no probe; "" if there is a probe
	// Query is the name of the errno with which ibv_query_port failed. It is "" if the query was answered or sends no
	// command to the firmware.
	Query  string
	Rounds []verbs.Round
}

// trialFrom returns the trial that corresponds to an observation of a device.
func trialFrom(o *Observation) Trial {
	t := Trial{Why: o.Why, Reason: o.Reason, Ports: map[int]PortTrial{}}
	if o.Attr != nil {
		t.Opened, t.Attr = true, *o.Attr
	}
	change := func(port int, f func(*PortTrial)) {
		one := t.Ports[port]
		f(&one)
		t.Ports[port] = one
	}
	for _, c := range o.Commands {
		if c.Call == verbs.CommandQueryPort {
			change(c.Port, func(p *PortTrial) { p.Query = c.Status })
		}
	}
	for _, c := range o.Choices {
		if c.Method == verbs.MethodNone {
			change(c.Port, func(p *PortTrial) { p.Refused = c.Reason })
		}
	}
	for _, r := range o.Rounds {
		change(r.Port, func(p *PortTrial) { p.Rounds = append(p.Rounds, r.Round) })
	}
	return t
}

// isComplete reports whether every port has refused the probe or run enough rounds.
func (t *Trial) isComplete() bool {
	for _, n := range t.Attr.WatchedPorts(nil) {
		one := t.Ports[n]
		if one.Refused == "" && len(one.Rounds) < trialRounds {
			return false
		}
	}
	return true
}

// WorkerProgram runs the worker program for queries and for trials, which watch a device. It starts the program anew
// each time.
type WorkerProgram struct {
	WorkerQueries
	// Timing contains the time limits of a worker. The zero value stands for the limits of the plugin.
	Timing process.Timing

	dir *process.Dir
}

// OpenWorkerProgram opens the worker program at path for queries and trials. See OpenWorkerQueries.
func OpenWorkerProgram(path string) (*WorkerProgram, error) {
	q, err := OpenWorkerQueries(path)
	if err != nil {
		return nil, err
	}
	dir, err := process.OpenDir("")
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return &WorkerProgram{WorkerQueries: *q, dir: dir}, nil
}

// Close closes the program. Call it after all other calls have returned.
func (p *WorkerProgram) Close() error { return errors.Join(p.dir.Close(), p.WorkerQueries.Close()) }

// Try opens a device and tries a probe method on all of its ports. Like the plugin, it starts a worker that watches the
// device. The worker runs until every port has answered. Try blocks for TrialTimeout at most.
func (p *WorkerProgram) Try(ctx context.Context, device string, m verbs.Method) Trial {
	ctx, cancel := context.WithTimeout(ctx, TrialTimeout)
	defer cancel()
	o := verbs.Options{
		Device: device, CommandInterval: TrialTimeout, CommandStuck: TrialTimeout, // queries are reported as commands
		Probe: verbs.ProbeOptions{
			Interval: trialInterval, Timeout: roundTimeout, Method: m, Vectors: []int{0}, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
		},
	}
	return trialFrom(Observe(ctx, p, o, func(o *Observation) bool {
		t := trialFrom(o)
		return t.isComplete()
	}))
}

// Watch starts workers that watch a device until ctx ends. It returns process.ErrAbandoned if a killed worker does not
// end.
func (p *WorkerProgram) Watch(ctx context.Context, o verbs.Options, h worker.Handler) error {
	r := p.Request
	r.Options = o
	return worker.New(worker.Config{Exe: p.exe, Dir: p.dir, Request: r, Reads: p.WorkerFiles, Timing: p.Timing}, h).Run(ctx)
}
