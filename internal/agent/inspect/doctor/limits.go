package doctor

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/device/verbs"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	// lockedBytesPerProbe is the maximum memory that a hardware provider pins for a queue pair and a completion queue,
	// including their doorbells.
	lockedBytesPerProbe = 64 * kib
	// lockedBytesPerFabric is the maximum memory that probes between hosts pin on a port: 32 KiB of receives, up to 128
	// KiB for each of the two completion queues, 16 KiB for each of four UD queue pairs, and 8 KiB for the queue pair
	// of each pair of hosts.
	lockedBytesPerFabric = 32*kib + 2*128*kib + verbs.MaxFabricPaths*16*kib + verbs.MaxFabricPairs*8*kib
	// warningLimit is the highest limit for which libibverbs prints a warning on standard error (init.c).
	warningLimit = 32 * kib
	// capIPCLock is the capability that removes the limit of locked memory (capabilities(7)).
	capIPCLock = 14
	// filesPerWorker is the number of files that the host process keeps open for each device, and otherFiles the number
	// of its other open files.
	filesPerWorker, otherFiles = 12, 64
)

// checkLockedMemory compares the limit of this user with the memory that the probes of one device pin. Comparing one
// device is enough, because the kernel counts locked memory for each worker process separately.
func checkLockedMemory(x *examination) []Result {
	r := Result{Check: "locked_memory", Text: "the limit is " + formatSize(x.LockedMemory)}
	needed := 0
	for i := range x.devices {
		if !x.devices[i].isSoft() {
			needed = max(needed, x.lockedBytes(&x.devices[i]))
		}
	}
	switch {
	case x.hasIPCLock():
		r.Text = "unlimited (CAP_IPC_LOCK)"
	case x.LockedMemory < uint64(needed):
		r.Status, r.Fix = Fail, x.raiseLimit(fmt.Sprintf("LimitMEMLOCK=%dM", max(8, (needed+mib-1)/mib)))
		r.Text += fmt.Sprintf(", but the probes of one hardware device pin up to %s", formatSize(uint64(needed)))
	case x.LockedMemory <= warningLimit:
		r.Status, r.Fix = Warn, x.raiseLimit("LimitMEMLOCK=8M")
		r.Text += ", for which libibverbs prints a warning"
	case needed == 0:
		r.Text += "; no device here pins any"
	default:
		r.Text += fmt.Sprintf("; probes pin up to %s for one device", formatSize(uint64(needed)))
	}
	return []Result{r}
}

// lockedBytes returns the amount of memory that probes pin on a device, in bytes.
func (x *examination) lockedBytes(d *device) int {
	needed := x.countProbes(d) * lockedBytesPerProbe
	if x.probesHosts(d) {
		needed += len(d.ports) * lockedBytesPerFabric
	}
	return needed
}

// countProbes returns the number of probes on a device: one for each port and completion vector.
func (x *examination) countProbes(d *device) int {
	vectors := 1
	if x.plugin.Vectors != nil {
		has := 0
		if d.wasOpened() {
			has = d.trials[0].Attr.Vectors
		}
		vectors = x.plugin.Vectors(has)
	}
	return max(1, len(d.ports)) * vectors
}

// hasIPCLock reports whether this process has CAP_IPC_LOCK.
func (x *examination) hasIPCLock() bool {
	for line := range strings.Lines(x.read("proc/self/status")) {
		if set, ok := strings.CutPrefix(line, "CapEff:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err == nil && bits>>capIPCLock&1 == 1
		}
	}
	return false
}

// raiseLimit returns the command that sets a limit of Telegraf permanently.
func (x *examination) raiseLimit(limit string) advice.Line {
	return x.command(advice.RaiseLimit, limit)
}

func formatSize(bytes uint64) string {
	switch {
	case bytes >= math.MaxInt64:
		return "unlimited"
	case bytes >= mib:
		return fmt.Sprintf("%d MiB", bytes/mib)
	}
	return fmt.Sprintf("%d KiB", bytes/kib)
}

// findContainer returns the kind of container in which this process runs, or "" if it runs in none.
func (s *System) findContainer() string {
	if name := s.read("run/systemd/container"); name != "" {
		return name
	}
	for _, mark := range []struct{ file, name string }{
		{".dockerenv", "docker"}, {"run/.containerenv", "podman"}, {"run/secrets/kubernetes.io", "kubernetes"},
	} {
		if s.exists(mark.file) {
			return mark.name
		}
	}
	return ""
}

// checkContainer checks what limits this process compared with the host: the number of open files, a user namespace,
// and the rdma cgroup.
func checkContainer(x *examination) []Result {
	const name = "container_limits"
	var bad []Result
	if need := uint64(otherFiles + filesPerWorker*len(x.devices)); x.OpenFiles < need {
		bad = append(bad, Result{Check: name, Status: Fail, Fix: x.raiseLimit("LimitNOFILE=4096"),
			Text: fmt.Sprintf("only %d files may be open, but %d devices need %d", x.OpenFiles, len(x.devices), need)})
	}
	if m := strings.Fields(x.read("proc/self/uid_map")); len(m) == 3 && m[2] != "4294967295" {
		bad = append(bad, Result{Check: name, Status: Warn, Fix: x.command(advice.ShareUsers),
			Text: "the kernel sends no uevents to a user namespace: it can take 10 s until a new device is noticed"})
	}
	for i := range x.devices {
		bad = append(bad, x.checkCgroupLimits(name, x.devices[i].Name)...)
	}
	if len(bad) > 0 {
		return bad
	}
	where := "not in a container"
	if c := x.findContainer(); c != "" {
		where = "in a container (" + c + ")"
	}
	return []Result{{Check: name, Text: fmt.Sprintf("%s; %d files may be open; no limit of the rdma cgroup is near", where, x.OpenFiles)}}
}

// checkCgroupLimits checks that the rdma cgroup (cgroup-v2, RDMA) allows one more context on a device and the objects
// of a probe. The limits of all ancestors apply.
func (x *examination) checkCgroupLimits(name, device string) []Result {
	const objects = 10
	needed := map[string]int{"hca_handle": 1, "hca_object": objects}
	var bad []Result
	for _, dir := range x.rdmaCgroups() {
		limits, used := parseCgroupLine(x.read(dir, "rdma.max"), device), parseCgroupLine(x.read(dir, "rdma.current"), device)
		for _, what := range []string{"hca_handle", "hca_object"} {
			limit, err := strconv.Atoi(limits[what])
			if err != nil {
				continue // "max", or no limit at all
			}
			taken, err := strconv.Atoi(used[what])
			if err != nil {
				taken = 0
			}
			if limit-taken < needed[what] {
				bad = append(bad, Result{Check: name, Subject: device, Status: Fail,
					Text: fmt.Sprintf("the rdma cgroup allows %d %s, of which %d are in use, but a worker needs %d", limit, what, taken, needed[what]),
					Fix:  x.command(advice.LiftCgroupLimit, device, what, "/"+dir+"/rdma.max")})
			}
		}
	}
	return bad
}

// rdmaCgroups returns the directories of this process's cgroup and of its ancestors, in version 1 and version 2.
func (x *examination) rdmaCgroups() []string {
	var dirs []string
	for line := range strings.Lines(x.read("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root := ""
		switch {
		case parts[0] == "0":
			root = "sys/fs/cgroup"
		case parts[1] == "rdma":
			root = "sys/fs/cgroup/rdma"
		default:
			continue
		}
		for at := path.Join(root, parts[2]); ; at = path.Dir(at) {
			dirs = append(dirs, at)
			if at == root || at == "." {
				break
			}
		}
	}
	return dirs
}

// parseCgroupLine returns the values in a device's line, as in "mlx5_0 hca_handle=2 hca_object=2000".
func parseCgroupLine(text, device string) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != device {
			continue
		}
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			values[key] = value
		}
	}
	return values
}
