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

// KernelLog is the name of the file with the lines of the kernel log.
const KernelLog = "kernel.log"

// maxKernelLines is the maximum number of lines of the kernel log that are kept, the newest ones.
const maxKernelLines = 5000

// kernelTimeout is the time limit for reading the kernel log, which is in memory.
const kernelTimeout = 10 * time.Second

// KernelOptions selects lines of the kernel log.
type KernelOptions struct {
	// Names returns the words of which a line must contain at least one: names of devices, of their network devices and
	// drivers, and PCI addresses. It returns none if the kernel does not know the devices. It may read sysfs.
	Names func() []string
	// Open opens the kernel log for reading without blocking. The real function is OpenKernelLog. Each Read returns one
	// record, and EAGAIN after the last one.
	Open func() (io.ReadCloser, error)
	// Restricted reports whether kernel.dmesg_restrict is set.
	Restricted func() bool
	// Clocks returns CLOCK_REALTIME and CLOCK_MONOTONIC in ns, read at the same time.
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

// kmsg is a descriptor of /dev/kmsg. It is not an os.File, because that would wait for more data where Read must return
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
		Stage: stageRest, Timeout: kernelTimeout,
		Make: o.makeFile,
	}
}

func (o KernelOptions) makeFile(ctx context.Context) (map[string]File, error) {
	names := o.Names()
	if len(names) == 0 {
		return nil, OmittedError("the devices are simulated: the kernel has no lines about them")
	}
	log, err := o.Open()
	if err != nil {
		return nil, o.explainRefusal(err, names)
	}
	defer log.Close()
	wall, mono := o.Clocks()
	lines, dropped, err := readKernelLines(ctx, log, matchNames(names), wall-mono)
	if err != nil && len(lines) == 0 {
		return nil, o.explainRefusal(err, names)
	}
	f := File{Data: Text(strings.Join(lines, "")), Notes: []string{
		fmt.Sprintf("%d lines that name one of: %s; or lack of memory, or a hung task", len(lines), strings.Join(names, ", ")),
		"the times of day are computed: they differ by some 10 ms from the timeline's, and are wrong for lines before a suspend",
	}}
	if err != nil {
		f.Lacks = []string{"newer lines: " + o.explainRefusal(err, names).Error()}
	}
	if dropped > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d older lines are left out", dropped))
	}
	return map[string]File{KernelLog: f}, nil
}

// explainRefusal returns an error that explains why there are no lines, and how to get them.
func (o KernelOptions) explainRefusal(err error, names []string) error {
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
	return &AlternativeError{err, "sudo dmesg -T | grep -wE '" + strings.Join(quoted, "|") + "'"}
}

// readKernelLines reads all records. It returns the newest lines that match, and the number of omitted older ones. With
// an error, it returns those that it has read. offset is the difference between the time of day and the kernel's time, in
// ns.
func readKernelLines(ctx context.Context, log io.Reader, match *regexp.Regexp, offset int64) (lines []string, dropped int, err error) {
	defer func() { // whether or not all records were read
		older := max(len(lines)-maxKernelLines, 0)
		lines, dropped = lines[older:], dropped+older
	}()
	buffer := make([]byte, 32<<10) // a record has 8 KiB at most (CONSOLE_EXT_LOG_MAX)
	for ctx.Err() == nil {
		n, err := log.Read(buffer)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, io.EOF):
			return lines, dropped, nil
		case errors.Is(err, unix.EPIPE): // the record was overwritten before it was read
			continue
		case err != nil:
			return lines, dropped, fmt.Errorf("read kernel log: %w", err)
		}
		line, ok := formatKernelLine(buffer[:n], offset)
		if !ok || !match.Match(buffer[:n]) {
			continue
		}
		if lines = append(lines, line); len(lines) > 2*maxKernelLines {
			dropped += len(lines) - maxKernelLines
			lines = slices.Clone(lines[len(lines)-maxKernelLines:])
		}
	}
	return lines, dropped, fmt.Errorf("read kernel log: %w", context.Cause(ctx))
}

// formatKernelLine formats a record "priority,sequence,microseconds,flags;text" as a line. The kernel has escaped
// unprintable characters.
func formatKernelLine(record []byte, offset int64) (string, bool) {
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
	text, _, _ := bytes.Cut(rest, []byte("\n")) // properties of the device follow
	at := time.Unix(0, offset+us*1000).UTC().Format("2006-01-02T15:04:05.000000Z")
	levels := [...]string{"emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"}
	return fmt.Sprintf("%s [%6d.%06d] %-6s %s\n", at, us/1e6, us%1e6, levels[priority&7], text), true
}

// hostTrouble matches lines about trouble that concerns all programs and devices (mm/oom_kill.c, kernel/hung_task.c,
// kernel/watchdog.c).
const hostTrouble = `Out of memory|invoked oom-killer|blocked for more than [0-9]+ seconds|soft lockup`

// matchNames returns an expression that matches one of the names as a word, or hostTrouble.
func matchNames(names []string) *regexp.Regexp {
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
