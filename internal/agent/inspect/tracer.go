package inspect

import (
	"context"
	"os"
	"strings"
	"time"

	"rdma_events/internal/sys/process"
)

// TracerLimit is the longest time for a trial of the tracer. The kernel's verifier takes seconds in an emulated machine.
const TracerLimit = 20 * time.Second

const tracerName = "rdma-events-tracer"

// Tracer is the real tracer program, run once for each answer.
type Tracer struct{ exe *os.File }

// OpenTracer opens the tracer program at path. The caller closes it after all other calls have returned. The error wraps
// status.ErrUntrusted if other users could change the file.
func OpenTracer(path string) (*Tracer, error) {
	exe, err := process.OpenExe(path)
	if err != nil {
		return nil, err
	}
	return &Tracer{exe}, nil
}

// Close closes the program, after all other calls have returned.
func (t *Tracer) Close() error { return t.exe.Close() }

// AskVersion runs the program and returns the version that the program reports.
func (t *Tracer) AskVersion(ctx context.Context) (string, error) {
	text, err := t.ask(ctx, askLimit, "-version")
	if err != nil {
		return "", err
	}
	return versionOf(tracerName, text)
}

// Try attaches to the kernel and ends, and returns what the program has printed. It blocks for TracerLimit at most, and a moment
// longer if the process has to be killed.
func (t *Tracer) Try(ctx context.Context) (string, error) {
	return t.ask(ctx, TracerLimit, "-try")
}

// ask runs the program, which begins with privileges, without any variable of the environment.
func (t *Tracer) ask(ctx context.Context, limit time.Duration, arg string) (string, error) {
	a, err := runOnce(ctx, process.Once{Exe: t.exe, Name: tracerName, Args: []string{arg}, Env: []string{}, Limit: limit})
	return strings.TrimSpace(string(a.Stdout)), err
}
