//go:build guest

package system

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/drivers"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// pluginUser is the user of the tests with fewer rights.
const pluginUser = 65534

// releasing is a plugin whose devices can be released.
type releasing struct {
	*rig.Telegraf
	t         *testing.T
	statusDir string
	env       []string
}

// startReleasing starts Telegraf as the user with fewer rights, with the directories that systemd makes for a service.
func startReleasing(t *testing.T) *releasing {
	t.Helper()
	base, err := os.MkdirTemp("/run", "release-") //nolint:usetesting // t.TempDir has a parent that only its owner may pass
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	r := &releasing{t: t, statusDir: filepath.Join(base, "rdma_events-status")}
	for _, dir := range []string{filepath.Join(base, "rdma_events"), r.statusDir} {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, pluginUser, pluginUser), os.Chmod(base, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	r.env = []string{"RUNTIME_DIRECTORY=" + filepath.Join(base, "rdma_events") + ":" + r.statusDir}
	r.launch()
	awaitOpen(r.Telegraf, device)
	awaitProbe(r.Telegraf, bestMethod(), 5)
	return r
}

func (r *releasing) launch() {
	r.t.Helper()
	r.Telegraf = rig.Start(r.t, rig.Config{
		Plugin: strings.Replace(fastProbe, "events]]\n", "events]]\n  expect = [\""+device+"\"]\n", 1), Prefix: users[1].prefix, Interval: "1s",
		Env: r.env, RestartDelay: "1s",
	})
}

// command runs rdma-events as a user, and returns what it printed and its exit status.
func (r *releasing) command(prefix []string, args ...string) (string, int) {
	r.t.Helper()
	line := append(append(slices.Clone(prefix), rig.Program(r.t, "RDMA_EVENTS_BIN", "rdma-events")), args...)
	cmd := exec.CommandContext(r.t.Context(), line[0], line[1:]...)
	cmd.Env = append(os.Environ(), r.env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	r.t.Logf("%s: %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out)
	return string(out), cmd.ProcessState.ExitCode()
}

// must runs rdma-events and requires its exit status 0 and a text that it prints.
func (r *releasing) must(prefix []string, want string, args ...string) {
	r.t.Helper()
	if out, code := r.command(prefix, args...); code != 0 || !strings.Contains(out, want) {
		r.t.Fatalf("%v: want %q and status 0, got status %d:\n%s", args, want, code, out)
	}
}

func (r *releasing) awaitReleased() {
	r.t.Helper()
	r.Await("the device is released", 20*time.Second, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", device)
		return d.Text("reason") == "released" && d.Int("open") == 0 && d.Text("worker_state") == "stopped"
	})
}

// awaitIntervals waits until the plugin has reported some intervals more.
func (r *releasing) awaitIntervals(n int) {
	r.t.Helper()
	before := len(rig.Select(r.Points(), "rdma_collector"))
	r.Await("intervals", 60*time.Second, func(p []rig.Point) bool { return len(rig.Select(p, "rdma_collector")) >= before+n })
}

// requireNothingAlerts requires that `health` finds nothing. A busy guest may skip intervals, with and without a release.
func (r *releasing) requireNothingAlerts() {
	r.t.Helper()
	guest.Eventually(r.t, "the plugin reports its status", 60*time.Second, func() bool {
		_, code := r.command(nil, "health")
		return code != 70
	})
	out, _ := r.command(nil, "health")
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "no problems") && !strings.HasPrefix(line, "plugin-late ") {
			r.t.Errorf("want no alert, got %s", line)
		}
	}
}

// requireHealthCannotTell requires that `health` says of the device only that it is released.
func (r *releasing) requireHealthCannotTell() {
	r.t.Helper()
	if out, code := r.command(nil, "health"); code != 70 || !strings.HasPrefix(out, "cannot tell yet; "+device+": the device is released") {
		r.t.Errorf("want health unable to tell because %s is released, got status %d: %s", device, code, out)
	}
}

// requireDoctorLeavesItAlone requires that the doctor finds the device released, and tries nothing on it.
func (r *releasing) requireDoctorLeavesItAlone() {
	r.t.Helper()
	out, _ := r.command(nil, "doctor")
	about := 0
	for line := range strings.Lines(out) {
		if strings.Contains(line, device) {
			about++
			if !strings.Contains(line, "released until") {
				r.t.Errorf("want no other line about the device, got %s", line)
			}
		}
	}
	if about != 1 {
		r.t.Errorf("want one line about the device, got %d", about)
	}
}

func (r *releasing) requireWorkers(want int) {
	r.t.Helper()
	if n := len(r.Workers()); n != want {
		r.t.Errorf("want %d workers, got %d", want, n)
	}
}

// strangerPrefix returns the prefix that runs a command as a user who is neither root nor the plugin's user.
func strangerPrefix() []string {
	return []string{"setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "--inh-caps=-all", "--"}
}

func TestDriverIsReplacedDuringARelease(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	r := startReleasing(t)
	requireEventsCounted(t, r.Telegraf, 5)

	if out, code := r.command(strangerPrefix(), "release"); code != 2 || !strings.Contains(out, "only root and the plugin's user") {
		t.Errorf("want another user refused, got status %d:\n%s", code, out)
	}
	began := time.Now()
	r.must(users[1].prefix, device+": closed, and released until", "release", "-for", "20m")
	checkDuration(t, "release", time.Since(began), 3*time.Second)
	r.requireWorkers(0)
	if out, code := r.command(strangerPrefix(), "resume"); code != 2 || !strings.Contains(out, "only root and the plugin's user") {
		t.Errorf("want another user refused, got status %d:\n%s", code, out)
	}
	r.awaitReleased()

	// What an installer does.
	guest.DeleteLink(t, device)
	guest.UnloadDriver(t, guest.Driver())
	r.awaitIntervals(2)
	guest.LoadDriver(t, guest.Driver())
	guest.AddLink(t, device, guest.Driver(), netdev)
	r.awaitIntervals(8)
	r.requireWorkers(0)
	r.requireHealthCannotTell()
	r.requireDoctorLeavesItAlone()

	points := r.Points()
	released := false
	for _, p := range rig.Select(points, "rdma_device", "device", device) {
		released = released || p.Text("reason") == "released"
		if released && (p.Text("reason") != "released" || p.Int("open") != 0) {
			t.Errorf("want the device released until it is resumed, got %v", p.Fields)
		}
	}

	r.must(nil, device+": watched again", "resume") // as root
	awaitOpen(r.Telegraf, device)
	requireEventsCounted(t, r.Telegraf, 7)
	if sum := eventSum(r.Points(), device, "pkey_change"); sum != 5+7 {
		t.Errorf("want all 12 events of before and after, got %d", sum)
	}
	r.requireNothingAlerts()

	// The time is over.
	began = time.Now()
	r.must(nil, device+": closed", "release", "-device", device, "-for", "5s")
	r.awaitReleased()
	r.Await("the device is open again", 60*time.Second, func(p []rig.Point) bool { return isOpen(p, device) })
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("want the device closed for 5s, was open again after %v", took)
	}
	requireEventsCounted(t, r.Telegraf, 3)

	// A plugin that is restarted keeps to the release.
	r.must(users[1].prefix, device+": closed", "release")
	before := rig.Children(t, r.PID())
	for _, pid := range before {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	guest.Eventually(t, "another plugin runs", 60*time.Second, func() bool {
		now := rig.Children(t, r.PID())
		return len(now) == 1 && !slices.Contains(before, now[0])
	})
	r.awaitIntervals(8)
	r.awaitReleased()
	r.requireWorkers(0)
	r.requireHealthCannotTell()
	r.must(users[1].prefix, device+": watched again", "resume")
	awaitOpen(r.Telegraf, device)
	r.Stop()
}

// serviceDir is the directory of a service's status.
const serviceDir = "/run/rdma_events-status"

// startWatch runs `rdma-events watch`, behind a prefix of a shell, until it has the device open. The function ends it.
func startWatch(t *testing.T, prefix string) (stop func()) {
	t.Helper()
	if err := os.Mkdir(serviceDir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	watch := exec.CommandContext(t.Context(), "sh", "-c", "exec "+prefix+rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events")+" watch -json")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	opened := false
	for line := range lines {
		if opened = strings.Contains(line, `"device":"`+device+`","reason":"ok"`); opened {
			break
		}
	}
	if !opened {
		t.Fatal("watch has ended without the device")
	}
	return func() {
		if err := watch.Process.Kill(); err != nil {
			t.Error(err)
		}
		for line := range lines {
			t.Log(line)
		}
		_ = watch.Wait() // it was killed
	}
}

// A program without a directory of its own is asked by nobody.
func TestReleaseWaitsForAWatchToCloseTheDevice(t *testing.T) {
	guest.RequireDriver(t, "rxe") // siw is no module of the guest's kernel
	guest.AddDevice(t, device, guest.Driver(), netdev)
	defer startWatch(t, "")()
	r := &releasing{t: t, statusDir: serviceDir}
	r.must(nil, "no plugin runs with its status in "+serviceDir, "release")
	if err := guest.TryUnloadModule(t, guest.ModuleOf(guest.Driver())); err != nil {
		t.Errorf("want the driver unloaded as soon as release returns, got %v", err)
	}
	guest.AddLink(t, device, guest.Driver(), netdev)
	r.must(nil, "", "resume")
}

// A plugin in a pod has a /run of its own, and does not see the release of the node.
func TestReleaseNamesAWorkerThatGoesOn(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	defer startWatch(t, "unshare --mount sh -c 'mount -t tmpfs none /run && exec \"$@\"' - ")()
	r := &releasing{t: t, statusDir: serviceDir}
	out, code := r.command(nil, "release")
	if want := "E! " + device + ": NOT closed: process "; code != 2 || !strings.Contains(out, want) {
		t.Errorf("want %q and status 2, got status %d:\n%s", want, code, out)
	}
	r.must(nil, "", "resume")
}

// The line of modprobe.d is that of docs/how-to/maintenance.md.
func TestModprobeReleasesBeforeItUnloads(t *testing.T) {
	guest.RequireDriver(t, "rxe") // siw is no module of the guest's kernel
	guest.AddDevice(t, device, guest.Driver(), netdev)
	r := startReleasing(t)
	config := filepath.Join(t.TempDir(), "release.conf")
	line := "remove rdma_rxe " + rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events") + " release -for 10m -dir " + r.statusDir +
		"; modprobe -r --ignore-remove rdma_rxe\n"
	if err := os.WriteFile(config, []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "modprobe", "-C", config, "-r", "rdma_rxe").CombinedOutput()
	t.Logf("%s", out)
	if err != nil || guest.HasModule("rdma_rxe") {
		t.Fatalf("want the driver unloaded, got %v", err)
	}
	guest.AddLink(t, device, guest.Driver(), netdev)
	r.Await("the device is found again", 20*time.Second, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", device)
		return d.Int("present") == 1 && d.Int("removals") == 1 && d.Text("reason") == "released"
	})
	r.must(nil, device+": watched again", "resume")
	awaitOpen(r.Telegraf, device)
	r.Stop()
}

// The module of a driver that cannot take a device away from its users has a reference for each of them. The table in
// internal/device/drivers says which can, by kernel.
func TestDriverUnloadsBesideAnOpenDeviceAsTheTableSays(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		module := guest.ModuleOf(guest.Driver())
		unload := func() (time.Duration, error) {
			began := time.Now()
			err := guest.TryUnloadModule(t, module)
			return time.Since(began), err
		}
		add := func() { guest.AddLink(t, device, guest.Driver(), netdev) }
		alone, err := unload()
		if err != nil {
			t.Fatalf("want the driver unloaded where nothing has its device open, got %v", err)
		}
		add()
		release, err := os.ReadFile("/proc/sys/kernel/osrelease")
		if err != nil {
			t.Fatal(err)
		}
		r := start(fastProbe)
		awaitProbe(r, bestMethod(), 5)
		took, err := unload()
		t.Logf("rmmod %s: %v with the device open, %v without; %v", module, took.Round(time.Millisecond), alone.Round(time.Millisecond), err)
		if took > alone+tenTimes*longestDelay {
			t.Errorf("want the answer within %v more than the %v without the plugin, took %v", longestDelay, alone, took)
		}
		if drivers.Unload(module, drivers.ParseRelease(string(release))) == drivers.UnloadRefused {
			if err == nil || !strings.Contains(err.Error(), "is in use") {
				t.Fatalf("want the driver in use, got %v", err)
			}
			points := awaitProbe(r, bestMethod(), vectorRounds(r.Points(), "0")+10)
			if d := rig.Last(points, "rdma_device", "device", device); d.Int("opens") != 1 || d.Int("removals") != 0 {
				t.Errorf("want the device undisturbed, got %v", d.Fields)
			}
			requireEventsCounted(t, r, 5)
		} else {
			if err != nil {
				t.Fatalf("want the driver unloaded, got %v", err)
			}
			awaitAbsent(r, device, "deleted", 1)
			add()
			awaitOpens(r, device, 2)
		}
		r.Stop()
	})
}
