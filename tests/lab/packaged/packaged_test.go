//go:build guest

package packaged

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

const (
	device  = "rxe0"
	snippet = "/etc/telegraf/telegraf.d/rdma_events.conf"
)

func TestThePackageServesTelegrafThroughUpgradeAndRemoval(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, "d0")
	deb := os.Getenv("RDMA_EVENTS_DEB")
	runCommand(t, "useradd", "--system", "telegraf")
	installPackage(t, deb)
	requireDoctorAgrees(t)

	r := rig.Start(t, rig.Config{Directory: filepath.Dir(snippet), Prefix: asTelegraf(), Interval: "250ms"})
	awaitOpens(r, 1)
	r.Await("a probe that works", 30*time.Second, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_cq_probe", "device", device, "method", "ud_send").Int("successes") > 3
	})

	installPackage(t, newerPackage(t, deb))
	replaceWorker(t, r)
	awaitOpens(r, 2)
	requireEvent(t, r, 3)

	runCommand(t, "dpkg", "-r", "rdma-events")
	if _, err := os.Stat(snippet); err == nil {
		t.Errorf("%s is left: Telegraf would not start with it", snippet)
	}
	requireEvent(t, r, 7)
	began := time.Now()
	guest.DeleteLink(t, device)
	t.Logf("rdma link delete beside a plugin whose package is gone: %v", time.Since(began).Round(time.Millisecond))
}

// asTelegraf returns the prefix for a command that runs as in telegraf.service: as
// a user without capabilities, with the limit of Telegraf's own unit.
func asTelegraf() []string {
	return []string{
		"prlimit", "--memlock=8388608:8388608", "--",
		"setpriv", "--reuid=telegraf", "--regid=telegraf", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--",
	}
}

func requireDoctorAgrees(t *testing.T) {
	t.Helper()
	line := append(asTelegraf(), "rdma-events", "doctor", "-config", snippet)
	out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("the doctor does not find all well: %v", err)
	}
}

func awaitOpens(r *rig.Telegraf, n int64) {
	r.Await("the device is open", time.Minute, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", device)
		return d.Int("open") == 1 && d.Int("opens") == n
	})
}

// installPackage installs the file deb with dpkg. It first disables man-db's trigger, as dpkg-reconfigure man-db
// can: the trigger would index the manual pages of the host, which the guest reads through 9p. If there are
// thousands of pages, each run of dpkg would take minutes.
func installPackage(t *testing.T, deb string) {
	t.Helper()
	if err := os.Remove("/var/lib/man-db/auto-update"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	runCommand(t, "dpkg", "-i", deb)
}

// newerPackage builds a package with a higher version and the same files.
func newerPackage(t *testing.T, deb string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "files")
	runCommand(t, "dpkg-deb", "-R", deb, dir)
	control := filepath.Join(dir, "DEBIAN/control")
	text, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "Version: ")
	version, _, _ := strings.Cut(rest, "\n")
	if !ok {
		t.Fatalf("no version in %s", text)
	}
	if err := os.WriteFile(control, []byte(strings.Replace(string(text), "Version: "+version, "Version: 999.0.0", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(t.TempDir(), "newer.deb")
	runCommand(t, "dpkg-deb", "-Znone", "-b", dir, made)
	return made
}

// replaceWorker kills the worker, and requires that its successor is of the version
// that the plugin has opened, although that file is deleted.
func replaceWorker(t *testing.T, r *rig.Telegraf) {
	t.Helper()
	old := r.Workers()
	if len(old) != 1 {
		t.Fatalf("want one worker, got %v", old)
	}
	if err := syscall.Kill(old[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	guest.Eventually(t, "another worker", 20*time.Second, func() bool {
		now := r.Workers()
		return len(now) == 1 && now[0] != old[0]
	})
	guest.Eventually(t, "a worker of the old version", 10*time.Second, func() bool {
		now := r.Workers()
		if len(now) != 1 {
			return false
		}
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", now[0]))
		return err == nil && strings.HasSuffix(exe, "rdma-events-worker (deleted)")
	})
}

func requireEvent(t *testing.T, r *rig.Telegraf, n int) {
	t.Helper()
	before := rig.Last(r.Points(), "rdma_async", "device", device, "port", "1").Int("sm_change")
	guest.Inject(t, device, guest.SMChange, 1, n)
	r.Await("events", 20*time.Second, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_async", "device", device, "port", "1").Int("sm_change") == before+int64(n)
	})
}

func runCommand(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
