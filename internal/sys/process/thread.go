package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// isUninterruptible reports whether a thread of a process is in state D (proc_pid_stat(5)). Such a thread waits in the kernel and
// accepts no signal, in most cases not even SIGKILL. The result is false if the thread has ended.
func isUninterruptible(pid, thread int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, thread))
	return err == nil && stateOf(text) == 'D'
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
