package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

// slowly is how long the plugin waits at most between attempts that somebody must
// do something for first, with room for a busy machine.
const slowly = 36*time.Second + 15*time.Second

// reasons returns how many devices have which reason now.
func reasons(points []rig.Point) map[string]int {
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

func fleet(n int) string { return strings.Replace(simulated, "fleet4", fmt.Sprint("fleet", n), 1) }

func TestSixtyFourDescriptorsAreEnoughForFourDevices(t *testing.T) {
	r := rig.Start(t, rig.Config{Plugin: fleet(4), Prefix: []string{"prlimit", "--nofile=64:64", "--"}})
	awaitOpen(r, 4)
	victim := r.Worker("sim1")
	send(t, victim, syscall.SIGKILL)
	r.Await("a restart", time.Minute, func(points []rig.Point) bool {
		p := rig.Last(points, "rdma_device", "device", "sim1")
		return p.Int("open") == 1 && p.Int("opens") == 2
	})
	if got := reasons(r.Points()); got["ok"] != 4 {
		t.Errorf("want four devices that are well, got %v", got)
	}
}

func TestDevicesBeyondTheDescriptorsAreToldOfAndTheOthersGoOn(t *testing.T) {
	const devices = 20
	r := rig.Start(t, rig.Config{Plugin: fleet(devices), Prefix: []string{"prlimit", "--nofile=64:64", "--"}})
	points := r.Await("a reason for each device", time.Minute, func(points []rig.Point) bool {
		got := reasons(points)
		return got["ok"] >= 4 && got["limit"] >= 1 && got["ok"]+got["limit"] == devices
	})
	t.Logf("reasons: %v", reasons(points))
	r.AwaitLog("LimitNOFILE", 10*time.Second)
	well := wellDevices(points)
	before := probeRounds(points, well)
	points = r.Await("twenty more rounds of those that are open", time.Minute, func(points []rig.Point) bool {
		for device, n := range probeRounds(points, well) {
			if n < before[device]+20 {
				return false
			}
		}
		return true
	})
	for _, device := range well {
		if p := rig.Last(points, "rdma_device", "device", device); p.Int("opens") != 1 || p.Int("worker_restarts") != 0 {
			t.Errorf("%s is disturbed: %v", device, p.Fields)
		}
	}
	rig.RequireCountersNeverFall(t, points)
}

func wellDevices(points []rig.Point) []string {
	var well []string
	for _, p := range rig.Select(points, "rdma_device") {
		device := p.Tags["device"]
		if !slices.Contains(well, device) && rig.Last(points, "rdma_device", "device", device).Text("reason") == "ok" {
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

// nobody returns a command prefix for a user who has no process.
func nobody(t *testing.T) []string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user, whose processes are counted")
	}
	uid := 50000 + os.Getpid()%10000
	return []string{
		"setpriv", fmt.Sprint("--reuid=", uid), fmt.Sprint("--regid=", uid), "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--",
	}
}

func TestARefusedForkIsToldAndDisturbsNoOtherDevice(t *testing.T) {
	prefix := nobody(t)
	t.Parallel() // it waits most of the time
	r := rig.Start(t, rig.Config{Plugin: fleet(4), Prefix: prefix, Programs: rig.Install(t)})
	awaitOpen(r, 4)
	plugin := rig.Children(t, r.PID())[0]
	limit := func(processes string) {
		t.Helper()
		line := slices.Concat(prefix, []string{"prlimit", "--pid", strconv.Itoa(plugin), "--nproc=" + processes + ":"})
		if out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", line, err, out)
		}
	}
	limit("1")
	send(t, r.Worker("sim2"), syscall.SIGKILL)
	points := r.Await("the refusal", time.Minute, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_device", "device", "sim2").Text("reason") == "limit"
	})
	r.AwaitLog("TasksMax", 10*time.Second)
	if got := reasons(points); got["ok"] != 3 {
		t.Errorf("want three devices that are well, got %v", got)
	}
	limit("1000")
	began := time.Now()
	points = r.Await("all devices", slowly, func(points []rig.Point) bool { return reasons(points)["ok"] == 4 })
	t.Logf("all open %v after forks were allowed again", time.Since(began).Round(time.Millisecond))
	for _, device := range []string{"sim0", "sim1", "sim3"} {
		if p := rig.Last(points, "rdma_device", "device", device); p.Int("opens") != 1 || p.Int("worker_restarts") != 0 {
			t.Errorf("%s is disturbed: %v", device, p.Fields)
		}
	}
	if now := rig.Children(t, r.PID()); !slices.Equal(now, []int{plugin}) {
		t.Errorf("want the same plugin, process %d, got %v", plugin, now)
	}
	rig.RequireCountersNeverFall(t, points)
}
