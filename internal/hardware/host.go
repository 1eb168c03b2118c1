package hardware

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/doctor"
	"rdma_events/internal/nldev"
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/sysfs"
	"rdma_events/internal/worker"
)

// Host is the machine as a run sees it.
type Host struct {
	Version   string // of this program
	Simulated bool
	Kernel    string // release
	Sys       fs.FS  // sysfs, and the same for what package verbs reads of it
	Sysfs     sysfs.FS
	Worker    Worker

	// Libraries names what drives a device of a kernel driver; library is what
	// Worker.Library returned.
	Libraries func(library, driver string) doctor.Libraries
	// Use asks who uses a device; nil where there is no kernel to ask.
	Use func(device string) (nldev.Use, error)
	// Program names a process, "" for one that cannot be seen, with its number,
	// where pid may be that of a thread.
	Program func(pid int) (name string, process int)

	// Ask puts a question to the operator; nil without one.
	Ask func(question string) bool
	// Say prints one line of progress.
	Say func(format string, args ...any)
	// Mono is CLOCK_MONOTONIC in ns, Now the time of day.
	Mono func() int64
	Now  func() time.Time
}

// Worker is an opened worker program.
type Worker interface {
	// Library returns the file of libibverbs that the program's loader finds.
	Library(ctx context.Context) (string, error)
	// Watch has workers watch a device until ctx ends.
	Watch(ctx context.Context, o verbs.Options, h worker.Handler) error
}

// ErrInUse is wrapped by the refusal to run beside other programs.
var ErrInUse = errors.New("it is in use")

// pluginWorker is how this plugin's workers call themselves.
const pluginWorker = "rdma-events-worker"

// managing are the modules that have queue pairs on every device of their kind,
// whether anybody uses it or not: management datagrams, and IP over InfiniBand.
func managing() []string { return []string{"ib_core", "ib_mad", "ib_ipoib"} }

// others are users of a device that a run could disturb, in words.
func (h *Host) others(u nldev.Use) (in InUse, who []string) {
	in = InUse{Known: true, QueuePairs: u.QueuePairs, Kernel: []string{}}
	seen := map[string]bool{}
	for _, o := range u.Owners {
		text := ""
		switch name, process := h.program(o); {
		case o.Kernel != "":
			in.Kernel = append(in.Kernel, o.Kernel)
			if !slices.Contains(managing(), o.Kernel) && o.Objects > 0 {
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

func (h *Host) program(o nldev.Owner) (name string, process int) {
	if o.PID == 0 {
		return "", 0
	}
	return h.Program(o.PID)
}

// inUse refuses a device that others have queue pairs on, unless yes.
func (h *Host) inUse(device string, yes bool) (InUse, error) {
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
	in, who := h.others(use)
	if len(who) > 0 && !yes {
		return in, fmt.Errorf("%s: %w: %s; run it when that is over, or with -yes", device, ErrInUse, strings.Join(who, ", "))
	}
	return in, nil
}
