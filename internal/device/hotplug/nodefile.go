package hotplug

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rdma_events/internal/device/verbs"
)

// NodeFiles finds out why files of device nodes are missing in /dev/infiniband.
type NodeFiles struct {
	Dev  string // "" for /dev
	Proc string // "" for /proc
}

// Absence is why a node that the kernel has made is not in /dev/infiniband.
type Absence int

// The kinds of absence.
const (
	AbsentNot     Absence = iota // it is there, or nothing is known about it
	AbsentMissing                // the kernel's own directory lacks it, so that no program of the host can open the device
	AbsentHidden                 // this container was given other nodes
)

// Absence returns why the file of a node such as "uverbs0" is missing. In the kernel's own file system the kernel makes the files of
// all nodes. The /dev of a container is another file system, which has the nodes that the container was given, by --device or by a
// device plugin of Kubernetes. A container that has none of them has not been given others: that is a fault of its configuration, and
// not an Absence.
func (n NodeFiles) Absence(node string) Absence {
	dev := filepath.Join(n.orDev(), "infiniband")
	if _, err := os.Lstat(filepath.Join(dev, node)); !errors.Is(err, fs.ErrNotExist) {
		return AbsentNot
	}
	switch kernels, known := n.isKernels(dev); {
	case !known:
		return AbsentNot
	case kernels:
		return AbsentMissing
	}
	others, err := filepath.Glob(filepath.Join(dev, "uverbs*"))
	if err != nil || len(others) == 0 {
		return AbsentNot
	}
	return AbsentHidden
}

// Explain returns why a device with a node of this Absence cannot be opened, and why that is no fault; "" if it is one.
func (a Absence) Explain(node string) string {
	if a != AbsentHidden {
		return ""
	}
	return "/dev/infiniband/" + node + " is not among the nodes that this container was given"
}

// isKernels reports whether the directory of nodes, or the /dev that it is in, is the file system in which the kernel makes the files
// of all nodes. known is false if that cannot be read.
func (n NodeFiles) isKernels(dir string) (is, known bool) {
	proc := n.Proc
	if proc == "" {
		proc = "/proc"
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "self/mountinfo"))
	if err != nil {
		return false, false
	}
	own := map[string]bool{} // by mount point; a later mount covers the ones before it
	for line := range strings.Lines(string(mounts)) {
		point, kernels := parseMount(line)
		own[point] = kernels
	}
	return own[dir] || own[n.orDev()], true
}

// parseMount returns the mount point in a line of mountinfo (proc_pid_mountinfo(5)), and whether the file system there is devtmpfs, or
// the one that udev keeps instead on a kernel without devtmpfs.
func parseMount(line string) (point string, kernels bool) {
	fields := strings.Fields(line)
	dash := slices.Index(fields, "-")
	if dash < 5 || len(fields) < dash+3 {
		return "", false
	}
	kind, source := fields[dash+1], fields[dash+2]
	return fields[4], kind == "devtmpfs" || kind == "tmpfs" && source == "udev"
}

func (n NodeFiles) orDev() string {
	if n.Dev == "" {
		return "/dev"
	}
	return n.Dev
}

// mark sets NodeMissing and Unwatchable of the devices whose node has no file.
func (n NodeFiles) mark(found []verbs.Found) {
	for i := range found {
		f := &found[i]
		if !f.Usable() {
			continue
		}
		a := n.Absence(f.Node)
		f.NodeMissing = a == AbsentMissing
		if why := a.Explain(f.Node); why != "" {
			f.Unwatchable = why
		}
	}
}
