//go:build guest

package fabric

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// host is a host of a fleet: the plugin on one device. The plugin may be killed and started again. A host prints an interval
// every second, and at once what has changed.
type host struct {
	t      testing.TB
	number int
	name   string // h1, h2 ...
	device string
	config string
	prefix []string // of the command line of the plugin

	plugin  *rig.Plugin
	readers sync.WaitGroup
	stop    chan struct{} // ends the prompts

	mu       sync.Mutex
	latest   map[string]rig.Point // by series
	counters rig.Counters         // of this life of the plugin
	said     []said               // of all lives, in the order in which it came
	wrong    []string             // what no point may say
	log      []string             // lines of standard error
}

// said is a point of rdma_fabric_peer.
type said struct {
	rig.Point
	by, of  string // hosts
	came    time.Time
	verdict string
	bad     bool
}

// config is what the plugin of a host is configured with.
type config struct {
	device, name, list, key, listen string
	more                            string // lines of the table fabric
}

// text returns a configuration in which nothing but the fabric works.
func (c config) text() string {
	fabric := ""
	if c.list != "" {
		fabric = fmt.Sprintf("peers_file = %q\nkey_file = %q\nlisten = %q\nhost = %q\n", c.list, c.key, c.listen, c.name)
	}
	return fmt.Sprintf(`[[inputs.rdma_events]]
  devices = [%q]
  max_event_points = 10000
  shutdown_timeout = "4s"
  [inputs.rdma_events.probe]
    interval = "0s"
  [inputs.rdma_events.evidence]
    gid_interval = "0s"
    command_interval = "0s"
    snapshot_interval = "0s"
  [inputs.rdma_events.fabric]
    %s%s
`, c.device, strings.ReplaceAll(fabric, "\n", "\n    "), c.more)
}

// start starts the plugin of the host.
func (h *host) start() {
	h.t.Helper()
	h.mu.Lock()
	h.counters, h.latest = rig.Counters{}, map[string]rig.Point{}
	h.mu.Unlock()
	h.plugin = rig.StartPlugin(h.t, h.prefix, h.config, false)
	h.t.Cleanup(func() { // before that of StartPlugin
		if h.plugin != nil {
			h.kill()
		}
	})
	h.stop = make(chan struct{})
	h.readers.Go(func() { h.readPoints(h.plugin.Stdout) })
	h.readers.Go(func() { h.readLog(h.plugin.Stderr) })
	h.readers.Go(func() { requestIntervals(h.plugin.Stdin, h.stop) })
}

// awaitInterval waits until the plugin has printed its first interval, by when it answers other hosts.
func (h *host) awaitInterval() {
	h.t.Helper()
	h.await("has printed nothing", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.latest) > 0
	})
}

// awaitOpen waits until the worker has opened the device.
func (h *host) awaitOpen() {
	h.t.Helper()
	h.await("has not opened "+h.device, h.isOpen)
}

func (h *host) await(otherwise string, cond func() bool) {
	h.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			h.t.Fatalf("%s %s within a minute:\n%s", h.name, otherwise, h.tail(20))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (h *host) isOpen() bool { return h.point("rdma_device").Int("open") == 1 }

// requestIntervals makes the plugin gather every second, until the plugin has ended or stop is closed.
func requestIntervals(stdin *os.File, stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if _, err := stdin.WriteString("\n"); err != nil {
				return
			}
		}
	}
}

// end ends the plugin as Telegraf does, and requires that nothing is left of it.
func (h *host) end() {
	h.t.Helper()
	children := rig.Children(h.t, h.plugin.PID())
	if err := syscall.Kill(h.plugin.PID(), syscall.SIGTERM); err != nil {
		h.t.Errorf("end %s: %v", h.name, err)
	}
	h.logWhatHolds(children)
	if status, took := h.plugin.AwaitEnd(children, time.Minute); status != 0 || took > 30*time.Second {
		h.t.Errorf("%s ended after %v with status %d", h.name, took, status)
	}
	h.ended()
}

// logWhatHolds logs where in the kernel the threads of a worker are that has not ended after a second.
func (h *host) logWhatHolds(children []int) {
	deadline := time.Now().Add(time.Second)
	for slices.ContainsFunc(children, rig.Running) {
		if time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		for _, pid := range children {
			stacks, _ := filepath.Glob(filepath.Join("/proc", fmt.Sprint(pid), "task/*/stack"))
			for _, path := range stacks {
				if text, err := os.ReadFile(path); err == nil {
					h.t.Logf("%s does not end: %s:\n%s", h.name, path, text)
				}
			}
		}
		return
	}
}

// kill kills the plugin with SIGKILL, and waits until the plugin and its worker are gone.
func (h *host) kill() {
	h.t.Helper()
	ours := append(rig.Children(h.t, h.plugin.PID()), h.plugin.PID())
	if err := syscall.Kill(h.plugin.PID(), syscall.SIGKILL); err != nil {
		h.t.Fatalf("kill %s: %v", h.name, err)
	}
	for _, pid := range ours {
		guest.Eventually(h.t, "the end of the processes of "+h.name, 20*time.Second, func() bool { return !rig.Running(pid) })
	}
	h.ended()
}

// ended reads what is left in the pipes.
func (h *host) ended() {
	close(h.stop)
	h.readers.Wait()
	h.plugin = nil
}

// worker returns the worker's process, 0 if there is none.
func (h *host) worker() int {
	h.t.Helper()
	for _, pid := range rig.Children(h.t, h.plugin.PID()) {
		args, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cmdline"))
		if err == nil && strings.HasSuffix(string(args), "\x00"+h.device+"\x00") {
			return pid
		}
	}
	return 0
}

func (h *host) readPoints(out *os.File) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		came := time.Now()
		points, err := rig.Parse(append(lines.Bytes(), '\n'))
		h.mu.Lock()
		if err != nil {
			h.wrong = append(h.wrong, fmt.Sprintf("line %q: %v", lines.Text(), err))
		}
		for _, p := range points {
			h.take(p, came)
		}
		h.mu.Unlock()
	}
}

// take stores a point, and what is wrong with it in any test: probes or events that are in none of their counts, and
// counters that fall.
func (h *host) take(p rig.Point, came time.Time) {
	series := p.Series()
	h.latest[series] = p
	if p.Measurement == "rdma_fabric_peer" {
		s := said{Point: p, by: h.name, of: p.Tags["peer_host"], came: came, verdict: p.Text("verdict"), bad: p.Int("bad") == 1}
		h.said = append(h.said, s)
	}
	for _, why := range pointContradictions(p) {
		h.wrong = append(h.wrong, fmt.Sprintf("%s: %s: %v", series, why, p.Fields))
	}
	for field := range p.Fields {
		key := series + " " + field
		if n := p.Int(field); isCounter(p.Measurement, field) {
			if n < h.counters[key] {
				h.wrong = append(h.wrong, fmt.Sprintf("%s fell from %d to %d", key, h.counters[key], n))
			}
			h.counters[key] = n
		}
	}
}

func (h *host) readLog(stderr *os.File) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		h.mu.Lock()
		h.log = append(h.log, time.Now().Format("05.000 ")+lines.Text())
		h.mu.Unlock()
	}
}

// port returns the newest point of the host's port in rdma_fabric_port.
func (h *host) port() rig.Point { return h.point("rdma_fabric_port") }

// point returns the newest point of a measurement that has one series.
func (h *host) point(measurement string) rig.Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.latest {
		if p.Measurement == measurement {
			return p
		}
	}
	return rig.Point{}
}

// of returns what the host said last of another one, and false if it has said nothing.
func (h *host) of(peer string) (said, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.said) - 1; i >= 0; i-- {
		if h.said[i].of == peer {
			return h.said[i], true
		}
	}
	return said{}, false
}

// since returns what the host said from a moment on, by the time of its coming.
func (h *host) since(moment time.Time) []said {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(h.said)
	for i > 0 && h.said[i-1].came.After(moment) {
		i--
	}
	return h.said[i:len(h.said):len(h.said)]
}

// tail returns the last lines of the log, and before them those of warnings and errors.
func (h *host) tail(lines int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := max(0, len(h.log)-lines)
	var all []string
	for i, line := range h.log {
		if i >= last || strings.Contains(line, " W! ") || strings.Contains(line, " E! ") || strings.Contains(line, "reason stuck") {
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}
