//go:build guest

package contained

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/kubernetes"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

const device = "rxe0"

// container is a running container.
type container struct {
	t      *testing.T
	id     string
	out    string
	exited chan error
}

// startContainer runs a bundle until the end of the test. The container has its own network
// namespace and cgroup.
func startContainer(t *testing.T, dir string) *container {
	t.Helper()
	c := &container{t: t, id: filepath.Base(dir), out: filepath.Join(t.TempDir(), "out"), exited: make(chan error, 1)}
	out, err := os.Create(c.out)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(c.out + ".log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("crun", "--cgroup-manager=cgroupfs", "run", "-b", dir, c.id)
	cmd.Stdout, cmd.Stderr = out, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.exited <- errors.Join(cmd.Wait(), out.Close(), log.Close()) }()
	t.Cleanup(c.stop)
	return c
}

func (c *container) stop() {
	// The context of the test has ended already.
	if out, err := exec.Command("crun", "kill", c.id, "TERM").CombinedOutput(); err != nil {
		c.t.Errorf("stop the container: %v: %s", err, out)
	}
	select {
	case err := <-c.exited:
		if err != nil {
			c.t.Errorf("want the container to end well, got %v", err)
		}
	case <-time.After(30 * time.Second):
		c.t.Error("the container does not end")
	}
	text, err := os.ReadFile(c.out + ".log")
	c.t.Logf("%s (%v)", text, err)
}

func (c *container) points() []rig.Point {
	c.t.Helper()
	text, err := os.ReadFile(c.out)
	if err != nil {
		c.t.Fatal(err)
	}
	points, err := rig.Parse(text[:bytes.LastIndexByte(text, '\n')+1])
	if err != nil {
		c.t.Fatal(err)
	}
	return points
}

func (c *container) await(what string, cond func([]rig.Point) bool) {
	c.t.Helper()
	guest.Eventually(c.t, what, time.Minute, func() bool { return cond(c.points()) })
}

func (c *container) awaitOpens(n int64) {
	c.t.Helper()
	c.await("the device is open", func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", device)
		return d.Int("open") == 1 && d.Int("opens") == n
	})
}

func (c *container) cgroup(file string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", c.id, file))
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// configMap writes the ConfigMap of the base, with an output that the test can read
// and a shorter interval. It returns the directory.
func configMap(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"telegraf.conf", "rdma_events.conf"} {
		text, err := os.ReadFile(filepath.Join(kubernetes.Base(root), name))
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Replace(text, []byte(`interval = "10s"`), []byte("interval = \"1s\"\n  flush_interval = \"1s\""), 1)
		writeFile(t, filepath.Join(dir, name), string(changed))
	}
	writeFile(t, filepath.Join(dir, "output.conf"), "[[outputs.file]]\n  files = [\"stdout\"]\n  data_format = \"influx\"\n")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// setUpNode adds the RDMA device and mounts cgroup v2 as on a node.
func setUpNode(t *testing.T) {
	t.Helper()
	guest.RequireGuest(t)
	guest.AddRxe(t, device, "d0")
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err != nil {
		runCommand(t, "mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
	}
	writeFile(t, "/sys/fs/cgroup/cgroup.subtree_control", "+memory +cpu +pids")
}

func uverbsNodes(t *testing.T) []string {
	t.Helper()
	nodes, err := filepath.Glob("/dev/infiniband/uverbs*")
	if err != nil || len(nodes) == 0 {
		t.Fatalf("want nodes, got %v, %v", nodes, err)
	}
	return nodes
}

func TestTheImageWatchesADeviceAsTheDaemonSetSays(t *testing.T) {
	setUpNode(t)
	c := startContainer(t, writeBundle(t, uverbsNodes(t), configMap(t)))
	c.awaitOpens(1)
	c.await("a probe that works", func(p []rig.Point) bool {
		return rig.Last(p, "rdma_cq_probe", "device", device, "method", "ud_send").Int("successes") > 3
	})
	if host := rig.Last(c.points(), "rdma_device", "host", "node-1"); host.Text("reason") != "ok" {
		t.Errorf("want the node's name as host, got %v", c.points()[0])
	}
	requireNoPrivileges(t, c)
	requireHealth(t, c)

	guest.Inject(t, device, guest.SMChange, 1, 3)
	c.await("events", func(p []rig.Point) bool {
		return rig.Last(p, "rdma_async", "device", device, "port", "1").Int("sm_change") == 3
	})
	// The driver's counters are hidden from other network namespaces.
	if _, has := rig.Last(c.points(), "rdma_port", "device", device).Fields["link_downed"]; has {
		t.Error("link_downed is there: docs/how-to/kubernetes.md says that it is not")
	}
	began := time.Now()
	guest.DeleteLink(t, device)
	// Without uevents the worker would check every 10 s, and the command would wait.
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("rdma link delete took %v", took)
	}
	c.await("the removal", func(p []rig.Point) bool {
		return rig.Last(p, "rdma_device", "device", device).Text("reason") == "deleted"
	})
	guest.AddLink(t, device, "rxe", "d0")
	c.awaitOpens(2)
	t.Logf("memory, with the files read: %s bytes at most", c.cgroup("memory.peak"))
}

// The test checks the requested memory of the DaemonSet, which docs/how-to/kubernetes.md
// states too.
func TestTheMemoryOfEightDevicesIsWithinWhatIsRequested(t *testing.T) {
	const devices = 8
	setUpNode(t)
	for n := 1; n < devices; n++ {
		guest.AddRxe(t, fmt.Sprintf("rxe%d", n), fmt.Sprintf("d%d", n))
	}
	c := startContainer(t, writeBundle(t, uverbsNodes(t), configMap(t)))
	// Eight workers start at once on the guest's two processors.
	guest.Eventually(t, "probes on all devices", 5*time.Minute, func() bool {
		p := c.points()
		for n := range devices {
			if rig.Last(p, "rdma_cq_probe", "device", fmt.Sprintf("rxe%d", n)).Int("successes") < 20 {
				return false
			}
		}
		return true
	})
	// The kernel can reclaim the memory of files.
	stat := parseFlatKeyed(t, c.cgroup("memory.stat"))
	kept := stat["anon"] + stat["kernel"]
	t.Logf("%d devices: %d MiB besides files, %s bytes with files at most", devices, kept>>20, c.cgroup("memory.peak"))
	pod, err := kubernetes.ReadDaemonSet(root)
	if err != nil {
		t.Fatal(err)
	}
	requested, err := strconv.Atoi(strings.TrimSuffix(pod.Containers[0].Resources.Requests["memory"], "Mi"))
	if err != nil || kept > requested<<20 || kept == 0 {
		t.Errorf("want at most %d MiB (%v), got %d", requested, err, kept>>20)
	}
}

// parseFlatKeyed parses the text of a flat keyed file of cgroup v2.
func parseFlatKeyed(t *testing.T, text string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = n
	}
	return all
}

// requireNoPrivileges checks each process of the container from outside.
func requireNoPrivileges(t *testing.T, c *container) {
	t.Helper()
	pids := strings.Fields(c.cgroup("cgroup.procs"))
	const initTelegrafPluginAndWorker = 4
	if len(pids) != initTelegrafPluginAndWorker {
		t.Errorf("want %d processes, got %v", initTelegrafPluginAndWorker, pids)
	}
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{
			"Uid:\t65532\t65532\t65532\t65532\n", "CapPrm:\t0000000000000000\n", "CapBnd:\t0000000000000000\n",
			"CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
		} {
			if !strings.Contains(string(text), line) {
				t.Errorf("want %q in the status of process %s, got:\n%s", line, pid, text)
			}
		}
	}
}

// requireHealth sends the request of the kubelet's liveness probe.
func requireHealth(t *testing.T, c *container) {
	t.Helper()
	pod, err := kubernetes.ReadDaemonSet(root)
	if err != nil {
		t.Fatal(err)
	}
	port := pod.Containers[0].Ports[0]
	pid := strings.Fields(c.cgroup("cgroup.procs"))[0]
	out, err := exec.CommandContext(t.Context(), "nsenter", "--net=/proc/"+pid+"/ns/net", "bash", "-c",
		`exec 3<>"/dev/tcp/127.0.0.1/$0" && printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3 && cat <&3`,
		strconv.Itoa(port.ContainerPort), pod.Containers[0].LivenessProbe.HTTPGet.Path).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "HTTP/1.0 200 OK") {
		t.Errorf("want 200 OK of the liveness probe, got %v: %s", err, out)
	}
}

// The test checks a statement of docs/how-to/kubernetes.md about nodes that no device
// plugin gives: a mounted directory of the host shows them, and the device cgroup
// refuses to open them.
func TestOnlyADevicePluginMakesADeviceUsable(t *testing.T) {
	setUpNode(t)
	hostPath := object{"destination": "/dev/infiniband", "type": "bind", "source": "/dev/infiniband", "options": []string{"bind"}}
	for reason, mounts := range map[string][]object{"no_permission": {hostPath}, "unsupported": nil} {
		t.Run(reason, func(t *testing.T) {
			c := startContainer(t, writeBundle(t, nil, configMap(t), mounts...))
			c.await(reason, func(p []rig.Point) bool {
				return rig.Last(p, "rdma_device", "device", device).Text("reason") == reason
			})
		})
	}
}
