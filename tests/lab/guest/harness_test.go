//go:build guest

package guest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDeviceAppearsInSysfsAndInIbvDevices(t *testing.T) {
	RequireGuest(t)
	AddRxe(t, "rxe0", "d0")

	if !pathExists("/sys/class/infiniband/rxe0") {
		t.Error("want rxe0 in /sys/class/infiniband, got none")
	}
	out, err := commandOutput("ibv_devices")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "rxe0") {
		t.Errorf("want rxe0 in the list of ibv_devices, got:\n%s", out)
	}
}

func TestDeviceIsGoneAfterTheTestThatMadeIt(t *testing.T) {
	RequireGuest(t)
	t.Run("made", func(t *testing.T) { AddRxe(t, "rxe0", "d0") })

	for _, path := range []string{devicePath("rxe0"), netdevPath("d0")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("want no %s, got %v", path, err)
		}
	}
}

func TestInjectedEventsReachAReader(t *testing.T) {
	RequireGuest(t)
	AddRxe(t, "rxe0", "d0")
	watch := startAsyncWatch(t, "rxe0")

	Inject(t, "rxe0", PKeyChange, 1, 1)
	watch.wait("IBV_EVENT_PKEY_CHANGE (12), port 1", 1)
	Inject(t, "rxe0", 77, 1, 3)
	watch.wait("unexpected (77), port 1", 3)
}

func TestInjectedTypesComeInTurn(t *testing.T) {
	RequireGuest(t)
	AddRxe(t, "rxe0", "d0")
	watch := startAsyncWatch(t, "rxe0")

	InjectInTurn(t, "rxe0", 77, 79, 1, 2)
	Inject(t, "rxe0", LIDChange, 1, 1)
	watch.wait("IBV_EVENT_LID_CHANGE", 1)
	var got []string
	for line := range strings.Lines(watch.text()) {
		if _, after, ok := strings.Cut(line, "unexpected ("); ok {
			got = append(got, after[:2])
		}
	}
	if want := []string{"77", "78", "79", "77", "78", "79"}; !slices.Equal(got, want) {
		t.Errorf("want types %v, got %v", want, got)
	}
	if err := writeKnob(t, "rxe0 79-77 1 1"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("want types in their order alone, got %v", err)
	}
}

func TestInjectedBurstIsComplete(t *testing.T) {
	RequireGuest(t)
	AddRxe(t, "rxe0", "d0")
	watch := startAsyncWatch(t, "rxe0")
	burst := 200_000
	if testing.Short() {
		burst = 50_000
	}

	started := time.Now()
	Inject(t, "rxe0", SMChange, 1, burst)
	t.Logf("dispatched %d events in %v", burst, time.Since(started))
	// This event is queued last. Events that are still missing when it arrives are lost.
	Inject(t, "rxe0", LIDChange, 1, 1)
	watch.wait("IBV_EVENT_LID_CHANGE", 1)
	t.Logf("read them in %v", time.Since(started))
	if got := watch.count("IBV_EVENT_SM_CHANGE"); got != burst {
		t.Errorf("want %d events, got %d", burst, got)
	}
}

func TestInjectorRefuses(t *testing.T) {
	RequireGuest(t)
	AddRxe(t, "rxe0", "d0")
	for _, c := range []struct {
		name        string
		device      string
		event, port int
		want        error
	}{
		{"event of a CQ", "rxe0", 0, 1, syscall.EINVAL},
		{"event of a QP", "rxe0", 7, 1, syscall.EINVAL},
		{"event of an SRQ", "rxe0", 15, 1, syscall.EINVAL},
		{"last WQE of a QP", "rxe0", 16, 1, syscall.EINVAL},
		{"event of a WQ", "rxe0", 19, 1, syscall.EINVAL},
		{"swallowed by the kernel", "rxe0", 18, 1, syscall.EOPNOTSUPP},
		{"port out of range", "rxe0", PortErr, 2, syscall.EINVAL},
		{"unknown device", "rxe9", PortErr, 1, syscall.ENODEV},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := TryInject(t, c.device, c.event, c.port, 1); !errors.Is(err, c.want) {
				t.Errorf("want %v, got %v", c.want, err)
			}
		})
	}
}

func TestInjectorRefusesObjects(t *testing.T) {
	RequireGuest(t)
	AddRxe(t, "rxe0", "d0")
	for _, c := range []struct {
		name, line string
		want       error
	}{
		{"that do not exist", "rxe0 cq 4000000 0 1", syscall.ENOENT},
		{"of an unknown kind", "rxe0 wq 1 19 1", syscall.EINVAL},
		{"of another scope than the event's", "rxe0 qp 17 15 1", syscall.EINVAL},
		{"with an event of no object", "rxe0 qp 17 10 1", syscall.EINVAL},
		{"of an unknown device", "rxe9 qp 17 1 1", syscall.ENODEV},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := writeKnob(t, c.line); !errors.Is(err, c.want) {
				t.Errorf("want %v, got %v", c.want, err)
			}
		})
	}
}

func TestFlapLinkKeepsThePaceAndIsSeen(t *testing.T) {
	RequireGuest(t)
	AddRxe(t, "rxe0", "d0")
	watch := startAsyncWatch(t, "rxe0")
	flaps := Flaps{Count: 5, Down: 30 * time.Millisecond, Period: 100 * time.Millisecond}

	changes, err := FlapLink(t.Context(), "d0", flaps)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 2*flaps.Count {
		t.Fatalf("want %d changes, got %d", 2*flaps.Count, len(changes))
	}
	for i, c := range changes {
		if c.Up != (i%2 == 1) || c.After < c.Before {
			t.Errorf("change %d: got up=%v before=%d after=%d", i, c.Up, c.Before, c.After)
		}
	}
	down := time.Duration(changes[1].Before - changes[0].Before)
	period := time.Duration(changes[8].Before - changes[0].Before)
	if down < flaps.Down || period < 4*flaps.Period-flaps.Down {
		t.Errorf("want down >= %v and four periods of %v, got %v and %v", flaps.Down, flaps.Period, down, period)
	}
	watch.wait("IBV_EVENT_PORT_ERR", flaps.Count)
	watch.wait("IBV_EVENT_PORT_ACTIVE", flaps.Count)
}

func TestOutputDirectoryIsTheHosts(t *testing.T) {
	RequireGuest(t)
	if err := os.WriteFile("/out/from-guest", []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRootFileSystemKeepsWritesToItself(t *testing.T) {
	RequireGuest(t)
	path := filepath.Join("/", "lab-overlay-test")
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := commandOutput("findmnt", "-n", "-o", "FSTYPE", "/"); err != nil || strings.TrimSpace(out) != "overlay" {
		t.Errorf("want root on overlay, got %q, %v", out, err)
	}
}

// asyncWatch is a running ibv_asyncwatch. Its output goes to a file, so that it never waits for a pipe.
type asyncWatch struct {
	t    *testing.T
	path string
}

func startAsyncWatch(t *testing.T, device string) *asyncWatch {
	t.Helper()
	w := &asyncWatch{t: t, path: filepath.Join(t.TempDir(), "asyncwatch")}
	out, err := os.Create(w.path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ibv_asyncwatch", "-d", device)
	cmd.Stdout, cmd.Stderr = out, out
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("kill ibv_asyncwatch: %v", err)
		}
		_ = cmd.Wait()
	})
	w.wait("async event FD", 1)
	return w
}

func (w *asyncWatch) text() string {
	b, err := os.ReadFile(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *asyncWatch) count(text string) int { return strings.Count(w.text(), text) }

func (w *asyncWatch) wait(text string, n int) {
	w.t.Helper()
	Eventually(w.t, "ibv_asyncwatch prints "+text, 60*time.Second, func() bool { return w.count(text) >= n })
}
