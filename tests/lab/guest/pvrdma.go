//go:build guest

package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The paravirtual RDMA device of a guest that the lab booted with one, and the vmxnet3 that it belongs to. Both are
// functions of one slot of PCI. PVRDMAModel and PVRDMANetdevModel are the IDs of the devices in qemu.
const (
	PVRDMA               = "vmw_pvrdma0"
	PVRDMANetdev         = "eth0"
	PVRDMAAddress        = "10.78.0.1"
	PVRDMAFunction       = "0000:00:10.1"
	PVRDMANetdevFunction = "0000:00:10.0"
	PVRDMAModel          = "pvrdma0"
	PVRDMANetdevModel    = "nic0"
)

// Interrupts of the device, by their numbers.
const (
	InterruptOfCommands    = 0
	InterruptOfEvents      = 1
	InterruptOfCompletions = 2
)

// Numbers of events of objects, of enum pvrdma_eqe_type in the driver's pvrdma_dev_api.h and of enum ib_event_type.
const (
	CQErr             = 0
	QPFatal           = 1
	QPReqErr          = 2
	QPAccessErr       = 3
	CommEst           = 4
	SQDrained         = 5
	QPLastWQEReached  = 16
	pvInjectKnob      = "/sys/kernel/debug/pvinject"
	pvHostDir         = "/out/lab/pvhost"
	pvrdmaDriver      = "/sys/bus/pci/drivers/vmw_pvrdma"
	netdevDriver      = "/sys/bus/pci/drivers/vmxnet3"
	pvrdmaStartsSlack = 20 * time.Second
)

// AddPVRDMA loads the driver of the paravirtual RDMA device unless it is loaded, and returns once the port is active. The
// device stays at the end of the test.
func AddPVRDMA(t testing.TB) {
	t.Helper()
	Modprobe(t, "vmxnet3")
	AwaitNetdev(t, PVRDMANetdev)
	IP(t, "link", "set", PVRDMANetdev, "up")
	IP(t, "addr", "replace", PVRDMAAddress+"/24", "dev", PVRDMANetdev)
	LoadCore(t)
	LoadPVRDMA(t)
	AwaitPVRDMA(t)
}

// LoadPVRDMA loads the driver unless it is loaded.
func LoadPVRDMA(t testing.TB) {
	t.Helper()
	loadModule(t, "vmw_pvrdma", "LAB_PVRDMA")
}

// AwaitNetdev waits until there is a network device.
func AwaitNetdev(t testing.TB, netdev string) {
	t.Helper()
	Eventually(t, netdev+" exists", pvrdmaStartsSlack, func() bool { return pathExists(netdevPath(netdev)) })
}

// AwaitPVRDMA waits until the device's port is active.
func AwaitPVRDMA(t testing.TB) {
	t.Helper()
	Eventually(t, PVRDMA+": port active", pvrdmaStartsSlack, func() bool {
		state, err := os.ReadFile(filepath.Join(devicePath(PVRDMA), "ports", "1", "state"))
		return err == nil && string(state) == "4: ACTIVE\n"
	})
}

// UnbindPVRDMA takes the device's function away from its driver, and returns when the driver has let go of it.
func UnbindPVRDMA(t testing.TB) {
	t.Helper()
	writePCI(t, filepath.Join(pvrdmaDriver, "unbind"), PVRDMAFunction)
}

// BindPVRDMA gives the device's function to its driver.
func BindPVRDMA(t testing.TB) {
	t.Helper()
	writePCI(t, filepath.Join(pvrdmaDriver, "bind"), PVRDMAFunction)
}

// UnbindPVRDMANetdev takes the function of the network device away from its driver, and returns when the network device is gone.
func UnbindPVRDMANetdev(t testing.TB) {
	t.Helper()
	writePCI(t, filepath.Join(netdevDriver, "unbind"), PVRDMANetdevFunction)
}

// BindPVRDMANetdev gives the function of the network device to its driver. The network device that this makes is set down, and has no
// address.
func BindPVRDMANetdev(t testing.TB) {
	t.Helper()
	writePCI(t, filepath.Join(netdevDriver, "bind"), PVRDMANetdevFunction)
}

// RemoveFunction removes a function of PCI from the kernel's tree, and returns when it is gone.
func RemoveFunction(t testing.TB, function string) {
	t.Helper()
	writePCI(t, filepath.Join("/sys/bus/pci/devices", function, "remove"), "1")
}

// HasFunction reports whether the kernel has a function of PCI.
func HasFunction(function string) bool {
	return pathExists(filepath.Join("/sys/bus/pci/devices", function))
}

// RescanPCI has the kernel look for functions of PCI.
func RescanPCI(t testing.TB) {
	t.Helper()
	writePCI(t, "/sys/bus/pci/rescan", "1")
}

func writePCI(t testing.TB, file, text string) {
	t.Helper()
	RequireGuest(t)
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// RaiseEvent has the paravirtual device raise count events of a type for its port, by its ring and its interrupt. It returns
// after all of them have reached the event queues. Of device_fatal the port is 1.
func RaiseEvent(t testing.TB, event, count int) {
	t.Helper()
	writePVInject(t, fmt.Sprintf("%s %d 1 %d", PVRDMA, event, count))
}

// RaiseObjectEvent is RaiseEvent for an event of one object, whose kind is cq or qp and whose number is that of `rdma resource
// show`.
func RaiseObjectEvent(t testing.TB, kind string, number, event, count int) {
	t.Helper()
	writePVInject(t, fmt.Sprintf("%s %s %d %d %d", PVRDMA, kind, number, event, count))
}

// HoldInterrupt holds an interrupt of the paravirtual device back until release is called, or until the end of the test. Then
// one comes if any came meanwhile. The device must be bound to its driver still.
func HoldInterrupt(t testing.TB, number int) (release func()) {
	t.Helper()
	writePVInject(t, fmt.Sprintf("%s interrupt %d off", PVRDMA, number))
	held := true
	release = func() {
		t.Helper()
		if held {
			held = false
			writePVInject(t, fmt.Sprintf("%s interrupt %d on", PVRDMA, number))
		}
	}
	t.Cleanup(release)
	return release
}

// ForgetInterrupt is HoldInterrupt for a device that is unbound meanwhile and not used any more.
func ForgetInterrupt(t testing.TB, number int) {
	t.Helper()
	writePVInject(t, fmt.Sprintf("%s interrupt %d off", PVRDMA, number))
}

func writePVInject(t testing.TB, line string) {
	t.Helper()
	loadModule(t, "pvinject", "LAB_PVINJECT")
	if err := os.WriteFile(pvInjectKnob, []byte(line), 0); err != nil {
		t.Fatalf("inject %q: %v", line, err)
	}
}

// What the host's side of the paravirtual device may be ordered to do, and how that ends.
const (
	DatagramsLost       = "datagrams lost"
	DatagramsDelivered  = "datagrams delivered"
	InterruptsLost      = "interrupts lost"
	InterruptsRaised    = "interrupts raised"
	PortDownInQueries   = "port down"
	PortActiveInQueries = "port up"
)

// OrderPVHost has the host's side of the paravirtual device do something, and returns when it does. The test's end has it do
// the opposite again, if it has not been told so.
func OrderPVHost(t testing.TB, order, end string) (undo func()) {
	t.Helper()
	giveOrder(t, order)
	given := true
	undo = func() {
		t.Helper()
		if given {
			given = false
			giveOrder(t, end)
		}
	}
	t.Cleanup(undo)
	return undo
}

func giveOrder(t testing.TB, order string) {
	t.Helper()
	RequireGuest(t)
	path := filepath.Join(pvHostDir, "order")
	// The host must not read a part of the order.
	if err := errors.Join(os.WriteFile(path+".new", []byte(order), 0o644), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	Eventually(t, fmt.Sprintf("the host obeys %q", order), pvrdmaStartsSlack, func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	if pathExists(filepath.Join(pvHostDir, "refused")) {
		t.Fatalf("the host refuses %q", order)
	}
}
