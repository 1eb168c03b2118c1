//go:build guest

package neighbours

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
)

// process is a program that runs.
type process struct {
	name   string
	cmd    *exec.Cmd
	output bytes.Buffer // complete once exited is closed
	exited chan struct{}
}

// startProcess starts a program and kills it at the end of the test.
func startProcess(t *testing.T, env []string, line ...string) *process {
	t.Helper()
	p := &process{name: filepath.Base(line[0]), cmd: exec.Command(line[0], line[1:]...), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", line, err)
	}
	go func() {
		_ = p.cmd.Wait() // status returns how it ended
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has usually ended
		<-p.exited
	})
	return p
}

// status waits until the program has ended and returns its exit status. The test fails if that takes longer than limit.
func (p *process) status(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
	}
	stack, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stack")) // a detail of the failure
	_ = p.cmd.Process.Kill()
	<-p.exited
	t.Fatalf("%s has not ended within %v; in the kernel:\n%s\nit printed:\n%s", p.name, limit, stack, p.output.String())
	return -1
}

// comm returns the name of the process as the kernel has it (proc_pid_comm(5)).
func (p *process) comm() string { return p.name[:min(len(p.name), 15)] }

// made reports whether a thread of the process made an object of `rdma resource show`.
func (p *process) made(object map[string]any) bool {
	thread, _ := object["pid"].(float64)
	_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", p.cmd.Process.Pid, int(thread)))
	return err == nil && thread > 0
}

// pauseProcesses stops programs and returns when all their threads are stopped. resumeProcesses continues them.
func pauseProcesses(t *testing.T, all ...*process) {
	t.Helper()
	for _, p := range all {
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatalf("stop %s: %v", p.name, err)
		}
	}
	guest.Eventually(t, "all threads are stopped", soon, func() bool {
		return !slices.ContainsFunc(all, func(p *process) bool { return !p.isStopped(t) })
	})
}

func resumeProcesses(t *testing.T, all ...*process) {
	t.Helper()
	for _, p := range all {
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatalf("resume %s: %v", p.name, err)
		}
	}
}

// isStopped reports whether each thread of the process is stopped.
func (p *process) isStopped(t *testing.T) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "task/*/stat"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text[bytes.LastIndexByte(text, ')'):], []byte(") T ")) {
			return false
		}
	}
	return len(paths) > 0
}
