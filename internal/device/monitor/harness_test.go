package monitor

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rdma_events/internal/device/hotplug"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
	// epoch is the wall time at CLOCK_MONOTONIC 0. slept is the time for which the machine was
	// suspended before that.
	epoch = 1_700_000_000 * sec
	slept = 3600 * sec
)

// fakeDiscovery reports the sets of devices that a test sends it.
type fakeDiscovery struct {
	sets chan []verbs.Found
	done chan struct{}
}

func (f *fakeDiscovery) Run(ctx context.Context, report func([]verbs.Found)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case set := <-f.sets:
			report(set)
			f.done <- struct{}{}
		}
	}
}

// fakeSupervisor starts no worker: the test calls the methods of its Device as a worker's Supervisor would.
type fakeSupervisor struct {
	*Device
	device     string
	statusMu   sync.Mutex    // guards lastStatus: the test may act as a worker whose Run is ending
	lastStatus status.Status // the last one reported
	wakes      atomic.Int32
	last       func() // called when Run is about to end
	ended      chan struct{}
}

func (s *fakeSupervisor) Run(ctx context.Context) error {
	<-ctx.Done()
	if s.last != nil {
		s.last()
	}
	last := s.readStatus()
	s.Status(status.Status{State: status.StateStopped, Reason: status.ReasonOK, Restarts: last.Restarts, Crashes: last.Crashes})
	close(s.ended)
	return ctx.Err()
}

func (s *fakeSupervisor) Wake() { s.wakes.Add(1) }

func (s *fakeSupervisor) Status(n status.Status) {
	s.setStatus(n)
	s.Device.Status(n)
}

func (s *fakeSupervisor) readStatus() status.Status {
	s.statusMu.Lock()
	defer s.statusMu.Unlock()
	return s.lastStatus
}

func (s *fakeSupervisor) setStatus(n status.Status) {
	s.statusMu.Lock()
	defer s.statusMu.Unlock()
	s.lastStatus = n
}

// recorder keeps the emitted points in order.
type recorder struct {
	mu    sync.Mutex
	items []any // the values that the points point to
}

func (r *recorder) emit(p measure.Point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = append(r.items, reflect.ValueOf(p).Elem().Interface())
}

// takePoints returns the points emitted since the last take.
func (r *recorder) takePoints() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	items := r.items
	r.items = nil
	return items
}

// pointsOf returns the points of one type.
func pointsOf[T any](items []any) []T {
	var out []T
	for _, i := range items {
		if v, ok := i.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

// harness is a Monitor with discovery, supervisors and clocks that the test controls.
type harness struct {
	*Monitor
	t         *testing.T
	sink      *recorder
	discovery *fakeDiscovery
	mono      atomic.Int64
	wallShift atomic.Int64
	mu        sync.Mutex
	sups      []*fakeSupervisor
}

func newHarness(t *testing.T, change func(*Config)) *harness {
	t.Helper()
	h := &harness{
		t: t, sink: &recorder{},
		discovery: &fakeDiscovery{sets: make(chan []verbs.Found), done: make(chan struct{})},
	}
	cfg := Config{
		Discovery: h.discovery, NewSupervisor: h.supervisor, Emit: h.sink.emit, Now: h.now,
		Window: 5 * time.Minute, RSS: func(pid int) uint64 { return uint64(pid) },
	}
	if change != nil {
		change(&cfg)
	}
	h.Monitor = New(cfg)
	return h
}

// startMonitor runs the Monitor until the test ends.
func startMonitor(t *testing.T, change func(*Config)) *harness {
	t.Helper()
	h := newHarness(t, change)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return h
}

func (h *harness) now() (wall, mono, boot int64) {
	mono = h.mono.Load()
	return epoch + mono + h.wallShift.Load(), mono, mono + slept
}

func (h *harness) supervisor(device string, d *Device) Supervisor {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &fakeSupervisor{Device: d, device: device, ended: make(chan struct{})}
	h.sups = append(h.sups, s)
	return s
}

// sup returns the nth Supervisor made for a device.
func (h *harness) sup(device string, n int) *fakeSupervisor {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sups {
		if s.device == device {
			if n == 0 {
				return s
			}
			n--
		}
	}
	require.FailNow(h.t, "no such supervisor", "%s %d of %d", device, n, len(h.sups))
	return nil
}

// reportFound makes discovery report a set of devices, and waits until the Monitor has handled it.
func (h *harness) reportFound(set ...verbs.Found) {
	h.discovery.sets <- set
	<-h.discovery.done
}

// gathered holds the points of one Gather, by measurement.
type gathered struct {
	Async      []measure.Async
	Ports      []measure.Port
	Probes     []measure.Probe
	Histograms []measure.Histogram
	Commands   []measure.Command
	Devices    []measure.Device
	Hosts      []measure.Host
	Collector  measure.Collector
}

func sortPoints(i measure.Interval) gathered {
	s := gathered{Collector: *i.Own}
	for _, p := range i.Points {
		switch p := p.(type) {
		case *measure.Async:
			s.Async = append(s.Async, *p)
		case *measure.Port:
			s.Ports = append(s.Ports, *p)
		case *measure.Probe:
			s.Probes = append(s.Probes, *p)
		case *measure.Histogram:
			s.Histograms = append(s.Histograms, *p)
		case *measure.Command:
			s.Commands = append(s.Commands, *p)
		case *measure.Device:
			s.Devices = append(s.Devices, *p)
		case *measure.Host:
			s.Hosts = append(s.Hosts, *p)
		}
	}
	return s
}

func (h *harness) gather() gathered {
	wall, _, _ := h.now()
	return sortPoints(h.Gather(time.Unix(0, wall)))
}

// batch sends a batch at the present time of the harness.
func (h *harness) batch(s *fakeSupervisor, items ...verbs.Item) {
	wall, mono, _ := h.now()
	s.Batch(verbs.Batch{Wall: wall, Mono: mono, Items: items}, s.readStatus())
}

// runUntil advances CLOCK_MONOTONIC to a time, while a worker sends an empty batch each second.
func (h *harness) runUntil(s *fakeSupervisor, until int64) {
	for mono := h.mono.Load() + sec; mono < until; mono += sec {
		h.mono.Store(mono)
		h.batch(s)
	}
	h.mono.Store(until)
}

func (h *harness) ledger() *ledger.Ledger {
	h.t.Helper()
	led, file, err := ledger.New("test")
	require.NoError(h.t, err)
	require.NoError(h.t, file.Close())
	h.t.Cleanup(func() { require.NoError(h.t, led.Close()) })
	return led
}

// openDevice acts as a worker that opens a device with two active ports.
func (h *harness) openDevice(s *fakeSupervisor, device string) *ledger.Ledger {
	h.t.Helper()
	led := h.ledger()
	s.Started(led, nil)
	_, mono, _ := h.now()
	s.setStatus(status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: 42, Restarts: s.readStatus().Restarts})
	h.batch(s, openedItem(device, 2), readingItem(1, mono, verbs.PortActive), readingItem(2, mono, verbs.PortActive))
	return led
}

func foundDevice(name string, index int) verbs.Found {
	return verbs.Found{
		Name: name, Index: index, Node: fmt.Sprintf("uverbs%d", index), NodeGUID: fmt.Sprintf("0002:c903:0000:%04x", index+1),
	}
}

func openedItem(name string, ports int) verbs.Item {
	return verbs.Item{Opened: &verbs.DeviceAttr{Name: name, Ports: ports, Vectors: 4, EventsSupported: true}}
}

func readingItem(port int, mono int64, s verbs.PortState) verbs.Item {
	return verbs.Item{Reading: &verbs.Reading{Port: port, Mono: mono, Attr: verbs.PortAttr{State: s, RateGbps: 100}}}
}

func eventItem(t verbs.EventType, port int, n uint64, first, last int64) verbs.Item {
	return verbs.Item{Run: &verbs.Run{
		Type: t, Port: port, Count: n, First: first, Last: last,
		HoldSum: int64(n) * 900, HoldMax: 1000, AckSum: int64(n) * 90, AckMax: 100,
	}}
}

func findAsync(s gathered, device string, port int) measure.Async {
	for _, v := range s.Async {
		if v.Device == device && v.Port == port {
			return v
		}
	}
	return measure.Async{}
}

func findCount(v measure.Async, t verbs.EventType) measure.EventCount {
	for _, c := range v.Types {
		if c.Type == t {
			return c
		}
	}
	return measure.EventCount{Type: -99}
}

func findPort(s gathered, device string, port int) measure.Port {
	for _, v := range s.Ports {
		if v.Device == device && v.Port == port {
			return v
		}
	}
	return measure.Port{}
}

// requireClosedWithoutAlert requires that a device is closed for a reason that is no fault, and that no value of the host raises an alert.
func requireClosedWithoutAlert(t *testing.T, s gathered, device string, reason status.Reason, present bool) measure.Device {
	t.Helper()
	v := findDevice(s, device)
	require.Equal(t, reason, v.Reason)
	require.Equal(t, status.StateStopped, v.Worker.State)
	require.Equal(t, present, v.Present)
	require.False(t, v.Open)
	for _, host := range s.Hosts {
		require.Zero(t, host.Missing+host.Unwatched+host.PortsDown, "nothing of the host alerts")
	}
	return v
}

func isMissing(s gathered, device string) bool {
	v := findDevice(s, device)
	return v.Missing()
}

func findDevice(s gathered, device string) measure.Device {
	for _, v := range s.Devices {
		if v.Device == device {
			return v
		}
	}
	return measure.Device{}
}

// The types that the plugin uses.
var (
	_ Supervisor      = (*worker.Supervisor)(nil)
	_ worker.Handler  = (*Device)(nil)
	_ verbs.Discovery = (*hotplug.Watcher)(nil)
	_ verbs.Discovery = (*hotplug.Simulated)(nil)
)
