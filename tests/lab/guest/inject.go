//go:build guest

package guest

import (
	"fmt"
	"os"
	"testing"
)

const injectorKnob = "/sys/kernel/debug/rdma_evinject"

// Numbers of port and device events, of enum ib_event_type in the kernel's rdma/ib_verbs.h. GID_CHANGE is
// not among them: the kernel swallows it when injected; add an address to the netdev instead.
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
// have reached the event queues of all open contexts. Types above 20 pass, as events of kernels to come;
// types that belong to a CQ, QP, SRQ or WQ do not.
func Inject(t testing.TB, device string, event, port, count int) {
	t.Helper()
	if err := TryInject(t, device, event, port, count); err != nil {
		t.Fatal(err)
	}
}

// TryInject is Inject for callers that expect the kernel to refuse.
func TryInject(t testing.TB, device string, event, port, count int) error {
	t.Helper()
	insert(t, "evinject", "LAB_EVINJECT")
	line := fmt.Sprintf("%s %d %d %d", device, event, port, count)
	if err := os.WriteFile(injectorKnob, []byte(line), 0); err != nil {
		return fmt.Errorf("inject %q: %w", line, err)
	}
	return nil
}
