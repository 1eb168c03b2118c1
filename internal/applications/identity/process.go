package identity

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rdma_events/internal/sys/sanitize"
)

// Process is who a process is. Two processes with one PID differ in Start.
type Process struct {
	PID   int
	Start uint64 // clock ticks since the host's start, field 22 of /proc/PID/stat
	Comm  string // the leader's name, clean and never empty
	Unit  string // see Unit; "": it is in none, or its cgroup could not be read
}

// ID differs between any two processes of one host and start of it. It is comparable.
type ID struct {
	PID   int
	Start uint64
}

// ID returns the ID of the process.
func (p *Process) ID() ID { return ID{PID: p.PID, Start: p.Start} }

// Reader reads /proc. Its methods may be called concurrently; they read a few small files, which the kernel makes without
// waiting for the process.
type Reader struct {
	root string
}

// NewReader returns a Reader of the proc filesystem that is mounted at root, usually /proc.
func NewReader(root string) *Reader { return &Reader{root: root} }

// Process returns the process of a thread. The thread's number is all that is known of it: when the thread has ended and
// its number is in use again, the process is that of the new thread. It returns false if the thread or its process is not
// there, or not visible.
func (r *Reader) Process(tid int) (Process, bool) {
	pid, ok := r.leader(tid)
	if !ok {
		return Process{}, false
	}
	comm, start, ok := parseStat(r.read(pid, "stat"))
	if !ok {
		return Process{}, false
	}
	p := Process{PID: pid, Start: start, Comm: CleanComm(comm), Unit: Unit(string(r.read(pid, "cgroup")))}
	// The unit is of the process that was named only if that is still there.
	if _, again, ok := parseStat(r.read(pid, "stat")); !ok || again != start {
		return Process{}, false
	}
	return p, true
}

func (r *Reader) leader(tid int) (int, bool) {
	if tid <= 0 {
		return 0, false
	}
	return parseTgid(r.read(tid, "status"))
}

// read returns what a file of a process holds, nil if it cannot be read. The files are far below the limit; a cgroup file
// has a line for each hierarchy, of at most 4,096 bytes.
func (r *Reader) read(pid int, name string) []byte {
	const limit = 128 << 10
	f, err := os.Open(filepath.Join(r.root, strconv.Itoa(pid), name))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil
	}
	return text
}

// parseTgid finds the number of the process in /proc/TID/status. The line before it with a foreign string, Name, has its
// newlines escaped by the kernel (proc_task_name in fs/proc/array.c).
func parseTgid(status []byte) (int, bool) {
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("Tgid:")); ok {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			return pid, err == nil && pid > 0
		}
	}
	return 0, false
}

// parseStat finds name and start in /proc/PID/stat. The name may hold anything, parentheses and newlines too; after it
// come a letter and numbers only, so that it ends at the last parenthesis.
func parseStat(stat []byte) (comm string, start uint64, ok bool) {
	const fieldAfterComm, fieldStart = 3, 22
	from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if from < 0 || to < from {
		return "", 0, false
	}
	fields := bytes.Fields(stat[to+1:])
	if len(fields) <= fieldStart-fieldAfterComm {
		return "", 0, false
	}
	start, err := strconv.ParseUint(string(fields[fieldStart-fieldAfterComm]), 10, 64)
	return string(stat[from+1 : to]), start, err == nil
}

// CleanComm makes a name that any program may have given itself fit for a tag, by the rules that package measure has for
// foreign strings, so that two names that look alike there are alike here. Blanks and backslashes at its ends go too: line
// protocol cannot end a tag with a backslash.
func CleanComm(comm string) string {
	const longest = 64 // names of kernel threads; those of processes have 15 bytes
	if comm = strings.Trim(sanitize.Field(comm, longest), ` \`); comm == "" {
		return "unknown"
	}
	return comm
}
