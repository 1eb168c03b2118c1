//go:build guest

package inguest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// snapshotPace is the pace of the snapshots in TestSnapshots: a hundred times that of evidence.snapshot_interval, and ten times
// the most that a port gets, where something happens all the time. Ten times as often, a snapshot of some 2.5 ms takes 4 %
// of a processor, which a drain of all processors has less.
const snapshotPace = 600 * time.Millisecond

// readSnapshot makes the same reads as the worker does for a snapshot of a soft device. If a port has a carrier, the worker does
// not read why the link is down.
func readSnapshot(t *testing.T, dev verbs.Device) {
	if _, err := dev.ReadNetDev(1); err != nil {
		t.Error(err)
	}
	if _, err := dev.ReadCounters(1, verbs.CountersHardware); err != nil {
		t.Error(err)
	}
	// A soft device has no counters of the standard, and no PCI function.
	for _, from := range []verbs.CounterSource{verbs.CountersPort, verbs.CountersPCI} {
		if _, err := dev.ReadCounters(1, from); err == nil {
			t.Errorf("want no %s of a soft device", from)
		}
	}
}

// TestSnapshotsAlone measures one snapshot beside a C program that reads the same from files.
func TestSnapshotsAlone(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	const rounds = 200
	dev, _ := openDevice(t)
	defer closeDevice(t, dev)
	readSnapshot(t, dev) // the first one opens what the others use
	took := bench.Figure{Section: "Snapshots", What: "a snapshot of a soft device, p50", Unit: "ms", Bound: 5}
	beside := bench.Figure{Section: "Snapshots", What: "the same, in turn with the files", Unit: "us", OtherIs: "C loop over the same in files"}
	idle := bench.Figure{Section: "Snapshots", What: "CPU of a snapshot a minute, in the worker", Unit: "% of a core", Bound: 0.02,
		Note: "the time of all threads of a program that takes 200 snapshots, through 200 minutes"}
	files := filesOf(t)
	for i := range turns {
		var ours, cpu, other float64
		inTurn(i, func() { ours, cpu = measureSnapshots(t, dev, rounds) }, func() { other = filesRead(t, rounds, files) })
		took.Ours = append(took.Ours, ours/1e6)
		idle.Ours = append(idle.Ours, 100*cpu/float64(time.Minute))
		beside.Ours, beside.Other = append(beside.Ours, ours/1e3), append(beside.Other, other/1e3)
	}
	beside.Note = fmt.Sprintf("%d files; hw_counters come by netlink, in one question", len(files))
	addFigures(took, beside, idle)
}

// measureSnapshots returns the median duration and the mean CPU time of a snapshot, both in ns.
func measureSnapshots(t *testing.T, dev verbs.Device, rounds int) (p50, cpu float64) {
	t.Helper()
	var all []float64
	before := ownCPU(t)
	for range rounds {
		began := time.Now()
		readSnapshot(t, dev)
		all = append(all, float64(time.Since(began).Nanoseconds()))
	}
	cpu = float64(ownCPU(t)-before) / float64(rounds)
	slices.Sort(all)
	return all[rounds/2], cpu
}

func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// filesOf returns the files that have what a snapshot of a soft device has.
func filesOf(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("/sys/class/infiniband", device, "ports/1/hw_counters/*"))
	if err != nil || files == nil {
		t.Fatalf("want counters, got %v, %v", files, err)
	}
	for _, name := range []string{"flags", "operstate", "carrier_changes"} {
		files = append(files, filepath.Join("/sys/class/net", netdev, name))
	}
	return append(files, filepath.Join("/sys/class/infiniband", device, "ports/1/gid_attrs/ndevs/0"))
}

func filesRead(t *testing.T, rounds int, files []string) (p50 float64) {
	t.Helper()
	out, err := exec.Command(programPath(t, "FILESREAD_BIN"), append([]string{strconv.Itoa(rounds)}, files...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if _, err := fmt.Sscanf(string(out), "read %d p50 %f", &n, &p50); err != nil {
		t.Fatalf("parse %q: %v", out, err)
	}
	return p50
}

// TestSnapshots measures what snapshots cost the reader and the prober of the same device.
func TestSnapshots(t *testing.T) {
	costsBeside(t, "Snapshots", "snapshots",
		fmt.Sprintf("one every %v, a hundred times the pace of evidence.snapshot_interval, and ten times the most that a port gets", snapshotPace),
		0.98, func(dev verbs.Device) (stop func()) {
			return repeatCalls(snapshotPace, func() { readSnapshot(t, dev) })
		})
}

// TestSnapshotsMemory measures the memory of plugin and workers with snapshots and without.
func TestSnapshotsMemory(t *testing.T) {
	guest.RequireGuest(t)
	const devices = 4
	for i := range devices {
		guest.AddRxe(t, fmt.Sprint("rxe", i), fmt.Sprint("d", i))
	}
	f := bench.Figure{Section: "Snapshots", Unit: "MiB"}
	worker, host := f, f
	worker.What, worker.Bound = "worker, PSS, beyond that without snapshots", 0.3
	worker.Missed = "with snapshots a worker takes 6.65 MiB, and took 6.92 when its probe rounds still were messages; without them it takes " +
		"6.22 instead of 6.66: what only snapshots use of Go and gRPC now was used by the rounds too"
	host.What, host.Bound = "host, RSS, beyond that without snapshots", 2
	var workers, hosts []float64
	for i := range 3 {
		var with, without [2]float64
		inTurn(i, func() { with = settledMemory(t, devices, "10s") }, func() { without = settledMemory(t, devices, "0s") })
		workers, hosts = append(workers, without[0]), append(hosts, without[1])
		worker.Ours, host.Ours = append(worker.Ours, with[0]-without[0]), append(host.Ours, with[1]-without[1])
	}
	worker.Note = fmt.Sprintf("beyond %s; each is the mean of %d workers with a snapshot every 10 s, 25 s after they began",
		bench.Show(workers, "MiB"), devices)
	host.Note = fmt.Sprintf("beyond %s", bench.Show(hosts, "MiB"))
	addFigures(worker, host)
}

// settledMemory returns the mean proportional memory of the workers and the resident memory of the host process in MiB, after
// they have released the memory that they needed at the start.
func settledMemory(t *testing.T, devices int, interval string) (workerAndHost [2]float64) {
	t.Helper()
	p := startPlugin(t, "[[inputs.rdma_events]]\n  [inputs.rdma_events.evidence]\n    snapshot_interval = \""+interval+"\"\n")
	defer p.stop(false)
	for range devices {
		p.await(",open=1i")
	}
	<-time.After(25 * time.Second)
	_, pss := processMemory(t, rig.Children(t, p.cmd.Process.Pid))
	for _, one := range pss {
		workerAndHost[0] += one / float64(len(pss))
	}
	rss, _ := processMemory(t, []int{p.cmd.Process.Pid})
	workerAndHost[1] = rss[0]
	return workerAndHost
}
