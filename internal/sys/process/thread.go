package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// waitsInKernel reports whether a thread of a process waits for a driver in the kernel: it is in state D (proc_pid_stat(5)), in
// which it accepts no signal, in most cases not even SIGKILL, or it sleeps in ioctl(2) or write(2), by which a process gives a driver
// a command. vmw_pvrdma lets it sleep for up to 10 s (pvrdma_cmd_recv in hw/vmw_pvrdma/pvrdma_cmd.c). The result is false if the
// thread has ended, and for a thread that sleeps if the kernel does not show its system call.
func waitsInKernel(pid, thread int) bool {
	dir := fmt.Sprintf("/proc/%d/task/%d/", pid, thread)
	text, err := os.ReadFile(dir + "stat")
	if err != nil {
		return false
	}
	switch stateOf(text) {
	case 'D':
		return true
	case 'S':
		call, err := os.ReadFile(dir + "syscall")
		return err == nil && isCommand(call)
	}
	return false
}

// isCommand reports whether a text of proc_pid_syscall(5) names ioctl(2) or write(2).
func isCommand(text []byte) bool {
	number, _, _ := bytes.Cut(text, []byte(" "))
	n, err := strconv.Atoi(string(number))
	return err == nil && (n == unix.SYS_IOCTL || n == unix.SYS_WRITE)
}

// isRunnable reports whether a process runs or waits for a processor: a thread of it is in state R, and none is in state D
// (proc_pid_stat(5)). If it was killed, it ends as soon as it gets CPU time.
func isRunnable(pid int) bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	runnable := false
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		switch stateOf(text) {
		case 'D':
			return false
		case 'R':
			runnable = true
		}
	}
	return runnable
}

// isExiting reports whether a process is about to end and the kernel is releasing its resources.
func isExiting(pid int) bool {
	const flags, exiting = 6, 0x4 // the field after the state (proc_pid_stat(5)), and PF_EXITING in linux/sched.h
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= flags {
		return false
	}
	set, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	return err == nil && set&exiting != 0
}

// stateOf returns the state in the text of a stat file, or 0 if there is none.
func stateOf(stat []byte) byte {
	// The name of the thread is in parentheses, and may contain parentheses.
	rest := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(rest) == 0 {
		return 0
	}
	return rest[0]
}
