package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Resident returns the resident memory of a process in bytes, or 0 if it cannot be read. It
// reads the second field of /proc/<pid>/statm (proc(5)), which is in pages.
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

// Used returns the processor time of a process, or 0 if it cannot be read. It reads the fields utime
// and stime of /proc/<pid>/stat (proc(5)), which are in ticks of 10 ms on every machine that Go runs on.
func Used(pid int) time.Duration {
	const tick, fieldAfterName, utime = 10 * time.Millisecond, 3, 14
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name may contain any characters
	if len(fields) <= utime+1-fieldAfterName {
		return 0
	}
	var used time.Duration
	for _, field := range fields[utime-fieldAfterName : utime-fieldAfterName+2] {
		n, err := strconv.ParseUint(string(field), 10, 48)
		if err != nil {
			return 0
		}
		used += time.Duration(n) * tick
	}
	return used
}
