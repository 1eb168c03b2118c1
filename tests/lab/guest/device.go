//go:build guest

package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
		if exists(netdevPath(netdev)) {
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
	AddLink(t, device, kind, netdev)
	t.Cleanup(func() {
		if exists(devicePath(device)) {
			DeleteLink(t, device)
		}
	})
	Eventually(t, device+": port active", 10*time.Second, func() bool {
		state, err := os.ReadFile(filepath.Join(devicePath(device), "ports", "1", "state"))
		return err == nil && string(state) == "4: ACTIVE\n"
	})
	return address
}

// AddLink makes an RDMA device of kind (rxe, siw) on a netdev and leaves it there.
func AddLink(t testing.TB, device, kind, netdev string) {
	t.Helper()
	LoadDriver(t, kind)
	must(t, rdmaProgram, "link", "add", device, "type", kind, "netdev", netdev)
}

// DeleteLink removes an RDMA device. Up to kernel 6.12 it blocks while a context of the device is open.
func DeleteLink(t testing.TB, device string) {
	t.Helper()
	RequireGuest(t)
	must(t, rdmaProgram, "link", "delete", device)
}

// LoadDriver loads the module of a kind of device. Both drivers request an algorithm by a name for which the
// kernel loads no module by itself.
func LoadDriver(t testing.TB, kind string) {
	t.Helper()
	switch kind {
	case "rxe":
		// A newer driver calls the function instead. An older one without the module refuses every link.
		_, _ = output("modprobe", "-q", "crc32_generic")
		Modprobe(t, "rdma_rxe")
	case "siw":
		Modprobe(t, "crc32c_generic")
		insert(t, "siw", "LAB_SIW")
	default:
		t.Fatalf("no driver for devices of kind %q", kind)
	}
}

// UnloadDriver unloads the module of a kind of device. No device of that kind may exist.
func UnloadDriver(t testing.TB, kind string) {
	t.Helper()
	RequireGuest(t)
	module := kind
	if kind == "rxe" {
		module = "rdma_rxe"
	}
	must(t, "rmmod", module)
}

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
	_, err := output(rdmaProgram, args...)
	return err
}

// HasDevice reports whether the kernel has an RDMA device of that name.
func HasDevice(device string) bool { return exists(devicePath(device)) }

func devicePath(device string) string { return filepath.Join("/sys/class/infiniband", device) }
func netdevPath(netdev string) string { return filepath.Join("/sys/class/net", netdev) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// LinkState returns the state of a port and its physical state as `rdma link` prints them, in lower case.
func LinkState(t testing.TB, device string, port int) (state, physical string) {
	t.Helper()
	RequireGuest(t)
	text, err := output(rdmaProgram, "-j", "link", "show", fmt.Sprintf("%s/%d", device, port))
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
