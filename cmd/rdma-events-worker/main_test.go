//go:build linux && cgo

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/snapshot"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

func buildProgram(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rdma-events-worker")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=1.2.3", "-o", path, ".")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func TestTheProgramSaysWhatItIs(t *testing.T) {
	path := buildProgram(t)
	out, err := exec.Command(path, "-version").Output()
	require.NoError(t, err)
	require.Equal(t, "rdma-events-worker 1.2.3\n", string(out))

	var stderr bytes.Buffer
	byHand := exec.Command(path)
	byHand.Stderr = &stderr
	var exit *exec.ExitError
	require.ErrorAs(t, byHand.Run(), &exit)
	require.Equal(t, 2, exit.ExitCode())
	require.Equal(t, "rdma-events-worker is started by rdma-events, one for each RDMA device; "+
		"it is not to be started by hand\n", stderr.String())
}

func TestTheProgramTakesASnapshot(t *testing.T) {
	path := buildProgram(t)
	request, err := json.Marshal(verbs.Request{Backend: verbs.BackendSim, Sim: verbs.Simulation{Profile: "roce2", Seed: 1}})
	require.NoError(t, err)
	out, err := exec.Command(path, "-evidence", "sim0", string(request)).Output()
	require.NoError(t, err)
	doc := snapshot.New("sim0", time.Now(), out)
	require.Empty(t, doc.Missing())
	require.Contains(t, string(doc.Parts["attributes"]), `"driver":"sim"`)
	require.Len(t, doc.Ports, 1)
	require.Contains(t, string(doc.Ports[0].Parts["attributes"]), `"state":"active"`)

	for _, device := range []string{"sim9", ""} {
		out, err = exec.Command(path, "-evidence", device, string(request)).Output()
		require.NoError(t, err)
		require.NotEmpty(t, snapshot.New(device, time.Now(), out).Missing())
	}
	for _, bad := range []string{"nonsense", `{"Backend":"nonsense"}`} {
		out, err = exec.Command(path, "-evidence", "sim0", bad).Output()
		require.Error(t, err)
		require.Empty(t, out)
	}
}

func TestTheProgramAsksForALink(t *testing.T) {
	path := buildProgram(t)
	out, err := exec.Command(path, "-link", "lo").Output()
	require.NoError(t, err)
	require.JSONEq(t, `{"Up": true, "HasUp": true, "ExtState": "", "ExtSubstate": ""}`, string(out))
	var exit *exec.ExitError
	_, err = exec.Command(path, "-link", "none0").Output()
	require.ErrorAs(t, err, &exit)
	require.Contains(t, string(exit.Stderr), "none0")
}

// A host may have dozens of devices, each with a worker. All workers share the pages of the
// program's file.
func TestAWorkerIsSmall(t *testing.T) {
	h := &roundCounter{want: 500, reached: make(chan int, 1), end: make(chan status.End, 1)}
	superviseWorker(t, h)
	select {
	case pid := <-h.reached:
		require.Less(t, statusKilobytes(t, pid, "RssAnon"), 8<<10)
		// The kernel decides how much of the file is mapped; make bench measures it for
		// Debian's kernel.
		require.Less(t, statusKilobytes(t, pid, "VmRSS"), 24<<10)
	case why := <-h.end:
		t.Fatal("the worker ended:", why)
	case <-time.After(time.Minute):
		t.Fatal("not enough probe rounds came")
	}
}

// superviseWorker runs the real worker with the simulator until the test ends.
func superviseWorker(t *testing.T, h worker.Handler) {
	t.Helper()
	exe, err := process.OpenExe(buildProgram(t))
	require.NoError(t, err)
	dir, err := process.OpenDir("")
	require.NoError(t, err)
	s := worker.New(worker.Config{
		Exe: exe, Dir: dir,
		Request: verbs.Request{
			Backend: verbs.BackendSim,
			Sim:     verbs.Simulation{Profile: "roce2", Seed: 1},
			Options: verbs.Options{
				Device: "sim0", StateInterval: time.Second,
				Probe: verbs.ProbeOptions{
					Interval: 4 * time.Millisecond, Timeout: 2 * time.Millisecond,
					Method: verbs.MethodAuto, Vectors: []int{0}, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
				},
			},
		},
	}, h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, dir.Close())
		require.NoError(t, exe.Close())
	})
}

// statusKilobytes reads a field of /proc/<pid>/status.
func statusKilobytes(t *testing.T, pid int, field string) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(raw), field+":")
	require.True(t, found, field)
	var kb int
	_, err = fmt.Sscan(rest, &kb)
	require.NoError(t, err)
	t.Log(field, kb, "KiB")
	return kb
}

// roundCounter reports the worker's process number once it has seen enough probe rounds.
type roundCounter struct {
	want, seen int
	pid        int
	reached    chan int
	end        chan status.End
}

// Started implements worker.Handler.
func (*roundCounter) Started(*ledger.Ledger, func()) {}

// Status implements worker.Handler.
func (*roundCounter) Status(status.Status) {}

// Ended implements worker.Handler.
func (c *roundCounter) Ended(e status.End) {
	select {
	case c.end <- e:
	default:
	}
}

// Batch implements worker.Handler.
func (c *roundCounter) Batch(b verbs.Batch, s status.Status) {
	c.pid = s.PID
	c.RingItems(b.Items)
}

// RingItems implements worker.Handler.
func (c *roundCounter) RingItems(items []verbs.Item) {
	for _, i := range items {
		if i.Round == nil {
			continue
		}
		if c.seen++; c.seen == c.want {
			c.reached <- c.pid
		}
	}
}
