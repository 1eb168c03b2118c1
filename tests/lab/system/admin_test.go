//go:build guest

package system

import (
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// longestDelay is how much longer an administrator's command may take with the plugin than without it. The tests allow
// tenTimes as much in an emulated guest on a busy host.
const (
	longestDelay = time.Second
	tenTimes     = 10
)

// admin measures how long an administrator's commands take, on a device that no
// process has open (alone) and with the plugin (worst).
type admin struct {
	t     *testing.T
	alone map[string]time.Duration
	worst map[string]time.Duration
}

// newAdmin requires that the device is there and that no process has it open. It
// leaves the device in this state.
func newAdmin(t *testing.T) *admin {
	t.Helper()
	a := &admin{t: t, alone: map[string]time.Duration{}, worst: map[string]time.Duration{}}
	for range 3 {
		a.deleteLink()
		a.addLink()
		a.rename(device, "moved0")
		a.rename("moved0", device)
	}
	a.alone, a.worst = a.worst, map[string]time.Duration{}
	t.Cleanup(func() {
		for what, took := range a.worst {
			t.Logf("%s: at most %v, %v without the plugin; promised at most %v more", what,
				took.Round(time.Millisecond), a.alone[what].Round(time.Millisecond), longestDelay)
			t.Logf("worst delay of %s: %v", what, max(0, took-a.alone[what]).Round(time.Millisecond))
		}
	})
	return a
}

func (a *admin) do(what string, command func()) {
	a.t.Helper()
	began := time.Now()
	command()
	took := time.Since(began)
	a.worst[what] = max(a.worst[what], took)
	if len(a.alone) > 0 && took > a.alone[what]+tenTimes*longestDelay {
		a.t.Errorf("%s: took %v beside the plugin, %v without it", what, took, a.alone[what])
	}
}

// worstDelay returns the longest time that a command took beyond its time without
// the plugin.
func (a *admin) worstDelay() time.Duration {
	var worst time.Duration
	for what, took := range a.worst {
		worst = max(worst, took-a.alone[what])
	}
	return worst
}

func (a *admin) deleteLink() {
	a.t.Helper()
	a.do("rdma link delete", func() { guest.DeleteLink(a.t, device) })
}

func (a *admin) addLink() {
	a.t.Helper()
	a.do("rdma link add", func() { guest.AddLink(a.t, device, guest.Driver(), netdev) })
}

func (a *admin) rename(from, to string) {
	a.t.Helper()
	a.do("rdma dev set name", func() { guest.RDMA(a.t, "dev", "set", from, "name", to) })
}

// awaitAbsent waits until a device is reported absent with a reason.
func awaitAbsent(r *rig.Telegraf, name, reason string, removals int64) []rig.Point {
	return r.Await(name+" is "+reason, 20*time.Second, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", name)
		return d.Int("present") == 0 && d.Int("open") == 0 && d.Int("removals") == removals && d.Text("reason") == reason
	})
}

// awaitOpens waits until a device has been opened opens times and is open.
func awaitOpens(r *rig.Telegraf, name string, opens int64) []rig.Point {
	return r.Await(name+" is open", 30*time.Second, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", name)
		return d.Int("open") == 1 && d.Int("opens") == opens
	})
}

func TestARenamedDeviceGoesOnUnderItsNewName(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		a := newAdmin(t)
		r := start(fastProbe)
		awaitProbe(r, bestMethod(), 5)
		a.rename(device, "moved0")
		t.Cleanup(func() { // for the removal of the device
			if guest.HasDevice("moved0") {
				guest.RDMA(t, "dev", "set", "moved0", "name", device)
			}
		})
		awaitAbsent(r, device, "renamed", 0)
		awaitOpen(r, "moved0")
		guest.Inject(t, "moved0", guest.PKeyChange, 1, 3)
		r.Await("its events", 20*time.Second, func(p []rig.Point) bool {
			return asyncPoint(p, "moved0").Int("pkey_change") == 3 && eventSum(p, "moved0", "pkey_change") == 3
		})
		a.rename("moved0", device)
		awaitAbsent(r, "moved0", "renamed", 0)
		points := awaitOpens(r, device, 2)
		if n := asyncPoint(points, device).Int("pkey_change"); n != 0 {
			t.Errorf("want no events of the other series, got %d", n)
		}
		rig.RequireCountersNeverFall(t, points)
		r.Stop()
	})
}

func TestADeviceGoesWithItsNetdevAndComesBack(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		a := newAdmin(t)
		began := time.Now()
		guest.IP(t, "link", "add", "unused0", "type", "dummy")
		guest.IP(t, "link", "delete", "unused0")
		a.alone["ip link delete"] = time.Since(began)
		r := start(fastProbe)
		awaitProbe(r, bestMethod(), 5)
		a.do("ip link delete", func() { guest.IP(t, "link", "delete", netdev) })
		awaitAbsent(r, device, "deleted", 1)
		guest.Eventually(t, "the device is gone", 10*time.Second, func() bool { return !guest.HasDevice(device) })
		guest.AddNetdev(t, netdev)
		a.addLink()
		awaitOpens(r, device, 2)
		requireEventsCounted(t, r, 5)
		r.Stop() // before the device is deleted
	})
}

func TestTheDriverIsUnloadedAfterItsLinksAndLoadedAgain(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		a := newAdmin(t)
		a.deleteLink()
		began := time.Now()
		guest.UnloadDriver(t, guest.Driver())
		a.alone["rmmod"] = time.Since(began)
		a.addLink()
		r := start(fastProbe)
		awaitProbe(r, bestMethod(), 5)
		for round := range int64(3) {
			a.deleteLink()
			a.do("rmmod", func() { guest.UnloadDriver(t, guest.Driver()) })
			awaitAbsent(r, device, "deleted", round+1)
			guest.LoadDriver(t, guest.Driver())
			a.addLink()
			awaitOpens(r, device, round+2)
		}
		requireEventsCounted(t, r, 5)
		r.Stop()
	})
}

// requireEventsCounted injects events as soon as the device is open, and requires
// that they are counted.
func requireEventsCounted(t *testing.T, r *rig.Telegraf, events int) {
	t.Helper()
	guest.Eventually(t, "a worker has the device open", 30*time.Second, func() bool { return workerOf(t, r, device) != 0 })
	before := asyncPoint(r.Points(), device).Int("pkey_change")
	guest.Inject(t, device, guest.PKeyChange, 1, events)
	points := r.Await("events are counted", 20*time.Second, func(p []rig.Point) bool {
		return asyncPoint(p, device).Int("pkey_change") == before+int64(events)
	})
	rig.RequireCountersNeverFall(t, points)
}

// Linux takes the device away from the processes that have it open, as with a removal. The class infiniband_verbs still shows the
// device while another network namespace has it. The plugin gets no events from there until the device comes back.
func TestDeviceMovedBetweenNamespacesIsReopened(t *testing.T) {
	guest.RequireGuest(t)
	guest.LoadDriver(t, guest.Driver())
	guest.RDMA(t, "system", "set", "netns", "exclusive") // refused while there is another namespace
	guest.IP(t, "netns", "attach", "home", "1")
	guest.IP(t, "netns", "add", "other")
	guest.AddDevice(t, device, guest.Driver(), netdev)
	const move = "rdma dev set netns"
	a := newAdmin(t)
	away := func() { a.do(move, func() { guest.RDMA(t, "dev", "set", device, "netns", "other") }) }
	back := func() {
		a.do(move, func() { guest.IP(t, "netns", "exec", "other", "rdma", "dev", "set", device, "netns", "home") })
	}
	r := startReleasing(t) // device is in expect
	// On this kernel, loading the driver does not load ib_uverbs. It is loaded when a process asks for the node.
	for line := range strings.Lines(r.Log()) {
		if strings.Contains(line, "permission denied") {
			t.Errorf("want the node there before the first worker may use no other, got: %s", line)
		}
	}
	for n := range int64(3) {
		away()
		began := time.Now()
		points := r.awaitOtherNetns()
		reportedAfter := time.Since(began)
		r.requireWorkers(0)
		first := rig.Last(points, "rdma_device", "device", device)
		r.awaitIntervals(3)
		points = r.Points()
		d := rig.Last(points, "rdma_device", "device", device)
		// The age grows as the clock of the points does, to the jitter of reading two clocks in turn.
		grown, passed := d.Int("other_netns_age_ns")-first.Int("other_netns_age_ns"), d.Time-first.Time
		if first.Int("other_netns_age_ns") < 0 || d.Text("reason") != "other_netns" || passed <= int64(time.Second) ||
			time.Duration(grown-passed).Abs() > 100*time.Millisecond {
			t.Errorf("want it away and its age grown by the %d ns that passed, got %v after %v", passed, d.Fields, first.Fields)
		}
		r.requireNothingAlerts()
		if out, _ := r.command(nil, "status"); !strings.Contains(out, "other_netns since ") {
			t.Errorf("want the device in another network namespace, got %s", out)
		}
		requireNoLoss(t, points)
		if h := rig.Last(points, "rdma_host"); h.Int("devices_unwatched") != 0 {
			t.Errorf("want no device that is there and not watched, got %v", h.Fields)
		}
		back()
		began = time.Now()
		awaitOpens(r.Telegraf, device, n+2)
		// If no event reports the device, the plugin tries to open it after ten seconds.
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("want the device open soon after it came back, took %v", took)
		} else {
			t.Logf("open again %v after it came back", took.Round(time.Millisecond))
		}
		t.Logf("reported in the other network namespace after %v", reportedAfter.Round(time.Millisecond))
		if n == 0 { // the third drop within half an hour would raise port-flapping
			requireDropCounted(t, r.Telegraf)
		}
	}
	// A pod that ends gives its devices back, and one that begins may give them away at once: nobody may have looked in between.
	away()
	back()
	awaitOpens(r.Telegraf, device, 5)
	requireDropCounted(t, r.Telegraf)
	r.awaitIntervals(3)
	points := awaitProbe(r.Telegraf, bestMethod(), vectorRounds(r.Points(), "0")+10)
	rig.RequireCountersNeverFall(t, points)
	requireNoLoss(t, points)
	r.requireNothingAlerts()
	if a.worst[move] > tenTimes*longestDelay {
		t.Errorf("%s: want it within %v, got %v", move, longestDelay, a.worst[move])
	}
	r.Stop()

	// The device is away before the plugin starts.
	away()
	r.launch()
	r.awaitOtherNetns()
	back()
	awaitOpens(r.Telegraf, device, 1)
	requireNoLoss(t, r.Points())
	r.Stop()
}

func (r *releasing) awaitOtherNetns() []rig.Point {
	r.t.Helper()
	return r.Await("the device is in another network namespace", 30*time.Second, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", device)
		return d.Text("reason") == "other_netns" && d.Int("present") == 1 && d.Int("open") == 0 && d.Text("worker_state") == "stopped"
	})
}

// requireNoLoss requires that no point since the start reports a device as missing, removed or failed.
func requireNoLoss(t *testing.T, points []rig.Point) {
	t.Helper()
	for _, p := range rig.Select(points, "rdma_device") {
		if p.Int("present") != 1 || p.Int("removals") != 0 || p.Int("fatals") != 0 || p.Int("crashes") != 0 {
			t.Fatalf("want a device that is no loss, got %v", p.Fields)
		}
	}
	for _, p := range rig.Select(points, "rdma_host") {
		if p.Int("devices_missing") != 0 || p.Int("flaps") > 2 { // those of requireDropCounted
			t.Fatalf("want a host that misses nothing, got %v", p.Fields)
		}
	}
}

// requireDropCounted takes the link down and up, and requires that both events are counted once.
func requireDropCounted(t *testing.T, r *rig.Telegraf) {
	t.Helper()
	guest.Eventually(t, "a worker has the device open", 30*time.Second, func() bool { return workerOf(t, r, device) != 0 })
	r.Await("the port is watched", 30*time.Second, func(p []rig.Point) bool { return portPoint(p, device).Int("up") == 1 })
	before := asyncPoint(r.Points(), device)
	guest.IP(t, "link", "set", "dev", netdev, "down")
	guest.IP(t, "link", "set", "dev", netdev, "up")
	points := r.Await("the drop is counted", 20*time.Second, func(p []rig.Point) bool {
		now := asyncPoint(p, device)
		return now.Int("port_err") > before.Int("port_err") && now.Int("port_active") > before.Int("port_active")
	})
	for _, event := range []string{"port_err", "port_active"} {
		if n := asyncPoint(points, device).Int(event) - before.Int(event); n != 1 {
			t.Errorf("want %s once, got %d", event, n)
		}
	}
	rig.RequireCountersNeverFall(t, points)
}

// Up to Linux 6.12 the kernel refuses to move a device of either driver, because
// neither driver can take the device away from the processes that have it open
// (disassociate_ucontext). From Linux 7.3 on rxe can.
func TestARefusedMoveToAnotherNamespaceDisturbsNothing(t *testing.T) {
	guest.RequireGuest(t)
	guest.LoadDriver(t, guest.Driver())
	guest.RDMA(t, "system", "set", "netns", "exclusive") // refused while there is another namespace
	t.Cleanup(func() { guest.RDMA(t, "system", "set", "netns", "shared") })
	guest.IP(t, "netns", "add", "other")
	t.Cleanup(func() { guest.IP(t, "netns", "delete", "other") })
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		a := newAdmin(t)
		r := start(fastProbe)
		awaitProbe(r, bestMethod(), 5)
		var err error
		a.do("rdma dev set netns", func() { err = guest.TryRDMA(t, "dev", "set", device, "netns", "other") })
		if err == nil || !strings.Contains(err.Error(), "not supported") {
			t.Fatalf("want the move refused, got %v", err)
		}
		points := awaitProbe(r, bestMethod(), vectorRounds(r.Points(), "0")+10)
		if d := rig.Last(points, "rdma_device", "device", device); d.Int("opens") != 1 || d.Int("removals") != 0 {
			t.Errorf("want the device undisturbed, got %v", d.Fields)
		}
		requireEventsCounted(t, r, 5)
		r.Stop()
	})
}
