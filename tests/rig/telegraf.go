package rig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Config is the configuration of a run.
type Config struct {
	Plugin   string   // the plugin's configuration, TOML
	Interval string   // Telegraf's; "1s" when empty
	Flush    string   // Telegraf's flush_interval; "200ms" when empty
	Env      []string // added to the environment
	// Prefix is a command before Telegraf's command line, for example setpriv or
	// prlimit, which run Telegraf with fewer rights.
	Prefix []string
	// RestartDelay is the restart_delay of execd; "10s" when empty.
	RestartDelay string
	// KeepStderr writes the plugin's standard error to a separate file, and not to
	// Telegraf's log: Telegraf loses the final output of a process that dies.
	KeepStderr bool
	// Stderr, if not empty, is the path of that file, which may be a FIFO.
	Stderr string
	// Agent is added to the section agent of Telegraf's configuration.
	Agent string
	// More is added to Telegraf's configuration, for example outputs and tags.
	More string
	// Directory, if not empty, has further configuration for Telegraf, which
	// starts the plugin. Plugin and RestartDelay are not used then.
	Directory string
	// Programs, if not nil, are run in place of the programs in the build directory. A Prefix that changes the user
	// needs them outside of a guest, because that user may not be able to enter the checkout.
	Programs *Installed
}

// Telegraf is a running Telegraf with the plugin under it.
type Telegraf struct {
	t      testing.TB
	cmd    *exec.Cmd
	dir    string
	exited chan struct{}
	err    error // of Wait, once exited is closed

	mu     sync.Mutex
	read   int64 // bytes of the output already parsed
	points []Point
}

// Program returns the path of a program under test: the value of the environment
// variable, or the file built in the build directory of the module.
func Program(t testing.TB, variable, built string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		path = filepath.Join(ModuleRoot(t), "build", built)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing; run: make build setup", path)
	}
	return path
}

// ModuleRoot returns the directory of go.mod above the test.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the test")
	return ""
}

// Start runs Telegraf until the end of the test.
func Start(t testing.TB, c Config) *Telegraf {
	t.Helper()
	r := &Telegraf{t: t, dir: sharedDir(t), exited: make(chan struct{})}
	r.write("rdma_events.conf", c.Plugin)
	r.write("telegraf.conf", r.telegrafConf(c))
	args := append(append([]string{}, c.Prefix...), telegrafOf(t, c), "--config", r.path("telegraf.conf"))
	if c.Directory != "" {
		args = append(args, "--config-directory", c.Directory)
	}
	r.cmd = exec.Command(args[0], args[1:]...)
	r.cmd.Env = append(os.Environ(), c.Env...)
	log, err := os.OpenFile(r.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		t.Fatalf("start Telegraf: %v", err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.exited)
	}()
	t.Cleanup(r.Stop)
	return r
}

func telegrafOf(t testing.TB, c Config) string {
	t.Helper()
	if c.Programs != nil && len(c.Prefix) > 0 {
		return c.Programs.telegraf()
	}
	return Program(t, "TELEGRAF_BIN", "tools/telegraf")
}

// sharedDir makes a directory that any user may write to. It is removed at the end
// of the test.
func sharedDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rig-") //nolint:usetesting // t.TempDir has a parent that only its owner may pass
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (r *Telegraf) telegrafConf(c Config) string {
	interval, flush := cmp.Or(c.Interval, "1s"), cmp.Or(c.Flush, "200ms")
	execd := ""
	if c.Directory == "" {
		execd = r.execd(c)
	}
	return fmt.Sprintf(`[agent]
  interval = %q
  flush_interval = %q
  flush_jitter = "0s"
  metric_buffer_limit = 1000000
  omit_hostname = true
  skip_processors_after_aggregators = true
%s
%s[[outputs.file]]
  files = [%q]
  data_format = "influx"
%s`, interval, flush, c.Agent, execd, r.path("out"), c.More)
}

// execd returns the block that runs the plugin. A Directory has its own, whose program is not this checkout's.
func (r *Telegraf) execd(c Config) string {
	program := ""
	if c.Programs != nil {
		program = c.Programs.Plugin
	} else {
		program = Program(r.t, "RDMA_EVENTS_BIN", "rdma-events")
	}
	command := []string{program, "-config", r.path("rdma_events.conf"), "-poll_interval_disabled"}
	stderr := c.Stderr
	if c.KeepStderr {
		stderr = r.path("stderr")
	}
	if stderr != "" {
		command = append([]string{"/bin/sh", "-c", `exec "$0" "$@" 2>>` + stderr}, command...)
	}
	return fmt.Sprintf(`[[inputs.execd]]
  command = [%s]
  signal = "STDIN"
  restart_delay = %q
  data_format = "influx"
`, quoteTexts(command), cmp.Or(c.RestartDelay, "10s"))
}

// quoteTexts returns strings as the elements of a TOML array.
func quoteTexts(texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&b, "%q, ", text)
	}
	return b.String()
}

func (r *Telegraf) path(name string) string { return filepath.Join(r.dir, name) }

func (r *Telegraf) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// Points returns all points that Telegraf has written so far, except those that
// NewPoints has returned.
func (r *Telegraf) Points() []Point {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.points = append(r.points, r.next()...)
	return r.points
}

// NewPoints returns the points that Telegraf has written since the last call of
// NewPoints or Points. Points does not return them later. NewPoints is for runs
// that write more points than memory can hold.
func (r *Telegraf) NewPoints() []Point {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next()
}

func (r *Telegraf) next() []Point {
	r.t.Helper()
	text, err := readFrom(r.path("out"), r.read)
	if err != nil {
		r.t.Fatal(err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	r.read += int64(len(text))
	points, err := Parse(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return points
}

func readFrom(path string, offset int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text := make([]byte, st.Size()-offset)
	n, err := f.ReadAt(text, offset)
	return text[:n], err
}

// Await returns the points as soon as cond holds for them. If it does not within
// timeout, the test fails with the last points and the log.
func (r *Telegraf) Await(what string, timeout time.Duration, cond func([]Point) bool) []Point {
	r.t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		points := r.Points()
		if cond(points) {
			return points
		}
		select {
		case <-deadline.C:
			r.t.Fatalf("%s: not within %v; the last points:\n%s\nthe log:\n%s", what, timeout, lastPointsText(points), r.Log())
		case <-poll.C:
		}
	}
}

func lastPointsText(points []Point) string {
	var b strings.Builder
	for _, p := range points[max(0, len(points)-12):] {
		fmt.Fprintf(&b, "%s %v\n", p.Series(), p.Fields)
	}
	return b.String()
}

// AwaitLog waits until the log has a line that contains text.
func (r *Telegraf) AwaitLog(text string, timeout time.Duration) {
	r.t.Helper()
	r.Await("log line "+text, timeout, func([]Point) bool { return strings.Contains(r.Log(), text) })
}

// Log returns the log of Telegraf and the plugin.
func (r *Telegraf) Log() string {
	r.t.Helper()
	text, err := os.ReadFile(r.path("log"))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// Stderr returns the plugin's standard error so far. Config.KeepStderr must be set.
func (r *Telegraf) Stderr() string {
	r.t.Helper()
	text, err := os.ReadFile(r.path("stderr"))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// PID returns the process ID of Telegraf, also with a Prefix: prlimit and setpriv
// execute the program in their own process.
func (r *Telegraf) PID() int { return r.cmd.Process.Pid }

// Kill kills Telegraf with SIGKILL, which it cannot handle, and waits for its end.
func (r *Telegraf) Kill() {
	r.t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	<-r.exited
}

// Stop ends Telegraf with SIGTERM, as its service manager would, and waits for its
// end. It may be called twice.
func (r *Telegraf) Stop() {
	r.t.Helper()
	select {
	case <-r.exited:
		return
	default:
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Errorf("stop Telegraf: %v", err)
	}
	select {
	case <-r.exited:
	case <-time.After(30 * time.Second):
		r.t.Errorf("Telegraf does not stop; its log:\n%s", r.Log())
		r.Kill()
	}
}
