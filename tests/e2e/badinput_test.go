package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

// Bad input makes the plugin and `check` fail at once, each with one clear line
// that has the same texts.
func TestBadInputIsOneClearLine(t *testing.T) {
	t.Parallel()
	broken := writeScenario(t, "[[event]]\nat = \"1s\"\ntype = \"port_eror\"\n")
	unparsable := writeScenario(t, "[[event]\n")
	stranger := writeFile(t, "stranger", "#!/bin/sh\necho hello\n", 0o755)
	writable := writeFile(t, "writable", "#!/bin/sh\n", 0o755)
	if err := os.Chmod(writable, 0o777); err != nil { // WriteFile applied the umask
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, conf string
		want       []string
	}{
		{"unknown key", "[[inputs.rdma_events]]\n  devises = []\n", []string{"devises"}},
		{"key of execd", "[[inputs.rdma_events]]\n  interval = \"1s\"\n", []string{"interval", "inputs.execd"}},
		{"second instance", "[[inputs.rdma_events]]\n[[inputs.rdma_events]]\n", []string{"inputs.rdma_events", "2 instances", "[[inputs.execd]]"}},
		{"bad glob", "[[inputs.rdma_events]]\n  devices = [\"mlx5_[\"]\n", []string{"devices", "mlx5_["}},
		{"bad duration", "[[inputs.rdma_events]]\n  state_interval = \"5 parsecs\"\n", []string{"state_interval", "5 parsecs"}},
		{"timeout above interval", "[[inputs.rdma_events]]\n[inputs.rdma_events.probe]\n  timeout = \"2s\"\n", []string{"timeout", "interval"}},
		{"bad method", "[[inputs.rdma_events]]\n[inputs.rdma_events.probe]\n  method = \"rdma\"\n", []string{"method", "rdma", "flush"}},
		{"unset variable", "[[inputs.rdma_events]]\n  state_interval = \"$RDMA_EVENTS_UNSET\"\n", []string{"state_interval", "24h", "RDMA_EVENTS_UNSET"}},
		{"empty duration", "[[inputs.rdma_events]]\n[inputs.rdma_events.probe]\n  interval = \"\"\n", []string{"probe.interval = \"\"", "0s"}},
		{"quoted key", "[[inputs.rdma_events]]\n  \"probe.interval\" = \"7s\"\n", []string{"\"probe.interval\"", "not an option"}},
		{"filters that leave nothing", "[[inputs.rdma_events]]\n  devices_exclude = [\"*\"]\n", []string{"devices_exclude", "leave some"}},
		{"glob without an index", "[[inputs.rdma_events]]\n  devices = [\"mlx5\"]\n", []string{"devices = [\"mlx5\"]", "mlx5_*"}},
		{"simulator without its backend", "[[inputs.rdma_events]]\n[inputs.rdma_events.sim]\n  profile = \"ib8\"\n", []string{"sim.profile", "backend = \"sim\""}},
		{"no TOML", "[[inputs.rdma_events]\n", []string{"rdma_events.conf", "line 2"}},
		{"unknown event in a scenario", simConfig(broken), []string{broken, "port_eror"}},
		{"scenario that does not parse", simConfig(unparsable), []string{unparsable}},
		{"missing scenario", simConfig("/nowhere/scenario.toml"), []string{"/nowhere/scenario.toml"}},
		{"missing worker", "[[inputs.rdma_events]]\n  backend = \"sim\"\n  worker_path = \"/nowhere/worker\"\n", []string{"worker_path", "/nowhere/worker"}},
		{"worker others may write", "[[inputs.rdma_events]]\n  backend = \"sim\"\n  worker_path = \"" + writable + "\"\n", []string{writable}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, args := range [][]string{{"check", "-config"}, {"-config"}} {
				requireOneLine(t, append(args, writeFile(t, "rdma_events.conf", row.conf, 0o644)), row.want)
			}
		})
	}
	t.Run("worker that is not ours", func(t *testing.T) {
		r := rig.Start(t, rig.Config{Plugin: "[[inputs.rdma_events]]\n  backend = \"sim\"\n  devices = [\"sim0\"]\n  worker_path = \"" + stranger + "\"\n"})
		r.AwaitLog(stranger, 30*time.Second)
		if lines := linesContaining(r.Log(), stranger); len(lines) != 1 {
			t.Errorf("want one line about the stranger, got %d:\n%s", len(lines), r.Log())
		} else {
			t.Log(lines[0])
		}
	})
}

func simConfig(scenario string) string {
	return "[[inputs.rdma_events]]\n  backend = \"sim\"\n[inputs.rdma_events.sim]\n  scenario = \"" + scenario + "\"\n"
}

func linesContaining(log, text string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// requireOneLine runs the program and requires that it fails at once and prints
// one line that contains all texts.
func requireOneLine(t *testing.T, args, texts []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	stdin, err := cmd.StdinPipe() // held open, as Telegraf does
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	err = cmd.Wait()
	if err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("%v: want exit status 2, got %v", args, err)
	}
	line := strings.TrimRight(out.String(), "\n")
	t.Log(line)
	if line == "" || strings.Contains(line, "\n") {
		t.Errorf("%v: want one line, got:\n%s", args, out.String())
	}
	for _, text := range texts {
		if !strings.Contains(line, text) {
			t.Errorf("%v: want %q in %q", args, text, line)
		}
	}
}

func writeFile(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}
