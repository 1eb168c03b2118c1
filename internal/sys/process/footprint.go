package process

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limitMemory saves memory at the cost of processor time. This suits a child, which waits nearly all the time.
// rdma-events-worker with a probe used 2.4 MiB of private memory at first, and 4.8 MiB after thousands of rounds. In addition it
// used 14 MiB of the program's file, which all its processes share. A percentage below 50 saves nothing more, because garbage
// collection itself needs memory.
//
// With only one thread for Go code, the scheduler does not wake another thread to look for work. A wake-up by a timer then takes
// two context switches less. Calls of C and of the kernel run in threads of their own.
func limitMemory() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(50)
}

// memoryMap lists the memory mappings of the process, see proc_pid_smaps(5).
const memoryMap = "/proc/self/smaps"

// releaseStartMemory releases memory that only the start needed: garbage, and pages of the
// program's file. Most of these pages are code for initialisation and neighbouring pages that
// the kernel mapped with it. If a page is needed again, it comes from the page cache, 16 pages
// per page fault. smaps is the memoryMap, open at its beginning.
func releaseStartMemory(smaps io.Reader) error {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("read name of the program: %w", err)
	}
	for m := range cleanMappings(smaps, exe) {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("forget pages of %s: %w", exe, errno)
		}
	}
	return nil
}

type mapping struct{ start, end uintptr }

// cleanMappings yields the mappings of a file whose pages are identical to the file: they are
// not writable, and nothing has written to them. Releasing other mappings would lose changes
// made by relocation. smaps has the format of proc_pid_smaps(5).
func cleanMappings(smaps io.Reader, file string) iter.Seq[mapping] {
	return func(yield func(mapping) bool) {
		var m mapping
		ours := false
		for lines := bufio.NewScanner(smaps); lines.Scan(); {
			line := lines.Text()
			if head, ok := strings.CutSuffix(line, " "+file); ok {
				m, ours = parseMapping(head)
			} else if ours && strings.HasPrefix(line, "Anonymous:") {
				ours = false
				if strings.Fields(line)[1] == "0" && !yield(m) {
					return
				}
			}
		}
	}
}

// parseMapping parses the first line of a mapping, and reports whether it is private and
// not writable.
func parseMapping(head string) (m mapping, readOnly bool) {
	fields := strings.Fields(head)
	from, to, _ := strings.Cut(fields[0], "-")
	start, errStart := strconv.ParseUint(from, 16, 64)
	end, errEnd := strconv.ParseUint(to, 16, 64)
	readOnly = errStart == nil && errEnd == nil && (fields[1] == "r-xp" || fields[1] == "r--p")
	return mapping{uintptr(start), uintptr(end)}, readOnly
}
