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

// NodeFiles determines why files of device nodes are missing in /dev/infiniband.
type NodeFiles struct {
	Dev  string // "" for /dev
	Proc string // "" for /proc
}

// Absence is a reason why a node that the kernel has made is not in /dev/infiniband.
type Absence int

// The kinds of absence.
const (
	AbsentNot     Absence = iota // the node is there, or the reason is unknown
	AbsentMissing                // the kernel's own /dev lacks the node, so that no program of the host can open the device
	AbsentHidden                 // this container was given other nodes, but not this one
)

// Absence returns why the file of a node such as "uverbs0" is missing. The kernel makes the files of all nodes in its own file system.
// The /dev of a container is another file system. It has the nodes that the container was given, by --device or by a device plugin of
// Kubernetes. For a container without any node Absence returns AbsentNot: its configuration is at fault.
func (n NodeFiles) Absence(node string) Absence {
	dev := filepath.Join(n.devRoot(), "infiniband")
	if _, err := os.Lstat(filepath.Join(dev, node)); !errors.Is(err, fs.ErrNotExist) {
		return AbsentNot
	}
	switch kernels, known := n.isKernelFileSystem(dev); {
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

// Explain returns why a device with a node of this Absence cannot be opened, if that is no fault; else "".
func (a Absence) Explain(node string) string {
	if a != AbsentHidden {
		return ""
	}
	return "/dev/infiniband/" + node + " is not among the nodes that this container was given"
}

// isKernelFileSystem reports whether the directory of nodes, or the /dev that contains it, is the file system in which the kernel makes
// the files of all nodes. known is false if the mounts cannot be read.
func (n NodeFiles) isKernelFileSystem(dir string) (is, known bool) {
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
	return own[dir] || own[n.devRoot()], true
}

// parseMount returns the mount point in a line of mountinfo (proc_pid_mountinfo(5)), and whether the file system there is devtmpfs or,
// on a kernel without devtmpfs, the tmpfs that udev keeps in its place.
func parseMount(line string) (point string, kernels bool) {
	fields := strings.Fields(line)
	dash := slices.Index(fields, "-")
	if dash < 5 || len(fields) < dash+3 {
		return "", false
	}
	kind, source := fields[dash+1], fields[dash+2]
	return fields[4], kind == "devtmpfs" || kind == "tmpfs" && source == "udev"
}

func (n NodeFiles) devRoot() string {
	if n.Dev == "" {
		return "/dev"
	}
	return n.Dev
}

// markMissing sets NodeMissing and Unwatchable of the devices whose node has no file.
func (n NodeFiles) markMissing(found []verbs.Found) {
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
