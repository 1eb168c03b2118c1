package release

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Holder is a worker process that has a device open. The worker may belong to any program of this module.
type Holder struct {
	PID    int
	Device string
}

// AwaitHolders waits until no worker has a released device open. It returns the workers that still have one when ctx
// ends. This includes workers of programs that AskPlugins does not reach, such as `rdma-events watch`. Only processes
// of this PID namespace whose descriptors the caller may read are visible; root may read all. root is "/" except in
// tests.
func AwaitHolders(ctx context.Context, root, worker string, released func(device string) bool) []Holder {
	tick := time.NewTicker(5 * checkInterval)
	defer tick.Stop()
	for {
		held := listHolders(root, worker, released)
		if len(held) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return held
		case <-tick.C:
		}
	}
}

// listHolders returns the workers that have a released device open now.
func listHolders(root, worker string, released func(device string) bool) []Holder {
	processes, _ := os.ReadDir(filepath.Join(root, "proc")) // without it no process is visible
	var held []Holder
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(root, "proc", p.Name())
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // proc(5); empty if the process has ended
		if name, _, _ := strings.Cut(string(command), "\x00"); name != worker {
			continue
		}
		if device := openDevice(root, filepath.Join(dir, "fd")); device != "" && released(device) {
			held = append(held, Holder{pid, device})
		}
	}
	return held
}

// openDevice returns the device whose node is among the descriptors of a process, or "" if there is none. A worker has
// at most one device open.
func openDevice(root, dir string) string {
	descriptors, _ := os.ReadDir(dir)
	for _, d := range descriptors {
		target, _ := os.Readlink(filepath.Join(dir, d.Name())) // it may be closed by now
		node, ok := strings.CutPrefix(target, "/dev/infiniband/uverbs")
		if !ok {
			continue
		}
		device, err := os.ReadFile(filepath.Join(root, "sys/class/infiniband_verbs", "uverbs"+node, "ibdev"))
		if err == nil {
			return strings.TrimSpace(string(device))
		}
	}
	return ""
}
