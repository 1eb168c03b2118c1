package rig

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Plugin is the plugin without Telegraf. Its standard input, output and error are
// pipes, and only the test has their other ends.
type Plugin struct {
	Stdin          *os.File // the test writes prompts to it
	Stdout, Stderr *os.File // the test reads them, or closes them

	t      testing.TB
	cmd    *exec.Cmd
	dir    string // its runtime directory
	exited chan struct{}
}

// StartPlugin runs the program until the end of the test, with a prefix as in
// Config and the text of its configuration. If stderrFull is true, its standard
// error is full from the beginning.
func StartPlugin(t testing.TB, prefix []string, plugin string, stderrFull bool) *Plugin {
	t.Helper()
	p := &Plugin{t: t, dir: sharedDir(t), exited: make(chan struct{})}
	config := p.dir + ".conf" // not in the directory that has to be empty at the end
	if err := os.WriteFile(config, []byte(plugin), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(config) })
	line := append(append([]string{}, prefix...), Program(t, "RDMA_EVENTS_BIN", "rdma-events"),
		"-config", config, "-poll_interval_disabled")
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+p.dir)
	stdin, stdout, stderr := newPipe(t), newPipe(t), newPipe(t)
	p.Stdin, p.Stdout, p.Stderr = stdin[1], stdout[0], stderr[0]
	if stderrFull {
		Fill(t, stderr[1])
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin[0], stdout[1], stderr[1]
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", line, err)
	}
	for _, theirs := range []*os.File{stdin[0], stdout[1], stderr[1]} {
		_ = theirs.Close() // the program has them
	}
	go func() {
		_ = p.cmd.Wait() // AwaitEnd returns the exit status
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has usually ended
		<-p.exited
	})
	return p
}

// newPipe returns the read end and the write end of a pipe, which are open until the
// end of the test.
func newPipe(t testing.TB) [2]*os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{r, w} {
			_ = f.Close() // it may be closed
		}
	})
	return [2]*os.File{r, w}
}

// PID returns the process ID of the program.
func (p *Plugin) PID() int { return p.cmd.Process.Pid }

// Prompt asks the program for an interval. It fails the test if it cannot write
// the prompt, unless the program has ended.
func (p *Plugin) Prompt() {
	p.t.Helper()
	if _, err := p.Stdin.WriteString("\n"); err != nil && !errors.Is(err, syscall.EPIPE) {
		p.t.Fatalf("prompt the plugin: %v", err)
	}
}

// AwaitEnd waits until the program has ended by itself, at most for limit. It
// returns the exit status and how long that took. It fails the test if one of the
// children is left, or a file in the runtime directory.
func (p *Plugin) AwaitEnd(children []int, limit time.Duration) (status int, took time.Duration) {
	p.t.Helper()
	began := time.Now()
	select {
	case <-p.exited:
	case <-time.After(limit):
		p.t.Fatalf("the plugin has not ended within %v", limit)
	}
	took = time.Since(began)
	for _, pid := range children {
		if Running(pid) {
			p.t.Errorf("process %d is left", pid)
		}
	}
	if entries, err := os.ReadDir(p.dir); err != nil || len(entries) > 0 {
		p.t.Errorf("want an empty runtime directory, got %v, %v", entries, err)
	}
	return p.cmd.ProcessState.ExitCode(), took
}
