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

// Process identifies a process. Two processes with the same PID differ in Start.
type Process struct {
	PID   int
	Start uint64 // start time in clock ticks since the host's boot, field 22 of /proc/PID/stat
	Comm  string // name of the leader, sanitized and never empty
	Unit  string // see Unit; "": none, or the cgroup could not be read
}

// ID is comparable and unique among all processes of a host until its next boot.
type ID struct {
	PID   int
	Start uint64
}

// ID returns the ID of the process.
func (p *Process) ID() ID { return ID{PID: p.PID, Start: p.Start} }

// Reader reads /proc. Its methods may be called concurrently. They read a few small files, which the kernel creates without waiting for the
// process.
type Reader struct {
	root string
}

// NewReader returns a Reader of the proc filesystem mounted at root, usually /proc.
func NewReader(root string) *Reader { return &Reader{root: root} }

// Process returns the process of a thread. If the thread has ended and its number is in use again, Process returns the process of the new
// thread. It returns false if the thread or its process does not exist or is not visible.
func (r *Reader) Process(tid int) (Process, bool) {
	pid, ok := r.leaderPID(tid)
	if !ok {
		return Process{}, false
	}
	comm, start, ok := parseStat(r.readFile(pid, "stat"))
	if !ok {
		return Process{}, false
	}
	p := Process{PID: pid, Start: start, Comm: CleanComm(comm), Unit: Unit(string(r.readFile(pid, "cgroup")))}
	// The unit belongs to this process only if the process still exists.
	if _, again, ok := parseStat(r.readFile(pid, "stat")); !ok || again != start {
		return Process{}, false
	}
	return p, true
}

func (r *Reader) leaderPID(tid int) (int, bool) {
	if tid <= 0 {
		return 0, false
	}
	return parseTgid(r.readFile(tid, "status"))
}

// readFile returns the content of a file of a process, or nil if it cannot be read. The files are much smaller than the limit: a cgroup
// file has one line of at most 4,096 bytes for each hierarchy.
func (r *Reader) readFile(pid int, name string) []byte {
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

// parseTgid returns the number of the process in /proc/TID/status. The line Name before it has an arbitrary string, in which the kernel
// escapes newlines (proc_task_name in fs/proc/array.c).
func parseTgid(status []byte) (int, bool) {
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("Tgid:")); ok {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			return pid, err == nil && pid > 0
		}
	}
	return 0, false
}

// parseStat returns the name and start in /proc/PID/stat. The name may contain any character, including parentheses and newlines. Only a
// letter and numbers follow it, so it ends at the last parenthesis.
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

// CleanComm sanitizes a process name, which any program may choose for itself, for use as a tag. It follows the rules of package measure
// for foreign strings, so that names that become equal there are equal here too. It also removes blanks and backslashes at both ends,
// because a tag in line protocol cannot end with a backslash.
func CleanComm(comm string) string {
	const longest = 64 // names of kernel threads; those of processes have 15 bytes
	if comm = strings.Trim(sanitize.Field(comm, longest), ` \`); comm == "" {
		return "unknown"
	}
	return comm
}
