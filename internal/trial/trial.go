package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"rdma_events/internal/doctor"
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
	// askLimit is the limit for a query that the program answers at once.
	askLimit = 10 * time.Second
)

// Program is the real worker program. It is started anew for each query and trial.
type Program struct {
	// Request is the request of a trial without its Options, which each trial sets.
	// Its Backend must be set.
	Request verbs.Request
	// Reads are the files, besides libraries, that a worker reads for the request.
	Reads []string
	// Timing has the time limits of a worker. The zero value means those of the
	// plugin.
	Timing process.Timing

	exe *os.File
	dir *process.Dir
}

// OpenProgram opens the worker program at path for trials on this host's devices.
// The caller closes it. The error wraps status.ErrUntrusted if other users could
// change the file.
func OpenProgram(path string) (*Program, error) {
	exe, err := process.OpenExe(path)
	if err != nil {
		return nil, err
	}
	dir, err := process.OpenDir("")
	if err != nil {
		return nil, errors.Join(err, exe.Close())
	}
	return &Program{Request: verbs.Request{Backend: verbs.BackendVerbs}, exe: exe, dir: dir}, nil
}

// Close implements doctor.Worker.
func (p *Program) Close() error { return errors.Join(p.dir.Close(), p.exe.Close()) }

// Version implements doctor.Worker.
func (p *Program) Version(ctx context.Context) (string, error) {
	text, err := p.ask(ctx, "-version")
	name, version, _ := strings.Cut(text, " ")
	if err == nil && name != "rdma-events-worker" {
		err = fmt.Errorf("it is another program: it printed %q", text)
	}
	return version, err
}

// Library implements doctor.Worker.
func (p *Program) Library(ctx context.Context) (string, error) { return p.ask(ctx, "-library") }

// ask runs the opened program with one flag and returns the line that it prints.
func (p *Program) ask(ctx context.Context, flag string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", flag)
	cmd.ExtraFiles = []*os.File{p.exe} // number 3
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if line := strings.TrimSpace(stderr.String()); err != nil && line != "" {
		return "", errors.New(line)
	}
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", p.exe.Name(), flag, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Try implements doctor.Worker. It starts a worker that watches the device, as the
// plugin does, until every port has answered.
func (p *Program) Try(ctx context.Context, device string, m verbs.Method) doctor.Trial {
	ctx, cancel := context.WithTimeout(ctx, doctor.TryLimit)
	defer cancel()
	o := verbs.Options{
		Device: device,
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
