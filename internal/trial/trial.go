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
	// tryRounds is how many rounds of a probe tell how long a wake-up takes.
	tryRounds = 5
	// tryPace is the time between two rounds, tryTimeout that for one.
	tryPace    = 100 * time.Millisecond
	tryTimeout = 500 * time.Millisecond
	// askLimit is for a question that the program answers at once.
	askLimit = 10 * time.Second
)

// Program is the real worker program, started for each question.
type Program struct {
	// Request is what a trial asks for but for the device and the probe; its
	// Backend must be set.
	Request verbs.Request
	// Timing is how long to wait for what; its zero value is the plugin's.
	Timing process.Timing

	exe *os.File
	dir *process.Dir
}

// OpenProgram opens the worker program at path for trials on this host's
// devices. The caller closes it. status.ErrUntrusted is wrapped for
// a file that others could change.
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

// ask runs the opened file with one flag and returns its line.
func (p *Program) ask(ctx context.Context, flag string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", flag)
	cmd.ExtraFiles = []*os.File{p.exe} // number 3
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if line := strings.TrimSpace(said.String()); err != nil && line != "" {
		return "", errors.New(line)
	}
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", p.exe.Name(), flag, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Try implements doctor.Worker: it has a worker of its own watch the device, as the
// plugin does, until every port has answered.
func (p *Program) Try(ctx context.Context, device string, m verbs.Method) doctor.Trial {
	ctx, cancel := context.WithTimeout(ctx, doctor.TryLimit)
	defer cancel()
	o := verbs.Options{
		Device: device,
		Probe: verbs.ProbeOptions{
			Interval: tryPace, Timeout: tryTimeout, Method: m.String(), Vectors: []int{0}, AckBatch: 1, GIDIndex: -1, PKeyIdx: -1,
		},
	}
	t := &trial{done: cancel, Trial: doctor.Trial{Ports: make(map[int]doctor.PortTrial)}}
	if err := p.Watch(ctx, o, t); err != nil && t.Why == "" {
		t.Reason, t.Why = status.ReasonStuck, err.Error()
	}
	return t.Trial
}

// Watch has workers of its own watch a device until ctx ends. The error is
// process.ErrAbandoned if one of them cannot be killed.
func (p *Program) Watch(ctx context.Context, o verbs.Options, h worker.Handler) error {
	r := p.Request
	r.Options = o
	return worker.New(worker.Config{Exe: p.exe, Dir: p.dir, Request: r, Timing: p.Timing}, h).Run(ctx)
}

// trial collects what the worker tells; it is used by one goroutine.
type trial struct {
	doctor.Trial
	done  func()
	ports int
}

// Started implements worker.Handler.
func (*trial) Started(*ledger.Ledger) {}

// Status implements worker.Handler.
func (*trial) Status(status.Status) {}

// Ended implements worker.Handler. Its reason is ok when the trial ended it.
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

// answered reports whether nothing more is to be learnt.
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
