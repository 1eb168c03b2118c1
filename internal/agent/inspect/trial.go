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

// TryLimit is the longest time for a whole trial. An emulated machine takes 2 s.
const TryLimit = 10 * time.Second

const (
	// tryRounds is how many rounds of a probe measure how long a wake-up takes.
	tryRounds = 5
	// tryPace is the time between two rounds, tryTimeout the limit for one round.
	tryPace    = 100 * time.Millisecond
	tryTimeout = 500 * time.Millisecond
)

// Trial is the result of one probe method on one device.
type Trial struct {
	Opened bool
	Attr   verbs.DeviceAttr // valid if Opened
	Why    string           // why the device was not opened or not kept open; one line
	Reason status.Reason    // the same as one word
	Ports  map[int]PortTrial
}

// PortTrial is the part of a Trial for one port.
type PortTrial struct {
	Refused string // why there is no probe; "" if there is one
	// Query is the errno's name with which the query of the port failed; "" if it was answered, or is no command.
	Query  string
	Rounds []verbs.Round
}

// newTrial makes a trial of what workers reported of a device.
func newTrial(o *Observation) Trial {
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
	for _, n := range verbs.PortNumbers(t.Attr.Ports, nil) {
		one := t.Ports[n]
		if one.Refused == "" && len(one.Rounds) < tryRounds {
			return false
		}
	}
	return true
}

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

// Close closes the program, after all other calls have returned.
func (p *Program) Close() error { return errors.Join(p.dir.Close(), p.Queries.Close()) }

// Try opens a device and tries a probe method on all of its ports. It starts a worker that watches
// the device, as the plugin does, until every port has answered, and blocks for TryLimit at most.
func (p *Program) Try(ctx context.Context, device string, m verbs.Method) Trial {
	ctx, cancel := context.WithTimeout(ctx, TryLimit)
	defer cancel()
	o := verbs.Options{
		Device: device, CommandInterval: TryLimit, CommandStuck: TryLimit, // queries are reported as commands
		Probe: verbs.ProbeOptions{
			Interval: tryPace, Timeout: tryTimeout, Method: m, Vectors: []int{0}, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
		},
	}
	return newTrial(Observe(ctx, p, o, func(o *Observation) bool {
		t := newTrial(o)
		return t.isComplete()
	}))
}

// Watch starts workers that watch a device until ctx ends. The error is
// process.ErrAbandoned if one of them cannot be killed.
func (p *Program) Watch(ctx context.Context, o verbs.Options, h worker.Handler) error {
	r := p.Request
	r.Options = o
	return worker.New(worker.Config{Exe: p.exe, Dir: p.dir, Request: r, Reads: p.Reads, Timing: p.Timing}, h).Run(ctx)
}
