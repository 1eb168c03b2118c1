//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// buildProgram builds the program like `make build`. Without cgo, it loads no vendor's library.
func buildProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), tracer.ProgramName)
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w -X main.version=1.2.3", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func TestTheProgramSaysWhatItIs(t *testing.T) {
	path := buildProgram(t)
	out, err := exec.Command(path, "-version").Output()
	require.NoError(t, err)
	require.Equal(t, "rdma-events-tracer 1.2.3\n", string(out))

	var stderr bytes.Buffer
	byHand := exec.Command(path)
	byHand.Stderr = &stderr
	var exit *exec.ExitError
	require.ErrorAs(t, byHand.Run(), &exit)
	require.Equal(t, 2, exit.ExitCode())
	require.Equal(t, "rdma-events-tracer is started by rdma-events, one on each host; it is not to be started by hand\n", stderr.String())
}

func TestTheProgramServesItsHost(t *testing.T) {
	exe, err := process.OpenExe(buildProgram(t))
	require.NoError(t, err)
	defer exe.Close()
	dir, err := process.OpenDir(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	ctx, cancel := context.WithCancel(t.Context())
	h := &firstEnd{enough: cancel}
	s := tracer.New(tracer.Config{Exe: exe, Dir: dir, Request: trace.Request{Backend: "x"}}, h)
	require.NoError(t, s.Run(ctx))
	require.Equal(t, status.End{
		Reason:  status.ReasonUnsupported,
		Message: `tracer: this kernel cannot be traced: backend "x" is not "verbs" or "sim"`,
	}, h.end)
}

// firstEnd ends the supervision when the first tracer has ended.
type firstEnd struct {
	enough func()
	end    status.End
}

func (*firstEnd) Attached(trace.Attached, status.Status) {}
func (*firstEnd) Update(*trace.Update)                   {}
func (*firstEnd) Status(status.Status)                   {}

func (f *firstEnd) Ended(e status.End) {
	if f.end == (status.End{}) {
		f.end = e
	}
	f.enough()
}

func TestEachBackendHasASource(t *testing.T) {
	var names []string
	for _, r := range backends() {
		names = append(names, r.name)
	}
	require.Equal(t, agent.BackendNames(), names)
}

func TestTheSourceIsThatOfTheRequest(t *testing.T) {
	none := func(trace.Request, string) (trace.Source, error) { return nil, trace.ErrNoDevice }
	got := trace.Request{}
	mine := func(r trace.Request, prepared string) (trace.Source, error) {
		require.Equal(t, "7", prepared)
		got = r
		return nil, trace.ErrPermission
	}
	want := trace.Request{Backend: verbs.BackendSim, HangAfter: 7, Sim: verbs.Simulation{Profile: "dual"}}
	_, err := openFrom([]backend{{verbs.BackendVerbs, none}, {verbs.BackendSim, mine}}, want, "7")
	require.ErrorIs(t, err, trace.ErrPermission)
	require.Equal(t, want, got)
	_, err = openSource(trace.Request{Backend: verbs.BackendVerbs}, "")
	require.ErrorIs(t, err, trace.ErrUnsupported, "a request for the kernel to a tracer that was started for the simulator")
}
