//go:build guest

package system

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/internal/agent/inspect/report"
	"rdma_events/internal/device/snapshot"
	"rdma_events/internal/device/sysfs"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// writeReport runs `rdma-events report` as a user, and returns the files of its archive and its exit status.
func writeReport(t *testing.T, prefix []string, flags ...string) (files map[string]string, status int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "report") //nolint:usetesting // a test's own directory is closed to other users
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "out.tar.gz")
	line := append(slices.Clone(prefix), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "report", "-out", path)
	begin := time.Now()
	cmd := exec.CommandContext(t.Context(), line[0], append(line[1:], flags...)...)
	output, err := cmd.CombinedOutput()
	t.Logf("%v after %v:\n%s", err, time.Since(begin), output)
	return readArchive(t, path), cmd.ProcessState.ExitCode()
}

func readArchive(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		files[name] = string(text)
	}
}

func decodeJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
}

// What a report says of a device is what sysfs and `rdma resource show` say.
func TestAReportAgreesWithTheKernel(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	for _, u := range users {
		t.Run(u.name, func(t *testing.T) {
			files, status := writeReport(t, u.prefix)
			if status != 1 { // nothing was recorded here
				t.Errorf("want exit status 1, got %d", status)
			}
			t.Log(files[report.ManifestName])
			var doc snapshot.Document
			decodeJSON(t, files["devices/"+device+".json"], &doc)
			requireSnapshot(t, &doc)
			requireHost(t, files[report.HostJSON])
			requireResources(t, files[report.ResourcesJSON])
			requireKernelLines(t, u.name == "root", files)
			if !strings.Contains(files[report.DoctorText], device) {
				t.Errorf("want the doctor to name the device, got:\n%s", files[report.DoctorText])
			}
		})
	}
}

func requireSnapshot(t *testing.T, doc *snapshot.Document) {
	t.Helper()
	if missing := doc.Missing(); len(missing) > 0 {
		t.Errorf("missing: %q", missing)
	}
	var attr struct{ Driver string }
	decodeJSON(t, string(doc.Parts["attributes"]), &attr)
	want, err := sysfs.New("/sys").GIDs(device, 1)
	if err != nil || len(doc.Ports) != 1 {
		t.Fatalf("want GIDs and one port, got %v, %+v", err, doc.Ports)
	}
	if attr.Driver != sysfs.New("/sys").Device(device).Driver {
		t.Errorf("got driver %q", attr.Driver)
	}
	var gids []struct {
		Index  int
		GID    string
		NetDev string
	}
	decodeJSON(t, string(doc.Ports[0].Parts["gids"]), &gids)
	for i := range want {
		if len(gids) != len(want) || gids[i].Index != want[i].Index || gids[i].GID != want[i].String() {
			t.Fatalf("want GIDs %v, got %+v", want, gids)
		}
	}
	var port struct{ State string }
	decodeJSON(t, string(doc.Ports[0].Parts["attributes"]), &port)
	if port.State != "active" {
		t.Errorf("want the port active, got %+v", port)
	}
	if guest.Driver() != "rxe" {
		return // the kernel does not say which network device a device of iWARP is on
	}
	var net struct {
		Name    string
		AdminUp bool `json:"admin_up"`
	}
	decodeJSON(t, string(doc.Ports[0].Parts["netdev"]), &net)
	if net.Name != netdev || !net.AdminUp {
		t.Errorf("want %s up, got %+v", netdev, net)
	}
}

func requireHost(t *testing.T, text string) {
	t.Helper()
	var h report.Host
	decodeJSON(t, text, &h)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil || h.Kernel.Release != strings.TrimSpace(string(release)) {
		t.Errorf("want kernel %s, got %+v, %v", release, h.Kernel, err)
	}
	if len(h.Devices) != 1 || h.Devices[0].Name != device || h.Devices[0].PCI != nil || h.Devices[0].Provider == "" {
		t.Errorf("want a device without a PCI function and with a provider, got %+v", h.Devices)
	}
	if !slices.ContainsFunc(h.Modules, func(m report.Module) bool { return m.Name == "ib_core" }) {
		t.Errorf("want ib_core among the modules, got %+v", h.Modules)
	}
}

// requireResources compares with the yardstick, when no process of the report has the device open any more.
func requireResources(t *testing.T, text string) {
	t.Helper()
	var r report.Resources
	decodeJSON(t, text, &r)
	out, err := exec.CommandContext(t.Context(), "rdma", "resource", "show", device).CombinedOutput()
	if err != nil || len(r.Devices) != 1 {
		t.Fatalf("%v: %s, got %+v", err, out, r)
	}
	for _, pair := range regexp.MustCompile(`\b(qp|cq|mr|pd|cm_id|ctx) (\d+)`).FindAllStringSubmatch(string(out), -1) {
		if got := fmt.Sprint(r.Devices[0].Counts[pair[1]]); got != pair[2] {
			t.Errorf("want %s %s, got %s", pair[1], pair[2], got)
		}
	}
}

func requireKernelLines(t *testing.T, permitted bool, files map[string]string) {
	t.Helper()
	text, there := files[report.KernelLog]
	switch {
	case permitted && (!there || guest.Driver() == "rxe" && !strings.Contains(text, netdev)):
		t.Errorf("want lines that name %s, got %q", netdev, text)
	case !permitted && (there || !strings.Contains(files[report.ManifestName],
		"kernel.dmesg_restrict is 1, and this user has no CAP_SYSLOG; instead: sudo dmesg")):
		t.Errorf("want the reason why there are no lines, got:\n%s", files[report.ManifestName])
	}
}

// The driver's query of a port waits in the kernel, where no kill ends it. The report is written meanwhile.
func TestAReportLeavesBehindWhatTheKernelHolds(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	const hangs = 30 * time.Second
	begin := time.Now()
	guest.HangQueries(t, device, hangs)
	files, status := writeReport(t, users[1].prefix)
	if status != 1 {
		t.Errorf("want exit status 1, got %d", status)
	}
	t.Log(files[report.ManifestName])
	left := regexp.MustCompile(`devices/\S+ .*: no answer within 10s, and the killed process has not ended: the kernel holds process (\d+), which is left behind`).
		FindStringSubmatch(files[report.ManifestName])
	if left == nil {
		t.Fatalf("want a process left behind, got:\n%s", files[report.ManifestName])
	}
	var doc snapshot.Document
	decodeJSON(t, files["devices/"+device+".json"], &doc)
	if len(doc.Ports) != 1 || len(doc.Ports[0].Parts["gids"]) == 0 {
		t.Errorf("want what came before, got %+v", doc)
	}
	if files[report.HostJSON] == "" || files[report.ResourcesJSON] == "" {
		t.Errorf("want the other parts, got %d files", len(files))
	}
	t.Logf("written after %v, and the kernel holds it for %v", time.Since(begin), hangs)
	var pid int
	if _, err := fmt.Sscan(left[1], &pid); err != nil {
		t.Fatal(err)
	}
	guest.Eventually(t, "the process is gone once the kernel lets it go", 2*hangs, func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}
