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
	// queryTimeout is the time limit for a query that the program answers at once.
	queryTimeout = 10 * time.Second
	// linkTimeout is the time limit for a question about a link. The kernel answers at once unless its RTNL lock is
	// held.
	linkTimeout = 2 * time.Second
	// EvidenceTimeout is the time limit for one snapshot.
	EvidenceTimeout = 10 * time.Second

	programName = "rdma-events-worker"
)

// WorkerQueries runs the worker program once for each answer. Its methods may be called concurrently.
type WorkerQueries struct {
	// Request is the request for a snapshot or a trial. Its Backend must be set. Each trial sets its Options.
	Request verbs.Request
	// WorkerFiles lists the files, apart from libraries, that a worker must read to serve the request.
	WorkerFiles []string

	exe *os.File
}

// OpenWorkerQueries opens the worker program at path for this host's devices. The caller must close it after all other
// calls have returned. The error wraps status.ErrUntrusted if other users can change the file.
func OpenWorkerQueries(path string) (*WorkerQueries, error) {
	exe, err := process.OpenExe(path)
	if err != nil {
		return nil, err
	}
	return &WorkerQueries{Request: verbs.Request{Backend: verbs.BackendVerbs}, exe: exe}, nil
}

// Close closes the program.
func (q *WorkerQueries) Close() error { return q.exe.Close() }

// AskVersion runs the program and returns the version that the program reports.
func (q *WorkerQueries) AskVersion(ctx context.Context) (string, error) {
	text, err := q.runQuery(ctx, queryTimeout, "-version")
	if err != nil {
		return "", err
	}
	return parseVersion(programName, text)
}

// parseVersion returns the version from the output of a program for -version. It returns an error if the output names
// another program.
func parseVersion(program, text string) (string, error) {
	name, version, _ := strings.Cut(text, " ")
	if name != program {
		return "", fmt.Errorf("it is another program: it printed %q", text)
	}
	return version, nil
}

// AskLibrary runs the program and returns the file of libibverbs that the program's loader finds.
func (q *WorkerQueries) AskLibrary(ctx context.Context) (string, error) {
	return q.runQuery(ctx, queryTimeout, "-library")
}

// AskLink asks the driver of a network device about its link, in a process that can be killed or left behind if the
// call hangs. It blocks for a few seconds at most.
func (q *WorkerQueries) AskLink(ctx context.Context, netdev string) (ethtool.Link, error) {
	text, err := q.runQuery(ctx, linkTimeout, "-link", netdev)
	if err != nil {
		return ethtool.Link{}, err
	}
	var l ethtool.Link
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return ethtool.Link{}, fmt.Errorf("read answer of %s: %w", q.exe.Name(), err)
	}
	return l, nil
}

// AskEvidence runs the program to take a snapshot of a device, and returns its output: entries of package snapshot. If
// it returns an error, the output contains the entries up to then. It blocks for EvidenceTimeout at most, and a moment
// longer if the process must be killed. The error wraps process.ErrAbandoned if a killed process does not end.
func (q *WorkerQueries) AskEvidence(ctx context.Context, device string) (printed []byte, err error) {
	args := []string{"-evidence", device}
	if q.Request.Backend != verbs.BackendVerbs {
		request, err := json.Marshal(q.Request)
		if err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
		args = append(args, string(request))
	}
	a, err := q.runWorker(ctx, EvidenceTimeout, args)
	return a.Stdout, err
}

// runQuery runs the opened program and returns the line that it prints.
func (q *WorkerQueries) runQuery(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	a, err := q.runWorker(ctx, limit, args)
	return strings.TrimSpace(string(a.Stdout)), err
}

// runWorker runs the opened program in the environment of a worker.
func (q *WorkerQueries) runWorker(ctx context.Context, limit time.Duration, args []string) (process.Answer, error) {
	return runProgram(ctx, process.Once{
		Exe: q.exe, Name: programName, Args: args, Env: worker.OnceEnvironment(q.WorkerFiles), Limit: limit,
	})
}

// runProgram runs a program. If the program fails, the error is its output on standard error.
func runProgram(ctx context.Context, o process.Once) (process.Answer, error) {
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
