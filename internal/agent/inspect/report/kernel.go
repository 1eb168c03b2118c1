package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// KernelLog is the name of the file with the kernel's lines.
const KernelLog = "kernel.log"

// mostKernelLines is how many lines of the kernel are kept, the newest ones.
const mostKernelLines = 5000

// kernelLimit is how long the kernel's log is read. It is in memory.
const kernelLimit = 10 * time.Second

// KernelOptions says which lines of the kernel are taken.
type KernelOptions struct {
	// Names returns the words of which a line has to have one: names of devices, of their network
	// devices and drivers, PCI addresses; none if the kernel does not know the devices. It may read
	// sysfs.
	Names func() []string
	// Open opens the kernel's log so that a read does not wait; OpenKernelLog is the real one.
	// Each Read returns one record, and EAGAIN after the last.
	Open func() (io.ReadCloser, error)
	// Restricted is whether kernel.dmesg_restrict is set.
	Restricted func() bool
	// Clocks returns the wall clock and CLOCK_MONOTONIC in ns, read at once.
	Clocks func() (wall, mono int64)
}

// OpenKernelLog opens /dev/kmsg (Documentation/ABI/testing/dev-kmsg).
func OpenKernelLog() (io.ReadCloser, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/dev/kmsg", Err: err}
	}
	return kmsg(fd), nil
}

// kmsg is a descriptor of /dev/kmsg. An os.File would wait for more where Read has to return
// EAGAIN.
type kmsg int

// Read implements io.Reader.
func (k kmsg) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(k), p)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return max(n, 0), err
	}
}

// Close implements io.Closer.
func (k kmsg) Close() error { return unix.Close(int(k)) }

// Kernel returns the part with the kernel's lines about devices.
func Kernel(o KernelOptions) Part {
	return Part{
		Files: []Description{{KernelLog, "the kernel's lines that name these devices, their network devices or drivers; lack of memory, hung tasks"}},
		Stage: stageRest, Limit: kernelLimit,
		Make: o.make,
	}
}

func (o KernelOptions) make(ctx context.Context) (map[string]File, error) {
	names := o.Names()
	if len(names) == 0 {
		return nil, LeftOutError("the devices are simulated: the kernel has no lines about them")
	}
	log, err := o.Open()
	if err != nil {
		return nil, o.refused(err, names)
	}
	defer log.Close()
	wall, mono := o.Clocks()
	lines, dropped, err := kernelLines(ctx, log, named(names), wall-mono)
	if err != nil {
		return nil, o.refused(err, names)
	}
	f := File{Data: Text(strings.Join(lines, "")), Notes: []string{
		fmt.Sprintf("%d lines that name one of: %s; or lack of memory, or a hung task", len(lines), strings.Join(names, ", ")),
		"the times of day are computed: they differ by some 10 ms from the timeline's, and are wrong for lines before a suspend",
	}}
	if dropped > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d older lines are left out", dropped))
	}
	return map[string]File{KernelLog: f}, nil
}

// refused says why there are no lines, and how to have them.
func (o KernelOptions) refused(err error, names []string) error {
	switch {
	case errors.Is(err, fs.ErrPermission) && o.Restricted():
		err = fmt.Errorf("%w: kernel.dmesg_restrict is 1, and this user has no CAP_SYSLOG", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: this user may not read the kernel's log", err)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w, as in a container: ask the host", err)
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return &InsteadError{err, "sudo dmesg -T | grep -wE '" + strings.Join(quoted, "|") + "'"}
}

// kernelLines reads all records that are there, and returns the newest that match, and how many
// more there were. offset is what has to be added to the kernel's time for the time of day, in ns.
func kernelLines(ctx context.Context, log io.Reader, match *regexp.Regexp, offset int64) (lines []string, dropped int, err error) {
	buffer := make([]byte, 32<<10) // a record has 8 KiB at most (CONSOLE_EXT_LOG_MAX)
	for ctx.Err() == nil {
		n, err := log.Read(buffer)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, io.EOF):
			older := max(len(lines)-mostKernelLines, 0)
			return lines[older:], dropped + older, nil
		case errors.Is(err, unix.EPIPE): // the record was overwritten before it was read
			continue
		case err != nil:
			return nil, 0, fmt.Errorf("read kernel log: %w", err)
		}
		line, ok := kernelLine(buffer[:n], offset)
		if !ok || !match.Match(buffer[:n]) {
			continue
		}
		if lines = append(lines, line); len(lines) > 2*mostKernelLines {
			dropped += len(lines) - mostKernelLines
			lines = slices.Clone(lines[len(lines)-mostKernelLines:])
		}
	}
	return nil, 0, fmt.Errorf("read kernel log: not read within %s", kernelLimit)
}

// kernelLine returns a record, "priority,sequence,microseconds,flags;text", as a line. The kernel
// has escaped what is not printable.
func kernelLine(record []byte, offset int64) (string, bool) {
	prefix, rest, ok := bytes.Cut(record, []byte(";"))
	fields := strings.Split(string(prefix), ",")
	if !ok || len(fields) < 3 {
		return "", false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil {
		return "", false
	}
	us, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return "", false
	}
	text, _, _ := bytes.Cut(rest, []byte("\n")) // after it come properties of the device
	at := time.Unix(0, offset+us*1000).UTC().Format("2006-01-02T15:04:05.000000Z")
	levels := [...]string{"emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"}
	return fmt.Sprintf("%s [%6d.%06d] %-6s %s\n", at, us/1e6, us%1e6, levels[priority&7], text), true
}

// hostTrouble matches what the kernel says of trouble that concerns all programs and devices:
// mm/oom_kill.c, kernel/hung_task.c, kernel/watchdog.c.
const hostTrouble = `Out of memory|invoked oom-killer|blocked for more than [0-9]+ seconds|soft lockup`

// named returns an expression that matches one of the names as a word, or hostTrouble.
func named(names []string) *regexp.Regexp {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return regexp.MustCompile(`(^|[^A-Za-z0-9_])(` + strings.Join(quoted, "|") + `)([^A-Za-z0-9_]|$)|` + hostTrouble)
}

// IsRestricted reports whether kernel.dmesg_restrict is set.
func IsRestricted() bool {
	text, err := os.ReadFile("/proc/sys/kernel/dmesg_restrict")
	return err == nil && strings.TrimSpace(string(text)) == "1"
}
