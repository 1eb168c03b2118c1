package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"rdma_events/internal/device/ethtool"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
)

const (
	// askLimit is the limit for a query that the program answers at once.
	askLimit = 10 * time.Second
	// linkLimit is the limit for what the kernel answers at once, unless its RTNL lock is held.
	linkLimit = 2 * time.Second
	// EvidenceLimit is the limit for one snapshot.
	EvidenceLimit = 10 * time.Second

	programName = "rdma-events-worker"
)

// Queries is the real worker program, run once for each answer. Its methods may be called
// concurrently.
type Queries struct {
	// Request is the request of a snapshot or a trial without its Options, which each trial
	// sets. Its Backend must be set.
	Request verbs.Request
	// Reads are the files, besides libraries, that a worker reads for the request.
	Reads []string

	exe *os.File
}

// OpenQueries opens the worker program at path for this host's devices. The caller closes it
// after all other calls have returned. The error wraps status.ErrUntrusted if other users could
// change the file.
func OpenQueries(path string) (*Queries, error) {
	exe, err := process.OpenExe(path)
	if err != nil {
		return nil, err
	}
	return &Queries{Request: verbs.Request{Backend: verbs.BackendVerbs}, exe: exe}, nil
}

// Close closes the program.
func (q *Queries) Close() error { return q.exe.Close() }

// AskVersion runs the program and returns the version that the program reports.
func (q *Queries) AskVersion(ctx context.Context) (string, error) {
	text, err := q.ask(ctx, askLimit, "-version")
	if err != nil {
		return "", err
	}
	return versionOf(programName, text)
}

// versionOf returns the version in what a program prints for -version.
func versionOf(program, text string) (string, error) {
	name, version, _ := strings.Cut(text, " ")
	if name != program {
		return "", fmt.Errorf("it is another program: it printed %q", text)
	}
	return version, nil
}

// AskLibrary runs the program and returns the file of libibverbs that the program's loader finds.
func (q *Queries) AskLibrary(ctx context.Context) (string, error) {
	return q.ask(ctx, askLimit, "-library")
}

// AskLink asks the driver of a network device about its link. A call that hangs keeps a process of
// its own, which can be killed or left behind. It blocks for some seconds at most.
func (q *Queries) AskLink(ctx context.Context, netdev string) (ethtool.Link, error) {
	text, err := q.ask(ctx, linkLimit, "-link", netdev)
	if err != nil {
		return ethtool.Link{}, err
	}
	var l ethtool.Link
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return ethtool.Link{}, fmt.Errorf("read answer of %s: %w", q.exe.Name(), err)
	}
	return l, nil
}

// AskEvidence has the program take a snapshot of a device, and returns what it printed: entries of
// package snapshot, with an error those until then. It blocks for EvidenceLimit at most, and a
// moment longer if the process has to be killed; the error wraps process.ErrAbandoned if it
// cannot be.
func (q *Queries) AskEvidence(ctx context.Context, device string) (printed []byte, err error) {
	args := []string{"-evidence", device}
	if q.Request.Backend != verbs.BackendVerbs {
		request, err := json.Marshal(q.Request)
		if err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
		args = append(args, string(request))
	}
	a, err := q.runOnce(ctx, EvidenceLimit, args)
	return a.Stdout, err
}

// ask runs the opened program and returns the line that it prints.
func (q *Queries) ask(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	a, err := q.runOnce(ctx, limit, args)
	return strings.TrimSpace(string(a.Stdout)), err
}

// runOnce runs the opened program in the environment of a worker.
func (q *Queries) runOnce(ctx context.Context, limit time.Duration, args []string) (process.Answer, error) {
	return runOnce(ctx, process.Once{
		Exe: q.exe, Name: programName, Args: args, Env: worker.OnceEnvironment(q.Reads), Limit: limit,
	})
}

// runOnce runs a program. If it fails, the error is what it printed about that.
func runOnce(ctx context.Context, o process.Once) (process.Answer, error) {
	a, err := o.Run(ctx)
	switch {
	case err != nil:
		return a, fmt.Errorf("run %s %s: %w", o.Exe.Name(), o.Args[0], err)
	case a.Status != 0 && a.Stderr != "":
		return a, errors.New(a.Stderr)
	case a.Status != 0:
		return a, fmt.Errorf("run %s %s: exit status %d", o.Exe.Name(), o.Args[0], a.Status)
	}
	return a, nil
}
