//go:build guest

package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// addresses counts the netdevs of a test binary, so that each has its own network.
var addresses atomic.Int32

// AddNetdev makes a dummy netdev that is up and returns its IPv4 address. The netdev is deleted at the end of
// the test.
func AddNetdev(t testing.TB, netdev string) (address string) {
	t.Helper()
	Modprobe(t, "dummy")
	address = fmt.Sprintf("10.77.%d.1", addresses.Add(1))
	IP(t, "link", "add", netdev, "type", "dummy")
	t.Cleanup(func() {
		if pathExists(netdevPath(netdev)) {
			IP(t, "link", "delete", netdev)
		}
	})
	IP(t, "addr", "add", address+"/24", "dev", netdev)
	IP(t, "link", "set", netdev, "up")
	return address
}

// Driver returns the driver under test in this run: rxe (RoCE) or siw (iWARP). The lab builds siw only for runs
// that test it.
func Driver() string {
	if driver := os.Getenv("LAB_DRIVER"); driver != "" {
		return driver
	}
	return "rxe"
}

// RequireDriver skips a test of one driver in runs that test another. The lab's list of allowed skips has to
// contain the test.
func RequireDriver(t testing.TB, driver string) {
	t.Helper()
	RequireGuest(t)
	if Driver() != driver {
		t.Skipf("a test of %s, and this run is about %s", driver, Driver())
	}
}

// AddRxe is AddDevice for a RoCE device.
func AddRxe(t testing.TB, device, netdev string) (address string) {
	t.Helper()
	return AddDevice(t, device, "rxe", netdev)
}

// AddDevice makes an RDMA device of kind (rxe, siw) on a new dummy netdev and returns once its port is active.
// Both are deleted at the end of the test. By then the test must have closed everything that it opened on the
// device.
func AddDevice(t testing.TB, device, kind, netdev string) (address string) {
	t.Helper()
	address = AddNetdev(t, netdev)
	AddDeviceOn(t, device, kind, netdev)
	return address
}

// AddDeviceOnVeth is AddDevice on a new veth netdev, which has a carrier for as long as peer is up.
func AddDeviceOnVeth(t testing.TB, device, kind, netdev, peer string) (address string) {
	t.Helper()
	Modprobe(t, "veth")
	address = fmt.Sprintf("10.77.%d.1", addresses.Add(1))
	IP(t, "link", "add", netdev, "type", "veth", "peer", "name", peer)
	t.Cleanup(func() {
		if pathExists(netdevPath(netdev)) {
			IP(t, "link", "delete", netdev)
		}
	})
	IP(t, "addr", "add", address+"/24", "dev", netdev)
	IP(t, "link", "set", netdev, "up")
	IP(t, "link", "set", peer, "up")
	AddDeviceOn(t, device, kind, netdev)
	return address
}

// AddDeviceOn makes an RDMA device of kind (rxe, siw) on a netdev and returns once its port is active. The device is
// deleted at the end of the test.
func AddDeviceOn(t testing.TB, device, kind, netdev string) {
	t.Helper()
	forgetPast(t)
	AddLink(t, device, kind, netdev)
	t.Cleanup(func() {
		if pathExists(devicePath(device)) {
			DeleteLink(t, device)
		}
	})
	Eventually(t, device+": port active", 10*time.Second, func() bool {
		state, err := os.ReadFile(filepath.Join(devicePath(device), "ports", "1", "state"))
		return err == nil && string(state) == "4: ACTIVE\n"
	})
}

// forgetPast removes what plugins of earlier tests have left for the next one to continue with (statusfile.ReadHistory): a device of this
// test has no past.
func forgetPast(t testing.TB) {
	t.Helper()
	files, err := filepath.Glob("/run/rdma_events-status/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var left struct {
			Process struct{ PID int }
		}
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &left) != nil || pathExists(fmt.Sprintf("/proc/%d", left.Process.PID)) {
			continue // a plugin that runs is writing it
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// AddLink makes an RDMA device of kind (rxe, siw) on a netdev and leaves it there.
func AddLink(t testing.TB, device, kind, netdev string) {
	t.Helper()
	LoadDriver(t, kind)
	mustRun(t, rdmaProgram, "link", "add", device, "type", kind, "netdev", netdev)
}

// DeleteLink removes an RDMA device. Up to kernel 6.12 it blocks while a context of the device is open.
func DeleteLink(t testing.TB, device string) {
	t.Helper()
	RequireGuest(t)
	mustRun(t, rdmaProgram, "link", "delete", device)
}

// LoadDriver loads the module of a kind of device. Both drivers request an algorithm by a name for which the
// kernel loads no module by itself.
func LoadDriver(t testing.TB, kind string) {
	t.Helper()
	switch kind {
	case "rxe":
		// A newer driver calls the function instead. An older one without the module refuses every link.
		_, _ = commandOutput("modprobe", "-q", "crc32_generic")
		Modprobe(t, "rdma_rxe")
	case "siw":
		Modprobe(t, "crc32c_generic")
		loadModule(t, "siw", "LAB_SIW")
	default:
		t.Fatalf("no driver for devices of kind %q", kind)
	}
}

// LoadCore loads ib_uverbs, as udev does on a host when there is a device. The guest has no udev. There libibverbs loads it,
// unless the driver needs it.
func LoadCore(t testing.TB) {
	t.Helper()
	Modprobe(t, "ib_uverbs")
}

// UnloadDriver unloads the module of a kind of device. No device of that kind may exist.
func UnloadDriver(t testing.TB, kind string) {
	t.Helper()
	UnloadModule(t, ModuleOf(kind))
}

// ModuleOf returns the module of a kind of device.
func ModuleOf(kind string) string {
	if kind == "rxe" {
		return "rdma_rxe"
	}
	return kind
}

// UnloadModule unloads a module of the kernel that nothing uses.
func UnloadModule(t testing.TB, module string) {
	t.Helper()
	RequireGuest(t)
	mustRun(t, "rmmod", module)
}

// TryUnloadModule is UnloadModule for callers that expect the kernel to refuse.
func TryUnloadModule(t testing.TB, module string) error {
	t.Helper()
	RequireGuest(t)
	_, err := commandOutput("rmmod", module)
	return err
}

// HasModule reports whether a module of the kernel is loaded.
func HasModule(module string) bool { return pathExists(filepath.Join("/sys/module", module)) }

// RDMA runs iproute2's rdma.
func RDMA(t testing.TB, args ...string) {
	t.Helper()
	if err := TryRDMA(t, args...); err != nil {
		t.Fatal(err)
	}
}

// TryRDMA is RDMA for callers that expect the kernel to refuse.
func TryRDMA(t testing.TB, args ...string) error {
	t.Helper()
	RequireGuest(t)
	_, err := commandOutput(rdmaProgram, args...)
	return err
}

// Resources returns what iproute2's rdma shows of a kind of objects, as in "qp" or "pd", of a device.
func Resources(t testing.TB, kind, device string) []map[string]any {
	t.Helper()
	return listResources(t, kind, device, "-j")
}

// ResourceDetails is Resources with details, as the numbers of protection domains.
func ResourceDetails(t testing.TB, kind, device string) []map[string]any {
	t.Helper()
	return listResources(t, kind, device, "-j", "-d")
}

func listResources(t testing.TB, kind, device string, options ...string) []map[string]any {
	t.Helper()
	RequireGuest(t)
	out, err := commandOutput(rdmaProgram, append(options, "resource", "show", kind)...)
	if err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	if err := json.Unmarshal([]byte(out), &objects); err != nil {
		t.Fatalf("rdma resource show %s: %v in %q", kind, err, out)
	}
	return slices.DeleteFunc(objects, func(o map[string]any) bool { return o["ifname"] != device })
}

// HasDevice reports whether the kernel has an RDMA device of that name.
func HasDevice(device string) bool { return pathExists(devicePath(device)) }

func devicePath(device string) string { return filepath.Join("/sys/class/infiniband", device) }
func netdevPath(netdev string) string { return filepath.Join("/sys/class/net", netdev) }

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// LinkState returns the state of a port and its physical state as `rdma link` prints them, in lower case.
func LinkState(t testing.TB, device string, port int) (state, physical string) {
	t.Helper()
	RequireGuest(t)
	text, err := commandOutput(rdmaProgram, "-j", "link", "show", fmt.Sprintf("%s/%d", device, port))
	if err != nil {
		t.Fatal(err)
	}
	var links []struct {
		State    string `json:"state"`
		Physical string `json:"physical_state"`
	}
	if err := json.Unmarshal([]byte(text), &links); err != nil || len(links) != 1 {
		t.Fatalf("want one link, got %v: %s", err, text)
	}
	return strings.ToLower(links[0].State), strings.ToLower(links[0].Physical)
}

// Netdev is what `ip link` prints of a network device.
type Netdev struct {
	Up, Carrier    bool
	CarrierChanges int64
}

// NetdevState returns what `ip link` prints of a network device.
func NetdevState(t testing.TB, netdev string) Netdev {
	t.Helper()
	RequireGuest(t)
	text, err := commandOutput(ipProgram, "-j", "-s", "-s", "link", "show", "dev", netdev)
	if err != nil {
		t.Fatal(err)
	}
	var links []struct {
		Flags []string `json:"flags"`
		Stats struct {
			TX struct {
				CarrierChanges int64 `json:"carrier_changes"`
			} `json:"tx"`
		} `json:"stats64"`
	}
	if err := json.Unmarshal([]byte(text), &links); err != nil || len(links) != 1 {
		t.Fatalf("want one netdev, got %v: %s", err, text)
	}
	l := links[0]
	return Netdev{slices.Contains(l.Flags, "UP"), slices.Contains(l.Flags, "LOWER_UP"), l.Stats.TX.CarrierChanges}
}
