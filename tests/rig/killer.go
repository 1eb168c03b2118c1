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

// Victim is who is killed.
type Victim string

// The victims.
const (
	TheWorker   Victim = "a worker"
	ThePlugin   Victim = "the plugin"
	TheTelegraf Victim = "Telegraf"
)

// Killer kills workers, the plugin and Telegraf by a schedule that its seed
// draws, and after each kill wants nothing of theirs to be left, another one to
// be there in time, and no counter of a plugin that lived to have fallen.
type Killer struct {
	*Telegraf // the one that runs now
	// Worst is the longest time until all devices were open again, by victim,
	// less the delay that restarts are meant to have.
	Worst map[Victim]time.Duration

	t        testing.TB
	cfg      Config
	devices  []string
	rng      *rand.Rand
	runtime  string         // directory for sockets
	ends     []int64        // of the plugins of this Telegraf, unix ns
	restarts map[string]int // of the devices' workers under this plugin
	calm     held           // before anybody was killed
}

// held is what the plugin holds. A worker is another one after each kill.
type held struct {
	plugin Footprint
	files  int // in the directory for sockets
}

const (
	restartDelay = 200 * time.Millisecond
	// lenient is how many times what is promised a kill may take on a busy machine.
	lenient = 10
	// maxRestarts keeps the delays before restarts, which double, at seconds.
	maxRestarts = 4
)

// promised is how soon all devices are open again.
var promised = map[Victim]time.Duration{TheWorker: time.Second, ThePlugin: 2 * time.Second, TheTelegraf: 3 * time.Second}

// NewKiller starts Telegraf on a configuration with these devices.
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

// Round kills one of them at a time that the schedule says, in one of four cases
// twice: its successor as soon as it runs. gap is called when the victim is gone
// and before another can be there. Round returns who was killed once all is well.
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

// kill returns the delay at most that the successor is meant to have.
func (k *Killer) kill(v Victim, device string, gap func()) time.Duration {
	k.t.Helper()
	switch v {
	case TheWorker:
		// While it executes itself again it has no arguments for a moment.
		pid := 0
		k.Await("a worker of "+device, time.Minute, func([]Point) bool { pid = k.Worker(device); return pid != 0 })
		k.strike(pid)
		gap()
		k.restarts[device]++
		// Doubling from a quarter of a second, a fifth more or less.
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
	k.strike(Children(k.t, k.PID())[0])
	k.awaitEnd(func() bool { return !slices.ContainsFunc(ours, Running) })
	k.ends = append(k.ends, time.Now().UnixNano())
	k.restarts = map[string]int{}
}

func (k *Killer) strike(pid int) {
	k.t.Helper()
	if pid == 0 { // it would be the test itself
		k.t.Fatal("there is nobody to kill")
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

// awaitOpen waits until every device is told to be open after a time, by the
// worker that was started last.
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

// requireNothingLeft wants one plugin, a worker for each device and nothing else
// of ours, and these to hold no more than when all was calm.
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

// runtimeFiles lists what is in the directory for sockets.
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

// Finish looks at all that the Telegraf that runs, or ran last, has written.
func (k *Killer) Finish() {
	k.t.Helper()
	for _, life := range Lives(k.Points(), k.ends) {
		if len(life) > 0 {
			RequireCountersNeverFall(k.t, life)
		}
	}
}
