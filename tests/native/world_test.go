package native

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/sys/confine/confinetest"
	"rdma_events/tests/rig"
)

// world is a host with devices of the stand-in library.
type world struct {
	*rig.Telegraf
	t        *testing.T
	dir      string
	devices  []string
	controls map[string]*standin.Control
	drivers  map[string]standin.Profile // of devices that are not like those of rxe
	method   string                     // of the probes
	interval string                     // between two of their rounds
	// restartDelay is how long Telegraf waits before it starts a killed plugin again; "": the rig's default.
	restartDelay string
	libraries    string           // directory of the stand-in; "": that of all worlds
	markers      []syscall.Signal // not yet used to crash the worker of marker0
}

// marker is the device whose crashes mark a place in the log.
const marker = "marker0"

// healthy are devices without faults that every world has. The faults of the other
// devices must not affect them.
var healthy = []string{"healthy0", "healthy1"}

// configuration makes the worker use all calls at the boundary to the library:
// datagrams need an address handle and memory, too.
const configuration = `[[inputs.rdma_events]]
  state_interval = "1s"
  ports = [%s]
  [inputs.rdma_events.probe]
    interval = "%s"
    timeout = "90ms"
    method = %q
  [inputs.rdma_events.evidence]
    command_interval = "1s"
`

var library = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		return "", err
	}
	_, err = standin.Compile("../../internal/conformance/standin/testdata", dir)
	return dir, err
})

// withoutLandlock is an environment variable. With it, the test program runs the
// command in its arguments as on a kernel without Landlock.
const withoutLandlock = "NATIVE_TEST_WITHOUT_LANDLOCK"

func TestMain(m *testing.M) {
	if os.Getenv(withoutLandlock) != "" {
		err := errors.Join(os.Unsetenv(withoutLandlock), confinetest.ForbidLandlock(),
			syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if dir, _ := library(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// newWorld creates the devices. Faults that are set in their control pages before
// start happen from the start on.
func newWorld(t *testing.T, devices ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), controls: map[string]*standin.Control{}, drivers: map[string]standin.Profile{}, method: "ud_send", interval: "100ms"}
	w.markers = []syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE}
	for _, d := range slices.Concat(healthy, []string{marker}, devices) {
		w.devices = append(w.devices, d)
		w.must(os.MkdirAll(filepath.Join(w.dir, "nodes"), 0o755))
		w.restore(d)
		c, err := standin.Map(filepath.Join(w.dir, "nodes", d))
		w.must(err)
		w.controls[d] = c
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start runs Telegraf with the plugin in a mount namespace that has the devices.
func (w *world) start(env ...string) {
	w.t.Helper()
	libraries := w.libraries
	if libraries == "" {
		var err error
		libraries, err = library()
		w.must(err)
	}
	enter, err := filepath.Abs("testdata/enter.sh")
	w.must(err)
	prefix := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		prefix = append(prefix, "--map-root-user")
	}
	w.Telegraf = rig.Start(w.t, rig.Config{
		Plugin: fmt.Sprintf(configuration, w.firstPorts(), w.interval, w.method), Interval: "250ms",
		Prefix:       append(prefix, "sh", enter, w.dir),
		RestartDelay: w.restartDelay,
		Env:          append(env, "LD_LIBRARY_PATH="+libraries, "VERBS_STANDIN=/dev/infiniband"),
	})
}

// firstPorts returns the first port of each device, as a list for the option ports.
func (w *world) firstPorts() string {
	var ports []string
	for _, d := range w.devices {
		ports = append(ports, strconv.Quote(d+":1"))
	}
	return strings.Join(ports, ", ")
}

// inject puts an asynchronous event into the queue of a device that is open, as
// the kernel would.
func (w *world) inject(device string, typ int32, element uint64) {
	w.t.Helper()
	path := fmt.Sprintf("/proc/%d/fd/%d", w.Worker(device), w.controls[device].AsyncWrite)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	w.must(err)
	defer f.Close()
	_, err = f.Write(standin.AsyncEvent(typ, element))
	w.must(err)
}

// remove removes a device, its node first, as the kernel does.
func (w *world) remove(device string) {
	w.t.Helper()
	node := fmt.Sprint("uverbs", slices.Index(w.devices, device))
	for _, path := range []string{"nodes/" + node, "class/infiniband_verbs/" + node, "class/infiniband/" + device} {
		w.must(os.RemoveAll(filepath.Join(w.dir, path)))
	}
}

// restore creates a device, or creates it again.
func (w *world) restore(device string) {
	w.t.Helper()
	node := fmt.Sprint("uverbs", slices.Index(w.devices, device))
	w.must(standin.WriteFile(filepath.Join(w.dir, "nodes", node), ""))
	if p, ok := w.drivers[device]; ok {
		w.must(p.WriteSysfs(w.dir, device, node))
		return
	}
	w.must(standin.WriteSysfs(w.dir, device, node))
}

// take makes a device behave as with a driver.
func (w *world) take(device string, p standin.Profile) {
	w.t.Helper()
	w.drivers[device] = p
	w.restore(device)
	w.controls[device].Apply(p)
}

// lastPoint returns the newest point of a device.
func lastPoint(points []rig.Point, measurement, device string) rig.Point {
	return rig.Last(points, measurement, "device", device)
}

// isProbing reports whether a device is open and the newest point of its probe shows a
// successful round.
func isProbing(points []rig.Point, device string) bool {
	p := lastPoint(points, "rdma_cq_probe", device)
	return p.Int("ok") == 1 && lastPoint(points, "rdma_device", device).Int("open") == 1
}

func (w *world) awaitProbing(devices ...string) []rig.Point {
	w.t.Helper()
	return w.Await("probes of "+strings.Join(devices, " "), time.Minute, func(points []rig.Point) bool {
		return !slices.ContainsFunc(devices, func(d string) bool { return !isProbing(points, d) })
	})
}

// requireUndisturbed requires that the healthy devices have run all the time.
func (w *world) requireUndisturbed() {
	w.t.Helper()
	points := w.awaitProbing(healthy...)
	for _, d := range healthy {
		info, probe := lastPoint(points, "rdma_device", d), lastPoint(points, "rdma_cq_probe", d)
		if info.Int("opens") != 1 || info.Int("worker_restarts") != 0 || info.Text("reason") != "ok" {
			w.t.Errorf("%s is disturbed: %v", d, info.Fields)
		}
		if probe.Int("errors")+probe.Int("lost_completions") != 0 || probe.Int("unacked") != 0 {
			w.t.Errorf("%s has rounds that ended badly: %v", d, probe.Fields)
		}
		w.requireProgress(rig.Select(points, "rdma_cq_probe", "device", d))
		if lines := w.complaints(d); len(lines) != 0 {
			w.t.Errorf("%s: want nothing in the log, got %q", d, lines)
		}
		if broken := w.controls[d].BrokenRule(); broken != "" {
			w.t.Errorf("%s: a rule of the library was broken: %s", d, broken)
		}
	}
}

// requireProgress requires that the number of rounds grows at least every 3 s.
func (w *world) requireProgress(points []rig.Point) {
	w.t.Helper()
	const pause = 3 * time.Second
	var at, rounds int64
	for _, p := range points {
		if p.Int("rounds") == rounds {
			if quiet := time.Duration(p.Time - at); rounds > 0 && quiet > pause {
				w.t.Errorf("%s: no round for %v", p.Series(), quiet)
			}
			continue
		}
		at, rounds = p.Time, p.Int("rounds")
	}
	if rounds == 0 {
		w.t.Error("no round was seen")
	}
}

// awaitLog waits until all lines of the log up to now have come through Telegraf,
// which may take longer than for points. It crashes the worker of marker0 and waits
// for the line about that crash, which comes last.
func (w *world) awaitLog() {
	w.t.Helper()
	by := w.markers[0] // a different one each time, because the same crash is logged once
	w.markers = w.markers[1:]
	w.controls[marker].CrashSignal = int32(by)
	w.controls[marker].CrashCall = int32(ledger.CallPostSend)
	w.AwaitLog("worker of "+marker+" died of "+unix.SignalName(by), 20*time.Second)
}

// complaints returns the warnings and errors about a device in the log, without
// time and origin.
func (w *world) complaints(device string) []string {
	w.t.Helper()
	var lines []string
	for line := range strings.Lines(w.Log()) {
		_, text, found := strings.Cut(strings.TrimSpace(line), "[inputs.execd] ")
		level := strings.Fields(line + " - -")[1]
		if found && (level == "W!" || level == "E!") && mentionsDevice(text, device) {
			lines = append(lines, level+" "+text)
		}
	}
	return lines
}

// mentionsDevice reports whether text contains the device's whole name.
func mentionsDevice(text, device string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" :,;()", r) }), device)
}
