package rig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Record is one line of `rdma-events watch -json`.
type Record struct {
	Time      time.Time
	Kind      string
	Device    string
	Port      int
	Event     string
	Count     uint64
	StateFrom string `json:"state_from"`
	StateTo   string `json:"state_to"`
	LastedNS  int64  `json:"lasted_ns"`
	Witness   string
	Reason    string
	Text      string
	Probe     *struct {
		Method    string
		Rounds    uint64
		Successes uint64
		WakeNS    int64 `json:"wake_ns_mean"`
		Buckets   []struct {
			Le    string
			Count uint64
		} `json:"wake_buckets"`
	}
	Peer *Peer
}

// Peer is the other end of a pair in a Record.
type Peer struct {
	Host     string
	Device   string
	Verdict  string
	Reason   string
	Bad      bool
	SilentNS int64 `json:"silent_ns"`
}

// Watch is a running `rdma-events watch -json`.
type Watch struct {
	t      testing.TB
	cmd    *exec.Cmd
	dir    string // its runtime directory
	stderr bytes.Buffer
	exited chan struct{}
	err    error // of Wait, once exited is closed

	mu      sync.Mutex
	records []Record
	bad     error // of a line that is no record
}

// StartWatch runs the program until the end of the test, with a prefix as in
// Config.
func StartWatch(t testing.TB, prefix []string, args ...string) *Watch {
	t.Helper()
	w := &Watch{t: t, dir: sharedDir(t), exited: make(chan struct{})}
	line := append(append([]string{}, prefix...), Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "watch", "-json")
	line = append(line, args...)
	w.cmd = exec.Command(line[0], line[1:]...)
	w.cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+w.dir)
	w.cmd.Stderr = &w.stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", line, err)
	}
	go func() {
		w.read(out)
		w.err = w.cmd.Wait()
		close(w.exited)
	}()
	t.Cleanup(func() { w.End(syscall.SIGTERM) })
	return w
}

func (w *Watch) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r Record
		err := json.Unmarshal(lines.Bytes(), &r)
		w.mu.Lock()
		if err != nil {
			w.bad = fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		w.records = append(w.records, r)
		w.mu.Unlock()
	}
}

// Records returns the records so far.
func (w *Watch) Records() []Record {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bad != nil {
		w.t.Fatal(w.bad)
	}
	return w.records[:len(w.records):len(w.records)]
}

// Await returns the records as soon as cond holds for them. If it does not within
// timeout, the test fails with the records.
func (w *Watch) Await(what string, timeout time.Duration, cond func([]Record) bool) []Record {
	w.t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		records := w.Records()
		if cond(records) {
			return records
		}
		select {
		case <-deadline.C:
			w.t.Fatalf("%s: not within %v; what was shown:\n%+v", what, timeout, records)
		case <-poll.C:
		}
	}
}

// PID returns the process ID of the program.
func (w *Watch) PID() int { return w.cmd.Process.Pid }

// End ends the program with a signal. If sig is 0, it waits until the program has
// ended by itself. The program must exit with status 0 and leave no process and no
// file. End may be called twice.
func (w *Watch) End(sig syscall.Signal) {
	w.t.Helper()
	select {
	case <-w.exited:
		return
	default:
	}
	children := Children(w.t, w.PID())
	if sig != 0 {
		if err := w.cmd.Process.Signal(sig); err != nil {
			w.t.Errorf("end rdma-events watch: %v", err)
		}
	}
	select {
	case <-w.exited:
	case <-time.After(30 * time.Second):
		w.t.Errorf("rdma-events watch does not end")
		_ = w.cmd.Process.Kill() // it may have ended by now
		<-w.exited
	}
	w.requireNothingLeft(children)
}

func (w *Watch) requireNothingLeft(children []int) {
	w.t.Helper()
	if w.err != nil {
		w.t.Errorf("rdma-events watch: want status 0, got %v: %s", w.err, w.stderr.String())
	}
	for _, pid := range children {
		if Running(pid) {
			w.t.Errorf("process %d is left", pid)
		}
	}
	entries, err := os.ReadDir(w.dir)
	if err != nil || len(entries) > 0 {
		w.t.Errorf("want an empty runtime directory, got %v, %v", entries, err)
	}
}
