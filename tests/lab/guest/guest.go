//go:build guest

package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// marker is a file that the guest's init makes. No setting of the host can be taken for it.
const marker = "/run/rdma-events-guest"

// Paths of the real iproute2: busybox may have its own ip, which does not support RDMA.
const (
	ipProgram   = "/usr/bin/ip"
	rdmaProgram = "/usr/bin/rdma"
)

// commandTimeout is far above the time that any tool takes in an emulated guest. rdma link delete waits until
// the last open context of a device is closed, which may be for ever.
const commandTimeout = 20 * time.Second

// RequireGuest fails a test that runs outside of a guest, where it would change the host's network.
func RequireGuest(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(marker); err != nil {
		t.Fatal("not in a lab guest; run it with: go test -tags lab ./tests/lab")
	}
}

// KernelHas reports whether the guest's kernel is of the version, as in "6.12", or of a later one.
func KernelHas(t testing.TB, version string) bool {
	t.Helper()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	major, minor := parseVersion(t, string(release))
	wantMajor, wantMinor := parseVersion(t, version)
	return major > wantMajor || major == wantMajor && minor >= wantMinor
}

func parseVersion(t testing.TB, text string) (major, minor int) {
	t.Helper()
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("parse version %q: %v", text, err)
	}
	return major, minor
}

// Modprobe loads kernel modules.
func Modprobe(t testing.TB, names ...string) {
	t.Helper()
	RequireGuest(t)
	mustRun(t, "modprobe", append([]string{"-a"}, names...)...)
}

// loadModule loads a module that the lab has built, unless it is loaded already. It first loads the modules that this
// module depends on. The environment variable contains the path of the module.
func loadModule(t testing.TB, module, variable string) {
	t.Helper()
	RequireGuest(t)
	if pathExists(filepath.Join("/sys/module", module)) {
		return
	}
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set: this guest was booted without the module %s", variable, module)
	}
	depends, err := commandOutput("modinfo", "-F", "depends", path)
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Split(strings.TrimSpace(depends), ","); names[0] != "" {
		Modprobe(t, names...)
	}
	mustRun(t, "insmod", path)
}

// IP runs iproute2's ip. One call takes about 60 ms in an emulated guest.
func IP(t testing.TB, args ...string) {
	t.Helper()
	RequireGuest(t)
	mustRun(t, ipProgram, args...)
}

// Eventually polls until cond holds. If it does not within timeout, the test fails with the text what.
func Eventually(t testing.TB, what string, timeout time.Duration, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %v", what, timeout)
		case <-poll.C:
		}
	}
}

func mustRun(t testing.TB, name string, args ...string) {
	t.Helper()
	if _, err := commandOutput(name, args...); err != nil {
		t.Fatal(err)
	}
}

func commandOutput(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		done <- result{out, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		// A command that hangs in the kernel cannot be killed. Its goroutine stays until the guest ends.
		r.err = ctx.Err()
	}
	if r.err != nil {
		return "", fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), r.err, strings.TrimSpace(string(r.out)))
	}
	return string(r.out), nil
}
