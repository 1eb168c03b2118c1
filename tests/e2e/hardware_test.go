package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"rdma_events/tests/rig"
)

// outage drops the link within the window for the flap, which begins some 20 s
// after the start.
const outage = `[[link]]
at = "30s"
device = "sim0"
down_for = "2s"
`

// tryHardware runs `rdma-events doctor -hardware` on a terminal, types typed there,
// and returns the path of the file and the text on the terminal.
func tryHardware(t *testing.T, typed string, args ...string) (file, screen string) {
	t.Helper()
	ours, theirs := openTerminal(t)
	file = filepath.Join(t.TempDir(), "out.json")
	args = append([]string{"doctor", "-hardware", "-out", file}, args...)
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), args...)
	cmd.Stdin, cmd.Stderr = theirs, theirs
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+shortDir(t))
	if _, err := ours.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(ours) // EIO at the end (pty(7))
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("read the terminal: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, text)
	}
	return file, string(text)
}

func TestHardwareFileIsAsDocumented(t *testing.T) {
	t.Parallel()
	conf := writeFile(t, "rdma_events.conf", simConfig(writeScenario(t, outage)), 0o644)
	file, screen := tryHardware(t, "y\ny\ny\n", "-config", conf, "-device", "sim0")
	t.Log(screen)
	for _, want := range []string{"default GID", "Whether a counter of the driver moves is not known", "take a port down and up NOW", "is written"} {
		if !strings.Contains(screen, want) {
			t.Errorf("want %q on the terminal", want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("want a file of mode 0600, got %v, %v", info, err)
	}
	got := maskedText(t, file)
	const awaitGolden = "testdata/hardware.json"
	if *update {
		if err := os.WriteFile(awaitGolden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(awaitGolden)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if got != string(want) {
		t.Errorf("unexpected file:\n%s", rig.Diff(string(want), got))
	}
}

// maskedText returns the text of the file with placeholders for the values that differ between machines and runs.
func maskedText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all["methods"].([]any) {
		one := m.(map[string]any)
		if one["events"] != one["acked"] || one["events"].(float64) < one["rounds"].(float64) {
			t.Errorf("%s: want an event for each round, and each acknowledged, got %v", one["method"], one)
		}
		one["events"], one["acked"] = "each", "each"
	}
	for _, c := range all["commands"].([]any) {
		one := c.(map[string]any)
		if one["count"].(float64) < 20 {
			t.Errorf("want 20 calls at least, got %v", one)
		}
		one["count"] = "20 or more"
	}
	for _, version := range []string{"rdma_events", "kernel", "libibverbs", "uverbs_abi"} {
		all["versions"].(map[string]any)[version] = version
	}
	all["made"] = "now"
	hideTimes(all)
	pretty, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(pretty) + "\n"
}

// hideTimes replaces measured durations.
func hideTimes(of any) {
	switch v := of.(type) {
	case map[string]any:
		for name, value := range v {
			if strings.HasSuffix(name, "_ns") && name != "pace_ns" && name != "window_ns" {
				v[name] = "ns"
				continue
			}
			hideTimes(value)
		}
	case []any:
		for _, one := range v {
			hideTimes(one)
		}
	}
}

func TestHardwareRunThatCannotBeIsOneLine(t *testing.T) {
	conf := writeFile(t, "rdma_events.conf", "[[inputs.rdma_events]]\n  backend = \"sim\"\n", 0o644)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"a flag without -hardware", []string{"-device", "sim0"}, 64, "rdma-events doctor: -device, -out and -yes go with -hardware"},
		{"both reports", []string{"-hardware", "-json"}, 64, "rdma-events doctor: -hardware writes a file, so -json does not go with it: name the file with -out"},
		{"a simulation without a device", []string{"-hardware", "-config", conf}, 2, "E! name the simulated device with -device"},
		{"a directory that is not there", []string{"-hardware", "-config", conf, "-device", "sim0", "-out", "no/out.json"}, 2,
			"E! write no/out.json: open no/.rdma-events-hardware-*: no such file or directory; name another file with -out"},
		{"no configuration", []string{"-hardware", "-config", conf + ".no"}, 2, "E! read configuration: open " + conf + ".no: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			requireLine(t, c.code, c.says, c.args...)
		})
	}
	t.Run("no device", func(t *testing.T) {
		requireNoDevices(t)
		requireLine(t, 2, "E! there is no RDMA device on this host", "-hardware", "-device", "mlx5_0")
	})
}

// requireLine requires that the doctor ends with a status, prints only this line
// and leaves no file.
func requireLine(t *testing.T, code int, line string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), append([]string{"doctor"}, args...)...)
	cmd.Dir = t.TempDir()
	said, err := cmd.CombinedOutput()
	said = regexp.MustCompile(`hardware-\d+`).ReplaceAll(said, []byte("hardware-*"))
	if cmd.ProcessState.ExitCode() != code || string(said) != line+"\n" {
		t.Errorf("want status %d and %q, got %v: %q", code, line, err, said)
	}
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
		t.Errorf("want no file, got %v, %v", left, err)
	}
}

func TestInterruptedHardwareRunLeavesNothing(t *testing.T) {
	conf := writeFile(t, "rdma_events.conf", "[[inputs.rdma_events]]\n  backend = \"sim\"\n", 0o644)
	for _, c := range []struct {
		name, until string
		flags       []string
	}{
		{"at a question", "[y/N] ", nil},
		{"in the run", "looking at it", []string{"-yes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			ours, theirs := openTerminal(t)
			args := append([]string{"doctor", "-hardware", "-config", conf, "-device", "sim0"}, c.flags...)
			cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), args...)
			cmd.Dir, cmd.Stdin, cmd.Stderr = dir, theirs, theirs
			cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+shortDir(t))
			if len(c.flags) > 0 {
				cmd.Stdin = nil // on a terminal the doctor would ask about the flap, even with -yes
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := theirs.Close(); err != nil {
				t.Fatal(err)
			}
			said := readUntil(t, ours, c.until)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(ours) // EIO at the end
			said += string(rest)
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(said, "E! interrupted: no file is written") {
				t.Errorf("want status 2 and a line, got %v: %s", err, said)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("want nothing left, got %v, %v", left, err)
			}
		})
	}
}

// readUntil reads until it has read a text, and returns everything that it read.
func readUntil(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	said, buffer := "", make([]byte, 4096)
	for !strings.Contains(said, text) {
		n, err := from.Read(buffer)
		said += string(buffer[:n])
		if err != nil {
			t.Fatalf("want %q, got %v after:\n%s", text, err, said)
		}
	}
	return said
}
