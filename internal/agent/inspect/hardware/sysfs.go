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

// readTimeout is the time limit for reading one file. Drivers have their own limits of up to a minute, and a run has
// only two minutes.
const readTimeout = 10 * time.Second

var (
	// errHung is the error of a read that did not return. No other file is read afterwards.
	errHung = errors.New("the reading hangs in the driver")
	// errNotRead is the error for files that are not read after errHung.
	errNotRead = errors.New("not read, since another reading hangs in the driver")
)

// sysfsReader reads files of sysfs. Reading some of them sends a request to the device. It must be used by one
// goroutine only.
type sysfsReader struct {
	inspect.Files // for what the kernel answers from memory

	hung bool
}

// readFile returns the text of a file, and how long the read took. It blocks for readTimeout at most. If the time is
// over or ctx ends, it returns errHung. A read that hangs in the kernel cannot be ended: its goroutine remains until
// the process ends.
func (r *sysfsReader) readFile(ctx context.Context, name string) (text string, took time.Duration, err error) {
	if r.hung {
		return "", 0, errNotRead
	}
	text, took, err = inspect.TimeCall(ctx, readTimeout, func() (string, error) {
		text, err := fs.ReadFile(r.FS, name)
		return strings.TrimSpace(string(text)), err
	})
	if errors.Is(err, inspect.ErrNoAnswer) {
		r.hung = true
		return "", 0, errHung
	}
	return text, took, err
}

// exists reports whether a file exists, without reading it.
func (r *sysfsReader) exists(name string) bool {
	return slices.Contains(r.List(path.Dir(name)), path.Base(name))
}

func (x *run) deviceFile(elem ...string) string {
	return path.Join(append([]string{"class/infiniband", x.options.Device}, elem...)...)
}

func (x *run) portFile(n int, elem ...string) string {
	return x.deviceFile(append([]string{"ports", strconv.Itoa(n)}, elem...)...)
}

// timeSysfs measures how long reading those files of a port takes that some devices answer by a command.
func (x *run) timeSysfs(ctx context.Context, port int) {
	cost := func(calls drivers.CallCounts) int {
		if costs, ok := x.commandCosts[port]; ok {
			return costs.Of(calls)
		}
		return -1
	}
	for _, c := range []struct {
		call, file string
		commands   int
	}{
		{"state", x.portFile(port, "state"), cost(drivers.CallCounts{drivers.PortQuery: 1})},
		{"link_downed", x.linkDownedFile(port), cost(drivers.CallCounts{drivers.LinkDowned: 1})},
		{"pkey", x.portFile(port, "pkeys/0"), cost(drivers.CallCounts{drivers.PKey: 1})},
		{"hw_counter", x.anyCounterFile(port), cost(drivers.CallCounts{drivers.HWCounter: 1})},
	} {
		if c.file == "" || !x.files.exists(c.file) {
			continue
		}
		x.Say("%s port %d: reading %s %d times", x.options.Device, port, c.call, timedCalls)
		if timed := x.timeFile(ctx, c.file); timed.Count > 0 || len(timed.Errors) > 0 || timed.Hung {
			timed.Call, timed.Port, timed.Commands = c.call, port, c.commands
			x.report.Commands = append(x.report.Commands, timed)
		}
	}
}

// timeFile reads a file repeatedly and returns the times. The times are zero for a file that does not exist or is not
// read.
func (x *run) timeFile(ctx context.Context, file string) Timed {
	t := Timed{Errors: map[string]int{}}
	var took []int64
	for range timedCalls {
		_, one, err := x.files.readFile(ctx, file)
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
		sleepContext(ctx, callInterval)
	}
	t.Times = summarizeTimes(took)
	return t
}

func sleepContext(ctx context.Context, d time.Duration) {
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

// linkDownedFile returns the file with the port's count of link drops, or "" if there is none.
func (x *run) linkDownedFile(port int) string {
	for _, group := range []string{"counters", "hw_counters"} {
		if slices.Contains(x.files.List(x.portFile(port, group)), "link_downed") {
			return x.portFile(port, group, "link_downed")
		}
	}
	return ""
}

// anyCounterFile returns the file of one of the driver's counters, or "" if there is none.
func (x *run) anyCounterFile(port int) string {
	for _, dir := range []string{x.portFile(port, "hw_counters"), x.deviceFile("hw_counters")} {
		for _, name := range x.files.List(dir) {
			if name != "lifespan" {
				return path.Join(dir, name)
			}
		}
	}
	return ""
}

// flushCounters returns the names of the device's counters of flushed work requests.
func (x *run) flushCounters() []string {
	var found []string
	dirs := []string{x.deviceFile("hw_counters")}
	for _, port := range x.files.List(x.deviceFile("ports")) {
		dirs = append(dirs, x.deviceFile("ports", port, "hw_counters"))
	}
	for _, dir := range dirs {
		for _, name := range x.files.List(dir) {
			if strings.HasSuffix(name, "_cqe_flush_error") || strings.HasSuffix(name, "_num_wrfe") {
				found = append(found, name)
			}
		}
	}
	return found
}
