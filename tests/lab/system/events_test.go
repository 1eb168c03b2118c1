//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestEachInjectedTypeIsCountedUnderItsName(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		for _, row := range []struct {
			number      int
			name, scope string
			port        string // the tag; "" if there is none
		}{
			{guest.LIDChange, "lid_change", "port", "1"},
			{guest.PKeyChange, "pkey_change", "port", "1"},
			{guest.SMChange, "sm_change", "port", "1"},
			{guest.ClientReregister, "client_reregister", "port", "1"},
			{guest.DeviceFatal, "device_fatal", "device", ""},
			{guest.SpeedChange, "device_speed_change", "device", ""},
			{21, "unknown_21", "unknown", ""},
			{63, "unknown_63", "unknown", ""},
			{64, "unknown_64", "unknown", ""},
			{40000, "unknown_40000", "unknown", ""},
			// These are last, because they change the port's state.
			{guest.PortErr, "port_err", "port", "1"},
			{guest.PortActive, "port_active", "port", "1"},
		} {
			guest.Inject(t, device, row.number, 1, 3)
			points := r.Await(row.name, 20*time.Second, func(p []rig.Point) bool {
				return eventCounter(p, row.port, row.name) == 3 && eventSum(p, device, row.name) == 3
			})
			got := rig.Last(points, "rdma_async_event", "event", row.name)
			if got.Tags["scope"] != row.scope || got.Tags["port"] != row.port {
				t.Errorf("%s: want scope %q and port %q, got %v", row.name, row.scope, row.port, got.Tags)
			}
			if series := rig.Last(points, "rdma_async", "device", device, "port", row.port); series.Int("unacked") != 0 {
				t.Errorf("%s: want all acknowledged, got %v", row.name, series.Fields)
			}
		}
		points := r.Await("2 transitions and 4 phantoms", 20*time.Second, func(points []rig.Point) bool {
			p := portPoint(points, device)
			return p.Int("transitions") >= 2 && p.Int("phantom_events") >= 4
		})
		if p := portPoint(points, device); p.Text("state_name") != "active" || p.Int("transitions") != 2 || p.Int("phantom_events") != 4 {
			t.Errorf("want active after 2 transitions and 4 phantoms, got %v", p.Fields)
		}
		// A fatal of a soft device counts once the device has not been deleted for 15 s.
		points = r.Await("3 fatals", time.Minute, func(points []rig.Point) bool {
			return rig.Last(points, "rdma_device", "device", device).Int("fatals") >= 3
		})
		if d := rig.Last(points, "rdma_device", "device", device); d.Int("fatals") != 3 || d.Int("open") != 1 {
			t.Errorf("want 3 fatals and the device open still, got %v", d.Fields)
		}
	})
}

// eventCounter returns the newest value of an event's counter in its series.
func eventCounter(points []rig.Point, port, event string) int64 {
	return rig.Last(points, "rdma_async", "device", device, "port", port).Int(event)
}

func TestOneAddressIsOneGIDChange(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		before := settledCounter(t, r, "gid_change")
		guest.IP(t, "addr", "add", "10.99.1.1/24", "dev", netdev)
		r.Await("gid_change", 20*time.Second, func(p []rig.Point) bool {
			return eventCounter(p, "1", "gid_change") > before
		})
		if after := settledCounter(t, r, "gid_change"); after != before+1 {
			t.Errorf("want one gid_change more than %d, got %d", before, after)
		}
		guest.IP(t, "addr", "del", "10.99.1.1/24", "dev", netdev)
	})
}

// settledCounter waits until a counter has not changed for three intervals, and
// returns its value.
func settledCounter(t *testing.T, r *rig.Telegraf, event string) int64 {
	t.Helper()
	var value int64
	r.Await(event+" settles", 30*time.Second, func(p []rig.Point) bool {
		series := rig.Select(p, "rdma_async", "device", device, "port", "1")
		if len(series) < 4 {
			return false
		}
		newest := series[len(series)-1]
		if time.Since(time.Unix(0, newest.Time)) > 5*time.Second {
			return false
		}
		value = newest.Int(event)
		for _, s := range series[len(series)-4:] {
			if s.Int(event) != value {
				return false
			}
		}
		return true
	})
	return value
}

// The test injects two bursts. Memory that the first one adds is the working size
// of buffers. Memory that the second one adds would be a leak.
func TestABurstOf200000(t *testing.T) {
	const burst = 200_000
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		awaitStartMemoryReturned(t, r)
		before := pluginMemory(t, r)
		first := sendBurst(t, r, burst, burst)
		second := sendBurst(t, r, burst, 2*burst)
		t.Logf("own memory of plugin and worker: %.1f MiB at the start, %.1f MiB after a burst, %.1f MiB after another",
			mib(before), mib(first), mib(second))
		if first > before+5<<20 {
			t.Errorf("memory grew from %.1f to %.1f MiB", mib(before), mib(first))
		}
		if second > first+3<<20 {
			t.Errorf("memory grew from burst to burst, from %.1f to %.1f MiB", mib(first), mib(second))
		}
	})
}

// awaitStartMemoryReturned waits until the worker has given back the memory that
// only its start needed, some seconds after the start. Without the wait, memory
// that the worker takes again could not be distinguished from growth.
func awaitStartMemoryReturned(t *testing.T, r *rig.Telegraf) {
	t.Helper()
	worker := r.Workers()[0]
	r.Await("memory of the start is given back", 30*time.Second, func([]rig.Point) bool {
		return rig.Memory(t, worker, "VmRSS") < rig.Memory(t, worker, "VmHWM")-1<<20
	})
}

// sendBurst injects events, requires that the counter and the sum of count are
// total then, and returns the memory of plugin and workers.
func sendBurst(t *testing.T, r *rig.Telegraf, burst int, total int64) int64 {
	t.Helper()
	began := time.Now()
	guest.Inject(t, device, guest.PKeyChange, 1, burst)
	points := r.Await("the burst", 2*time.Minute, func(p []rig.Point) bool {
		return eventCounter(p, "1", "pkey_change") >= total && eventSum(p, device, "pkey_change") >= total
	})
	t.Logf("counted %v after the injection began", time.Since(began).Round(time.Millisecond))
	requireEqual(t, "counter", total, eventCounter(points, "1", "pkey_change"))
	requireEqual(t, "sum of count", total, eventSum(points, device, "pkey_change"))
	if a := asyncPoint(points, device); a.Int("acked") != a.Int("read") || a.Int("unacked") != 0 {
		t.Errorf("want all acknowledged, got %v", a.Fields)
	}
	return pluginMemory(t, r)
}

// pluginMemory returns the anonymous memory of plugin and workers. Pages of files belong
// to the page cache: they are loaded with the code that runs, and the kernel frees
// them at any time.
func pluginMemory(t *testing.T, r *rig.Telegraf) int64 {
	t.Helper()
	var sum int64
	for _, pid := range append(rig.Children(t, r.PID()), r.Workers()...) {
		sum += rig.Memory(t, pid, "RssAnon")
	}
	return sum
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
