package inspect

import (
	"context"
	"os"
	"strings"
	"time"

	"rdma_events/internal/inspect/doctor"
	"rdma_events/internal/process"
)

const tracerName = "rdma-events-tracer"

// Tracer is the real tracer program, run once for each answer. It implements doctor.Tracer.
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

// Close implements doctor.Tracer.
func (t *Tracer) Close() error { return t.exe.Close() }

// Version implements doctor.Tracer.
func (t *Tracer) Version(ctx context.Context) (string, error) {
	text, err := t.ask(ctx, askLimit, "-version")
	if err != nil {
		return "", err
	}
	return versionOf(tracerName, text)
}

// Try implements doctor.Tracer.
func (t *Tracer) Try(ctx context.Context) (string, error) {
	return t.ask(ctx, doctor.TracerLimit, "-try")
}

// ask runs the program, which begins with privileges, without any variable of the environment.
func (t *Tracer) ask(ctx context.Context, limit time.Duration, arg string) (string, error) {
	a, err := once(ctx, process.Once{Exe: t.exe, Name: tracerName, Args: []string{arg}, Env: []string{}, Limit: limit})
	return strings.TrimSpace(string(a.Stdout)), err
}
