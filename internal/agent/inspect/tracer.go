package inspect

import (
	"context"
	"os"
	"strings"
	"time"

	"rdma_events/internal/sys/process"
)

// TracerTimeout is the time limit for a trial of the tracer. The kernel's verifier takes seconds in an emulated
// machine.
const TracerTimeout = 20 * time.Second

const tracerName = "rdma-events-tracer"

// Tracer runs the tracer program once for each answer.
type Tracer struct{ exe *os.File }

// OpenTracer opens the tracer program at path. The caller must close it after all other calls have returned. The error
// wraps status.ErrUntrusted if other users can change the file.
func OpenTracer(path string) (*Tracer, error) {
	exe, err := process.OpenExe(path)
	if err != nil {
		return nil, err
	}
	return &Tracer{exe}, nil
}

// Close closes the program. Call it after all other calls have returned.
func (t *Tracer) Close() error { return t.exe.Close() }

// AskVersion runs the program and returns the version that the program reports.
func (t *Tracer) AskVersion(ctx context.Context) (string, error) {
	text, err := t.runTracer(ctx, queryTimeout, "-version")
	if err != nil {
		return "", err
	}
	return parseVersion(tracerName, text)
}

// Try attaches the tracer to the kernel, ends it, and returns its output. It blocks for TracerTimeout at most, and a
// moment longer if the process must be killed.
func (t *Tracer) Try(ctx context.Context) (string, error) {
	return t.runTracer(ctx, TracerTimeout, "-try")
}

// runTracer runs the program with an empty environment, because the program starts with privileges.
func (t *Tracer) runTracer(ctx context.Context, limit time.Duration, arg string) (string, error) {
	a, err := runProgram(ctx, process.Once{Exe: t.exe, Name: tracerName, Args: []string{arg}, Env: []string{}, Limit: limit})
	return strings.TrimSpace(string(a.Stdout)), err
}
