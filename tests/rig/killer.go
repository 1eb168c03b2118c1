package rig

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Victim is the kind of process that is killed.
type Victim string

// The victims.
const (
	TheWorker   Victim = "a worker"
	ThePlugin   Victim = "the plugin"
	TheTelegraf Victim = "Telegraf"
)

// Killer kills workers, the plugin and Telegraf by a schedule that is drawn from a
// seed. It requires that nothing is left after a kill, that the successor is there
// in time, and that no counter of a plugin falls while that plugin runs.
type Killer struct {
	*Telegraf // the one that runs now
	// Worst is the longest time until all devices were open again, by victim,
	// without the intended delay before a restart.
	Worst map[Victim]time.Duration

	t        testing.TB
	cfg      Config
	devices  []string
	rng      *rand.Rand
	runtime  string         // directory for sockets
	ends     []int64        // when the plugins of this Telegraf were killed, unix ns
	restarts map[string]int // restarts of workers under this plugin, by device
	calm     held           // before the first kill
}

// held is what the plugin holds. Workers are not compared, because a kill replaces
// them.
type held struct {
	plugin Footprint
	files  int // in the directory for sockets
}

const (
	restartDelay = 200 * time.Millisecond
	// lenient is the factor by which recovery may exceed the promised time on a busy machine.
	lenient = 10
	// maxRestarts limits the restarts of one worker, so that the delay before a
	// restart, which doubles each time, stays at seconds.
	maxRestarts = 4
)

// promised is the time until all devices are open again, by victim.
var promised = map[Victim]time.Duration{TheWorker: time.Second, ThePlugin: 2 * time.Second, TheTelegraf: 3 * time.Second}

// NewKiller starts Telegraf with a configuration that has these devices.
func NewKiller(t testing.TB, c Config, seed uint64, devices ...string) *Killer {
	t.Helper()
	k := &Killer{
		Worst: map[Victim]time.Duration{}, t: t, cfg: c, devices: devices,
		rng: rand.New(rand.NewPCG(seed, 0)), runtime: sharedDir(t), restarts: map[string]int{},
	}
	k.cfg.Programs = Install(t)
	k.cfg.RestartDelay = restartDelay.String()
	k.cfg.Interval = "250ms"
	k.cfg.Env = append(k.cfg.Env, "RUNTIME_DIRECTORY="+k.runtime)
	k.Telegraf = Start(t, k.cfg)
	k.awaitOpen(0)
	k.calm = k.holdings()
	return k
}

// Round kills one victim after a pause drawn from the schedule. In one of four
// cases it kills the successor too, as soon as that runs. It calls gap once, when
// the first victim is gone and no successor can have started. Round returns the
// victim once all devices are open again and nothing is left of the killed process.
func (k *Killer) Round(gap func()) Victim {
	k.t.Helper()
	pause := time.NewTimer(time.Duration(k.rng.Int64N(int64(300 * time.Millisecond))))
	<-pause.C
	v, device := k.draw()
	twice := k.rng.IntN(4) == 0
	began := time.Now()
	delay := k.kill(v, device, gap)
	if twice {
		k.awaitSuccessor(v, device)
		began = time.Now()
		delay = k.kill(v, device, func() {})
	}
	k.awaitOpen(began.UnixNano())
	took := time.Since(began)
	if limit := delay + lenient*promised[v]; took > limit {
		k.t.Errorf("all devices are open again %v after kill -9 of %s %s, want at most %v", took, v, device, limit)
	}
	k.Worst[v] = max(k.Worst[v], took-delay)
	k.requireNothingLeft()
	return v
}

func (k *Killer) draw() (Victim, string) {
	device := k.devices[k.rng.IntN(len(k.devices))]
	v := []Victim{TheWorker, ThePlugin, TheTelegraf}[k.rng.IntN(3)]
	if v == TheWorker && k.restarts[device] >= maxRestarts {
		return ThePlugin, ""
	}
	if v != TheWorker {
		device = ""
	}
	return v, device
}

// kill kills the victim, calls gap and returns the longest intended delay before
// the successor starts.
func (k *Killer) kill(v Victim, device string, gap func()) time.Duration {
	k.t.Helper()
	switch v {
	case TheWorker:
		// A worker has no arguments for a moment while it executes itself again.
		pid := 0
		k.Await("a worker of "+device, time.Minute, func([]Point) bool { pid = k.Worker(device); return pid != 0 })
		k.killProcess(pid)
		gap()
		k.restarts[device]++
		// The delay starts at a quarter of a second and doubles, a fifth more or less.
		return 300 * time.Millisecond << (k.restarts[device] - 1)
	case ThePlugin:
		k.killPlugin()
		gap()
		return restartDelay
	}
	k.Kill()
	k.awaitEnd(func() bool { return len(k.cfg.Programs.Processes()) == 0 })
	k.Finish()
	if left := k.runtimeFiles(); len(left) > 0 {
		k.t.Errorf("left after kill -9 of Telegraf: %v", left)
	}
	gap()
	k.ends, k.restarts = nil, map[string]int{}
	k.Telegraf = Start(k.t, k.cfg)
	return 0
}

func (k *Killer) killPlugin() {
	k.t.Helper()
	ours := k.cfg.Programs.Processes()
	k.killProcess(Children(k.t, k.PID())[0])
	k.awaitEnd(func() bool { return !slices.ContainsFunc(ours, Running) })
	k.ends = append(k.ends, time.Now().UnixNano())
	k.restarts = map[string]int{}
}

func (k *Killer) killProcess(pid int) {
	k.t.Helper()
	if pid == 0 { // kill(2) would signal the process group of the test
		k.t.Fatal("there is no process to kill")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		k.t.Fatalf("kill process %d: %v", pid, err)
	}
	k.awaitEnd(func() bool { return !Running(pid) })
}

func (k *Killer) awaitEnd(ended func() bool) {
	k.t.Helper()
	k.Await("the end of all processes", lenient*time.Second, func([]Point) bool { return ended() })
}

func (k *Killer) awaitSuccessor(v Victim, device string) {
	k.t.Helper()
	k.Await("another "+string(v), time.Minute, func([]Point) bool {
		if v == TheWorker {
			return k.Worker(device) != 0
		}
		return len(Children(k.t, k.PID())) == 1
	})
}

// awaitOpen waits until every device is reported open, after the time since and by
// the worker that was started last.
func (k *Killer) awaitOpen(since int64) {
	k.t.Helper()
	k.Await(fmt.Sprintf("all of %v open", k.devices), time.Minute, func(points []Point) bool {
		return !slices.ContainsFunc(k.devices, func(d string) bool {
			p := Last(points, "rdma_device", "device", d)
			return p.Int("open") != 1 || p.Time <= since || p.Int("worker_restarts") != int64(k.restarts[d]) ||
				len(Select(points, "rdma_async", "device", d)) == 0
		})
	})
}

// requireNothingLeft requires that one plugin, a worker for each device and no
// other process of the programs run, and that the plugin holds no more than before
// the first kill.
func (k *Killer) requireNothingLeft() {
	k.t.Helper()
	deadline := time.Now().Add(lenient * time.Second)
	k.Await("nothing is left", 2*lenient*time.Second, func([]Point) bool {
		more := k.moreThanCalm()
		if more != "" && time.Now().After(deadline) {
			k.t.Fatalf("left after a kill: %s", more)
		}
		return more == ""
	})
}

func (k *Killer) moreThanCalm() string {
	if n := len(k.cfg.Programs.Processes()); n != 1+len(k.devices) {
		return fmt.Sprintf("%d processes", n)
	}
	now := k.holdings()
	if now.files != k.calm.files {
		return fmt.Sprintf("%d files %v", now.files, k.runtimeFiles())
	}
	return now.plugin.MoreThan(k.calm.plugin)
}

func (k *Killer) holdings() held {
	k.t.Helper()
	return held{plugin: FootprintOf(k.t, Children(k.t, k.PID())[0]), files: len(k.runtimeFiles())}
}

// runtimeFiles lists the files in the directory for sockets.
func (k *Killer) runtimeFiles() []string {
	k.t.Helper()
	var found []string
	err := filepath.WalkDir(k.runtime, func(path string, _ os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // removed meanwhile
		}
		found = append(found, path)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return found[1:]
}

// Finish checks the counters in all points that the current or last Telegraf has
// written.
func (k *Killer) Finish() {
	k.t.Helper()
	for _, run := range Lives(k.Points(), k.ends) {
		if len(run) > 0 {
			RequireCountersNeverFall(k.t, run)
		}
	}
}
