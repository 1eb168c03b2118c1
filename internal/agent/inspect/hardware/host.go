package hardware

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/sysfs"
)

// Host provides the facts about the machine that a run needs.
type Host struct {
	Version   string // of this program
	Simulated bool
	Kernel    string   // release
	Sys       fs.FS    // sysfs
	Sysfs     sysfs.FS // the same sysfs, for package sysfs
	Worker    Worker

	// Libraries returns the libraries that drive a device of a kernel driver.
	// library is the result of Worker.AskLibrary.
	Libraries func(library, driver string) inspect.Libraries
	// Use queries the users of a device. It is nil for a simulated device, which the
	// kernel does not have.
	Use func(device string) (nldev.Use, error)
	// Program returns the name and the process ID of a process. The name is "" if the process is not visible. pid may
	// be the ID of a thread.
	Program func(pid int) (name string, process int)

	// Ask asks the operator a yes-or-no question. It is nil if there is no operator.
	Ask func(question string) bool
	// Say prints one line of progress.
	Say func(format string, args ...any)
	// Mono returns CLOCK_MONOTONIC in ns, Now the time of day.
	Mono func() int64
	Now  func() time.Time
}

// Worker is an opened worker program.
type Worker interface {
	// AskLibrary runs the program and returns the file of libibverbs that the program's loader finds.
	AskLibrary(ctx context.Context) (string, error)
	inspect.Watcher
}

// ErrInUse is wrapped by the error of Run for a device that other programs use.
var ErrInUse = errors.New("it is in use")

// pluginWorker is the program name of this plugin's workers.
const pluginWorker = "rdma-events-worker"

// managementModules returns the kernel modules that create queue pairs on every device of their kind, even if nobody
// uses the device: management datagrams and IP over InfiniBand.
func managementModules() []string { return []string{"ib_core", "ib_mad", "ib_ipoib"} }

// countUsers counts the users of a device. who describes those that a run could disturb.
func (h *Host) countUsers(u nldev.Use) (in InUse, who []string) {
	in = InUse{Known: true, QueuePairs: u.QueuePairs, Kernel: []string{}}
	seen := map[string]bool{}
	for _, o := range u.Owners {
		text := ""
		switch name, process := h.findProgram(o); {
		case o.Kernel != "":
			in.Kernel = append(in.Kernel, o.Kernel)
			if !slices.Contains(managementModules(), o.Kernel) && o.Objects > 0 {
				text = "the kernel's " + o.Kernel
			}
		case name == pluginWorker:
			in.Plugin++
		case name == "":
			in.Programs++
			text = "a program that cannot be seen from here"
		default:
			text = fmt.Sprintf("%s (process %d)", name, process)
			if !seen[text] {
				in.Programs++
			}
		}
		if text != "" && !seen[text] {
			seen[text] = true
			who = append(who, text)
		}
	}
	slices.Sort(in.Kernel)
	return in, who
}

func (h *Host) findProgram(o nldev.Owner) (name string, process int) {
	if o.PID == 0 {
		return "", 0
	}
	return h.Program(o.PID)
}

// checkUse returns the users of a device. Unless yes is set, it returns an error if the users are unknown, or if a run
// could disturb them; the latter wraps ErrInUse.
func (h *Host) checkUse(device string, yes bool) (InUse, error) {
	if h.Use == nil {
		return InUse{Kernel: []string{}}, nil
	}
	use, err := h.Use(device)
	if err != nil {
		if yes {
			return InUse{Kernel: []string{}}, nil
		}
		return InUse{}, fmt.Errorf("%w; whether others use it is unknown, so run it with -yes if none does", err)
	}
	in, who := h.countUsers(use)
	if len(who) > 0 && !yes {
		return in, fmt.Errorf("%s: %w: %s; run it when that is over, or with -yes", device, ErrInUse, strings.Join(who, ", "))
	}
	return in, nil
}
