package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/prerequisite"
	"rdma_events/tests/rig"
)

// slowly is the longest time that the plugin waits between attempts when the
// operator must act before one can succeed, plus some time for a busy machine.
const slowly = 36*time.Second + 15*time.Second

// reasonCounts counts the devices by the reason in their newest point.
func reasonCounts(points []rig.Point) map[string]int {
	newest := map[string]string{}
	for _, p := range rig.Select(points, "rdma_device") {
		newest[p.Tags["device"]] = p.Text("reason")
	}
	count := map[string]int{}
	for _, reason := range newest {
		count[reason]++
	}
	return count
}

func fleetConfig(n int) string {
	return strings.Replace(simulated, "fleet4", fmt.Sprint("fleet", n), 1)
}

func TestSixtyFourDescriptorsAreEnoughForFourDevices(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: fleetConfig(4), Prefix: []string{"prlimit", "--nofile=64:64", "--"}})
	awaitOpen(r, 4)
	victim := r.Worker("sim1")
	sendSignal(t, victim, syscall.SIGKILL)
	r.Await("a restart", time.Minute, func(points []rig.Point) bool {
		p := rig.Last(points, "rdma_device", "device", "sim1")
		return p.Int("open") == 1 && p.Int("opens") == 2
	})
	if got := reasonCounts(r.Points()); got["ok"] != 4 {
		t.Errorf("want four devices that are well, got %v", got)
	}
}

func TestDevicesBeyondDescriptorLimitAreReported(t *testing.T) {
	t.Parallel()
	const devices = 20
	r := rig.Start(t, rig.Config{Plugin: fleetConfig(devices), Prefix: []string{"prlimit", "--nofile=64:64", "--"}})
	points := r.Await("each device is open or reported", time.Minute, func(points []rig.Point) bool {
		limited, open := reasonCounts(points)["limit"], len(wellDevices(points))
		return open >= 4 && limited >= 1 && open+limited == devices
	})
	t.Logf("reasons: %v", reasonCounts(points))
	r.AwaitLog("LimitNOFILE", 10*time.Second)
	well := wellDevices(points)
	before, restarts := probeRounds(points, well), restartsOf(points, well)
	points = r.Await("twenty more rounds of those that are open", time.Minute, func(points []rig.Point) bool {
		for device, n := range probeRounds(points, well) {
			if n < before[device]+20 {
				return false
			}
		}
		return true
	})
	// A device that is open now may have been refused before.
	if now := restartsOf(points, well); !maps.Equal(now, restarts) {
		t.Errorf("want no worker of those started again, got restarts %v and then %v", restarts, now)
	}
	for _, device := range well {
		if p := rig.Last(points, "rdma_device", "device", device); p.Int("opens") != 1 {
			t.Errorf("%s is disturbed: %v", device, p.Fields)
		}
	}
	rig.RequireCountersNeverFall(t, points)
}

func restartsOf(points []rig.Point, devices []string) map[string]int64 {
	restarts := map[string]int64{}
	for _, device := range devices {
		restarts[device] = rig.Last(points, "rdma_device", "device", device).Int("worker_restarts")
	}
	return restarts
}

func wellDevices(points []rig.Point) []string {
	var well []string
	for _, p := range rig.Select(points, "rdma_device") {
		device := p.Tags["device"]
		if !slices.Contains(well, device) && rig.Last(points, "rdma_device", "device", device).Int("open") == 1 {
			well = append(well, device)
		}
	}
	return well
}

func probeRounds(points []rig.Point, devices []string) map[string]int64 {
	rounds := map[string]int64{}
	for _, device := range devices {
		rounds[device] = rig.Last(points, "rdma_cq_probe", "device", device).Int("rounds")
	}
	return rounds
}

// idleUser returns a user that has no process, and a command prefix that runs a
// command as that user.
func idleUser(t *testing.T) (uid int, prefix []string) {
	t.Helper()
	prerequisite.RequireRoot(t, "only root can become another user, whose processes are counted")
	uid = 50000 + os.Getpid()%10000
	return uid, []string{
		"setpriv", fmt.Sprint("--reuid=", uid), fmt.Sprint("--regid=", uid), "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--",
	}
}

// countThreads counts the threads of a user, as the kernel does for RLIMIT_NPROC.
func countThreads(t *testing.T, uid int) int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/task/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == uid {
			n++
		}
	}
	return n
}

// settledThreads returns threads once the number has stayed the same for two seconds: Go starts another thread whenever
// the others are busy.
func settledThreads(t *testing.T, uid int) int {
	t.Helper()
	began := time.Now()
	for n, since := countThreads(t, uid), began; ; time.Sleep(50 * time.Millisecond) {
		now := countThreads(t, uid)
		switch {
		case now != n:
			n, since = now, time.Now()
		case time.Since(since) > 2*time.Second:
			return n
		case time.Since(began) > time.Minute:
			t.Fatalf("the number of threads does not settle; now %d", n)
		}
	}
}

func TestRefusedForkOrThreadDisturbsNoOtherDevice(t *testing.T) {
	t.Parallel()
	uid, prefix := idleUser(t)
	r := rig.Start(t, rig.Config{Plugin: fleetConfig(4), Prefix: prefix, Programs: rig.Install(t)})
	awaitOpen(r, 4)
	plugin := rig.Children(t, r.PID())[0]
	refuse := func(device string, limit int) {
		t.Helper()
		limitProcesses(t, prefix, plugin, limit)
		sendSignal(t, r.Worker(device), syscall.SIGKILL)
		r.Await("the refusal", 20*time.Second, func(points []rig.Point) bool {
			return rig.Last(points, "rdma_device", "device", device).Text("reason") == "limit"
		})
	}
	own := len(threadsOf(t, r.Worker("sim1")))
	t.Logf("a worker has %d threads", own)
	// Another worker may start and create half of its threads. If the other processes start a few threads meanwhile, the
	// fork still succeeds and the worker still cannot create all of its threads.
	refuse("sim1", settledThreads(t, uid)-own/2)
	r.AwaitLog("another thread", 10*time.Second)
	refuse("sim2", 1)
	r.AwaitLog("cannot be started", 10*time.Second)
	if got := reasonCounts(r.Points()); got["ok"] != 2 || got["limit"] != 2 {
		t.Errorf("want two devices that are well, got %v", got)
	}
	limitProcesses(t, prefix, plugin, 1000)
	began := time.Now()
	points := r.Await("all devices", slowly, func(points []rig.Point) bool { return reasonCounts(points)["ok"] == 4 })
	t.Logf("all open %v after forks were allowed again", time.Since(began).Round(time.Millisecond))
	for _, device := range []string{"sim0", "sim3"} {
		if p := rig.Last(points, "rdma_device", "device", device); p.Int("opens") != 1 || p.Int("worker_restarts") != 0 {
			t.Errorf("%s is disturbed: %v", device, p.Fields)
		}
	}
	if now := rig.Children(t, r.PID()); !slices.Equal(now, []int{plugin}) {
		t.Errorf("want the same plugin, process %d, got %v", plugin, now)
	}
	rig.RequireCountersNeverFall(t, points)
}

func threadsOf(t *testing.T, pid int) []string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// limitProcesses sets the soft limit RLIMIT_NPROC of a process. It does so as the
// user of the process, which needs no privilege.
func limitProcesses(t *testing.T, prefix []string, pid, limit int) {
	t.Helper()
	line := slices.Concat(prefix, []string{"prlimit", "--pid", strconv.Itoa(pid), fmt.Sprintf("--nproc=%d:", limit)})
	if out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", line, err, out)
	}
}
