package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Resident returns the resident bytes of a process, 0 if they cannot be read. It reads
// the second field of /proc/<pid>/statm (proc(5)), which is in pages.
func Resident(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
