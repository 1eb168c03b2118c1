package release

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Holder is a worker of any program of this module that has a device open.
type Holder struct {
	PID    int
	Device string
}

// AwaitHolders waits until no worker has a device open for which released returns true, and returns those that still have when
// ctx ends. Workers of programs that no command reaches, as of `rdma-events watch`, are among them. It sees those processes of
// this PID namespace of which it may read the descriptors, as root may. root is "/" but in tests.
func AwaitHolders(ctx context.Context, root, worker string, released func(device string) bool) []Holder {
	tick := time.NewTicker(5 * again)
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

func listHolders(root, worker string, released func(device string) bool) []Holder {
	processes, _ := os.ReadDir(filepath.Join(root, "proc")) // without it no process is seen
	var held []Holder
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(root, "proc", p.Name())
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // proc(5); one that has ended has none
		if name, _, _ := strings.Cut(string(command), "\x00"); name != worker {
			continue
		}
		if device := openDevice(root, filepath.Join(dir, "fd")); device != "" && released(device) {
			held = append(held, Holder{pid, device})
		}
	}
	return held
}

// openDevice returns the device whose node is among a process' descriptors, "" if there is none. A worker has one device.
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
