package process

import (
	"bytes"
	"fmt"
	"os"
)

// uninterruptible reports whether a thread of a process is in state D: it waits in the
// kernel and takes no signal, in most waits not even SIGKILL (proc_pid_stat(5)). It is
// false for a thread that is gone.
func uninterruptible(pid, thread int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, thread))
	if err != nil {
		return false
	}
	// The name of the thread is in parentheses and may contain some.
	_, rest, ok := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" "))
	return ok && bytes.HasPrefix(rest, []byte("D"))
}
