//go:build guest

package app

import (
	"testing"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/conformance/tracetest"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
	"rdma_events/tests/lab/guest"
)

// Lacks are the capabilities of package tracetest that no Host has.
func Lacks() map[tracetest.Capability]string {
	return map[tracetest.Capability]string{
		tracetest.Fatal: "soft devices are not taken away from a process: rdma link delete waits until it has closed the device",
	}
}

// Host is the guest with one device. It implements tracetest.Host.
type Host struct {
	device string
	open   func(hangAfter time.Duration) (trace.Source, error)
	apps   []*App
}

// NewHost makes a device on a netdev of its own, until the end of the test.
func NewHost(t testing.TB, device, netdev string, open func(hangAfter time.Duration) (trace.Source, error)) *Host {
	t.Helper()
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	guest.LoadCore(t)
	return &Host{device: device, open: open}
}

// Device implements tracetest.Host.
func (h *Host) Device() string { return h.device }

// Now implements tracetest.Host.
func (h *Host) Now() int64 { return clock.Monotonic() }

// Open implements tracetest.Host.
func (h *Host) Open(hangAfter time.Duration) (trace.Source, error) { return h.open(hangAfter) }

// Start implements tracetest.Host.
func (h *Host) Start(t testing.TB) tracetest.Process {
	t.Helper()
	a := Start(t, h.device)
	h.apps = append(h.apps, a)
	return &actor{app: a, numbers: map[verbs.Scope]int{}}
}

// Remove implements tracetest.Host. The processes end first, or it would wait for them.
func (h *Host) Remove(t testing.TB) {
	t.Helper()
	for _, a := range h.apps {
		a.Kill(t)
	}
	guest.DeleteLink(t, h.device)
}

// actor is a process that the suite leads. It implements tracetest.Process.
type actor struct {
	app     *App
	numbers map[verbs.Scope]int // of its objects, as far as they are known
}

func (a *actor) PID() int { return a.app.PID() }

func (a *actor) Cause(t testing.TB, typ verbs.EventType, count int) (number uint32) {
	t.Helper()
	kind := typ.Scope()
	if a.numbers[kind] == 0 {
		a.numbers[kind] = a.app.Number(t, kind.String())
	}
	guest.InjectNumber(t, a.app.Device(), kind.String(), a.numbers[kind], int(typ), count)
	return uint32(a.numbers[kind])
}

func (a *actor) Read(t testing.TB, count int) {
	t.Helper()
	a.app.Read(t, count)
}

func (a *actor) Hold(t testing.TB) {
	t.Helper()
	a.app.Hold(t, 0)
}

func (a *actor) Destroy(t testing.TB, typ verbs.EventType) {
	t.Helper()
	a.app.Destroy(t, typ.Scope().String())
}

func (a *actor) Acknowledge(t testing.TB) {
	t.Helper()
	a.app.Acknowledge(t, 0)
	a.app.Join(t)
}

func (a *actor) Exit(t testing.TB) {
	t.Helper()
	a.app.Kill(t)
}
