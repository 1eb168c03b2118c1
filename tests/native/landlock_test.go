package native

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/sys/confine"
	"rdma_events/tests/rig"
)

func TestAKernelWithoutLandlockIsSaidOnce(t *testing.T) {
	for name, row := range map[string]struct {
		env  string
		want int
	}{
		"without": {withoutLandlock + "=1", 1},
		"with":    {withoutLandlock + "=", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if row.want == 0 && confine.Landlock() == 0 {
				t.Fatal("this kernel has no Landlock: boot it with landlock in lsm=")
			}
			log := runSimulated(t, row.env)
			if n := strings.Count(log, "D! Landlock is unavailable"); n != row.want {
				t.Errorf("want %d lines, got %d:\n%s", row.want, n, log)
			}
		})
	}
}

// runSimulated runs the plugin with two simulated devices until both have been
// opened, and returns its log.
func runSimulated(t *testing.T, env string) string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "rdma_events.conf")
	if err := os.WriteFile(conf, []byte("[[inputs.rdma_events]]\n  backend = \"sim\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	program := []string{rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "-config", conf, "-poll_interval", "100ms"}
	if !strings.HasSuffix(env, "=") {
		program = append([]string{"/proc/self/exe"}, program...)
	}
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	cmd.Env = append(os.Environ(), env)
	var log bytes.Buffer
	cmd.Stderr = &log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	awaitOpen(t, bufio.NewScanner(out))
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out) // its last output
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, &log)
	}
	return log.String()
}

func awaitOpen(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	open := map[string]bool{}
	for len(open) < 2 && lines.Scan() {
		points, err := rig.Parse(append(lines.Bytes(), '\n'))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range rig.Select(points, "rdma_device") {
			if p.Int("open") == 1 {
				open[p.Tags["device"]] = true
			}
		}
	}
	if len(open) < 2 {
		t.Error("the plugin ended before its devices were open")
	}
}
