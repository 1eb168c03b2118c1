package hardware

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/drivers"
)

// readLimit is how long the reading of one file may take. A driver's own limits
// are up to a minute, and the whole run has two minutes.
const readLimit = 10 * time.Second

var (
	// errHung is the error of a reading that did not return. No other file is read
	// after it.
	errHung = errors.New("the reading hangs in the driver")
	// errNotRead is the error of the files that are not read after errHung.
	errNotRead = errors.New("not read, since another reading hangs in the driver")
)

// reader reads files of sysfs whose reading may send a request to the device. One
// goroutine uses it.
type reader struct {
	inspect.Files // for what the kernel answers from memory

	hung bool
}

// read returns a file's text and how long the reading took. It blocks for
// readLimit at most, or until ctx ends, and returns errHung then. A reading that
// hangs in the kernel cannot be ended: its goroutine stays until the process ends.
func (r *reader) read(ctx context.Context, name string) (text string, took time.Duration, err error) {
	if r.hung {
		return "", 0, errNotRead
	}
	text, took, err = inspect.TimeCall(ctx, readLimit, func() (string, error) {
		text, err := fs.ReadFile(r.FS, name)
		return strings.TrimSpace(string(text)), err
	})
	if errors.Is(err, inspect.ErrNoAnswer) {
		r.hung = true
		return "", 0, errHung
	}
	return text, took, err
}

// has reports whether a file exists, without reading it.
func (r *reader) has(name string) bool {
	return slices.Contains(r.List(path.Dir(name)), path.Base(name))
}

func (x *trial) dir(elem ...string) string {
	return path.Join(append([]string{"class/infiniband", x.o.Device}, elem...)...)
}

func (x *trial) port(n int, elem ...string) string {
	return x.dir(append([]string{"ports", strconv.Itoa(n)}, elem...)...)
}

// timeSysfs times the reading of a port's files that some devices answer by a
// command.
func (x *trial) timeSysfs(ctx context.Context, port int) {
	cost := func(calls drivers.CallCounts) int {
		if costs, ok := x.costs[port]; ok {
			return costs.Of(calls)
		}
		return -1
	}
	for _, c := range []struct {
		call, file string
		commands   int
	}{
		{"state", x.port(port, "state"), cost(drivers.CallCounts{drivers.PortQuery: 1})},
		{"link_downed", x.linkDowned(port), cost(drivers.CallCounts{drivers.LinkDowned: 1})},
		{"pkey", x.port(port, "pkeys/0"), cost(drivers.CallCounts{drivers.PKey: 1})},
		{"hw_counter", x.anyCounter(port), cost(drivers.CallCounts{drivers.HWCounter: 1})},
	} {
		if c.file == "" || !x.sys.has(c.file) {
			continue
		}
		x.Say("%s port %d: reading %s %d times", x.o.Device, port, c.call, timedCalls)
		if timed := x.timeFile(ctx, c.file); timed.Count > 0 || len(timed.Errors) > 0 || timed.Hung {
			timed.Call, timed.Port, timed.Commands = c.call, port, c.commands
			x.r.Commands = append(x.r.Commands, timed)
		}
	}
}

// timeFile reads a file repeatedly and returns the times. For a file that does
// not exist, or is not read, they are zero.
func (x *trial) timeFile(ctx context.Context, file string) Timed {
	t := Timed{Errors: map[string]int{}}
	var took []int64
	for range timedCalls {
		_, one, err := x.sys.read(ctx, file)
		switch {
		case errors.Is(err, errHung):
			t.Hung = true
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotRead):
			return t
		case err != nil:
			t.Errors[errnoName(err)]++
		}
		if t.Hung || ctx.Err() != nil {
			break
		}
		took = append(took, one.Nanoseconds())
		wait(ctx, callPace)
	}
	t.Times = timesOf(took)
	return t
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// errnoName returns the name of an error's errno, as in "EINVAL", or the error's
// text if it has no errno.
func errnoName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
		return fmt.Sprintf("errno %d", int(errno))
	}
	return err.Error()
}

// linkDowned returns the file with the port's count of link drops, "" if there is
// none.
func (x *trial) linkDowned(port int) string {
	for _, group := range []string{"counters", "hw_counters"} {
		if slices.Contains(x.sys.List(x.port(port, group)), "link_downed") {
			return x.port(port, group, "link_downed")
		}
	}
	return ""
}

// anyCounter returns the file of a driver's counter, "" if there is none.
func (x *trial) anyCounter(port int) string {
	for _, dir := range []string{x.port(port, "hw_counters"), x.dir("hw_counters")} {
		for _, name := range x.sys.List(dir) {
			if name != "lifespan" {
				return path.Join(dir, name)
			}
		}
	}
	return ""
}

// flushCounters returns the device's counters of flushed work requests.
func (x *trial) flushCounters() []string {
	var found []string
	dirs := []string{x.dir("hw_counters")}
	for _, port := range x.sys.List(x.dir("ports")) {
		dirs = append(dirs, x.dir("ports", port, "hw_counters"))
	}
	for _, dir := range dirs {
		for _, name := range x.sys.List(dir) {
			if strings.HasSuffix(name, "_cqe_flush_error") || strings.HasSuffix(name, "_num_wrfe") {
				found = append(found, name)
			}
		}
	}
	return found
}
