//go:build guest

package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

const injectorKnob = "/sys/kernel/debug/rdma_evinject"

// Numbers of port and device events, of enum ib_event_type in the kernel's rdma/ib_verbs.h. GID_CHANGE is
// missing, because the kernel does not pass it on when it is injected. Add an address to the netdev instead.
const (
	DeviceFatal      = 8
	PortActive       = 9
	PortErr          = 10
	LIDChange        = 11
	PKeyChange       = 12
	SMChange         = 13
	ClientReregister = 17
	SpeedChange      = 20
)

// Inject makes the kernel dispatch count events of a type on a device's port. It returns after all of them
// have reached the event queues of all open contexts. Types above 20 are accepted, as events of future kernels.
// Types that belong to a CQ, QP, SRQ or WQ are refused.
func Inject(t testing.TB, device string, event, port, count int) {
	t.Helper()
	if err := TryInject(t, device, event, port, count); err != nil {
		t.Fatal(err)
	}
}

// TryInject is Inject for callers that expect the kernel to refuse.
func TryInject(t testing.TB, device string, event, port, count int) error {
	t.Helper()
	return writeKnob(t, fmt.Sprintf("%s %d %d %d", device, event, port, count))
}

// InjectInTurn makes the kernel dispatch count events of each type from first to last, the types in turn, so that two
// consecutive events are never of the same type.
func InjectInTurn(t testing.TB, device string, first, last, port, count int) {
	t.Helper()
	if err := writeKnob(t, fmt.Sprintf("%s %d-%d %d %d", device, first, last, port, count)); err != nil {
		t.Fatal(err)
	}
}

// InjectObject makes the kernel deliver count events of a type to an object of this process, as a driver
// would. It returns after all of them have reached the queue of the context that owns the object. kind is qp,
// cq or srq. The process must have exactly one such object of the device.
func InjectObject(t testing.TB, device, kind string, event, count int) {
	t.Helper()
	InjectNumber(t, device, kind, ownObject(t, device, kind), event, count)
}

// InjectNumber is InjectObject for an object of any process, by its number as `rdma resource show` has it.
func InjectNumber(t testing.TB, device, kind string, number, event, count int) {
	t.Helper()
	if err := writeKnob(t, fmt.Sprintf("%s %s %d %d %d", device, kind, number, event, count)); err != nil {
		t.Fatal(err)
	}
}

// InjectCompletion makes the kernel raise count completion events of this process's only CQ on a device,
// without a completion in it.
func InjectCompletion(t testing.TB, device string, count int) {
	t.Helper()
	if err := writeKnob(t, fmt.Sprintf("%s cqc %d 0 %d", device, ownObject(t, device, "cq"), count)); err != nil {
		t.Fatal(err)
	}
}

// HangQueries makes every query of the device's ports by a process wait in the kernel, as for firmware that does
// not answer, until the given time from now. The test's end gives the device its own query back.
func HangQueries(t testing.TB, device string, until time.Duration) {
	t.Helper()
	if err := writeKnob(t, fmt.Sprintf("%s hang %d", device, until.Milliseconds())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writeKnob(t, device+" hang 0"); err != nil {
			t.Error(err)
		}
	})
}

// ownObject returns the number of this process's object from the kernel's resource tracking.
func ownObject(t testing.TB, device, kind string) int {
	t.Helper()
	text, err := commandOutput(rdmaProgram, "-j", "resource", "show", kind)
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("parse resources %q: %v", text, err)
	}
	number := map[string]string{"qp": "lqpn", "cq": "cqn", "srq": "srqn"}[kind]
	var own []int
	for _, r := range all {
		// The kernel tracks the thread that made the object.
		if id, ok := r[number].(float64); ok && r["ifname"] == device && pathExists(fmt.Sprintf("/proc/self/task/%.0f", r["pid"])) {
			own = append(own, int(id))
		}
	}
	if len(own) != 1 {
		t.Fatalf("want one %s of this process on %s, got %v of %s", kind, device, own, text)
	}
	return own[0]
}

// LoadInjector loads the module that the functions above write to, which they do as well. The kernel logs a warning that it is no module
// of its own.
func LoadInjector(t testing.TB) {
	t.Helper()
	loadModule(t, "evinject", "LAB_EVINJECT")
}

func writeKnob(t testing.TB, line string) error {
	t.Helper()
	LoadInjector(t)
	if err := os.WriteFile(injectorKnob, []byte(line), 0); err != nil {
		return fmt.Errorf("inject %q: %w", line, err)
	}
	return nil
}
