package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"rdma_events/tests/rig"
)

const (
	escape  = "\x1b["
	green   = escape + "32m"
	inPlace = escape + "2A" + escape + "J" // up two lines, and erase from there (console_codes(4))
)

func TestColoursAreForATerminalThatWantsThem(t *testing.T) {
	t.Parallel()
	conf := writeFile(t, "rdma_events.conf", simConfig(writeScenario(t, flapping)), 0o644)
	watch := []string{"watch", "-config", conf, "-device", "sim0", "-probe", "-for", "6s"}
	for _, row := range []struct {
		name    string
		args    []string
		env     string
		has     []string
		colours bool
	}{
		{"watch", watch, "", []string{green + "active", inPlace, "ud_send  v0 wake"}, true},
		{"watch without colours", watch, "NO_COLOR=1", []string{"down > active"}, false},
		{"watch for programs", append(watch[:len(watch):len(watch)], "-json"), "", []string{`"event":"port_active"`}, false},
		{"the fabric", []string{"fabric", "-demo", "-for", "4s"}, "", []string{green + "ok", "A" + escape + "J", "port    peer"}, true},
		{"the fabric on a dumb terminal", []string{"fabric", "-demo", "-for", "4s"}, "TERM=dumb", []string{"  16 pairs: "}, false},
		{"doctor", []string{"doctor"}, "", []string{green + "OK"}, true},
		{"doctor on a dumb terminal", []string{"doctor"}, "TERM=dumb", []string{"OK    network namespace"}, false},
		{"doctor for programs", []string{"doctor", "-json"}, "", []string{`"check": "network_namespace"`}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			text := onTerminal(t, row.env, row.args...)
			for _, want := range row.has {
				if !strings.Contains(text, want) {
					t.Errorf("want %q on the terminal, got:\n%q", want, text)
				}
			}
			if strings.Contains(text, escape) != row.colours {
				t.Errorf("want colours %v, got:\n%q", row.colours, text)
			}
		})
	}
}

// onTerminal runs the program on its own terminal and returns everything that it
// writes there.
func onTerminal(t *testing.T, env string, args ...string) string {
	t.Helper()
	screen, terminal := openTerminal(t)
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), args...)
	cmd.Stdout = terminal
	cmd.Env = append(os.Environ(), "TERM=linux", "LANG=C.UTF-8", "NO_COLOR=", "RUNTIME_DIRECTORY="+shortDir(t))
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	// A read of the other end fails with EIO once no process has the terminal open (pty(7)).
	text, err := io.ReadAll(screen)
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("read the terminal: %v", err)
	}
	var exit *exec.ExitError // the status of some depends on what they found
	if err := cmd.Wait(); err != nil && (!slices.Contains([]string{"doctor", "fabric"}, args[0]) || !errors.As(err, &exit)) {
		t.Errorf("%v: %v", args, err)
	}
	return string(text)
}

// openTerminal returns a pseudo-terminal for a program, and the end from which the
// test reads the program's output.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return screen, terminal
}
