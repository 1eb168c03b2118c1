package hosts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
)

// otherUser is the ID of a user as whom no program of the host runs: nobody.
const otherUser = 65534

// makeNode makes the device's node.
func (d *device) makeNode(dir string, index int) error {
	d.node = filepath.Join(dir, "nodes", nodeName(index))
	err := standin.WriteFile(d.node, "")
	if err == nil && d.Private {
		err = errors.Join(os.Chmod(d.node, 0o600), os.Chown(d.node, otherUser, otherUser))
	}
	return err
}

func nodeName(index int) string { return "uverbs" + strconv.Itoa(index) }

// forbidden returns the nodes that the kernel has to refuse to open.
func (h *host) forbidden() []string {
	var paths []string
	for i := range h.Devices {
		if h.Devices[i].Forbidden {
			paths = append(paths, h.Devices[i].node)
		}
	}
	return paths
}

// forbidOpening makes the kernel refuse each attempt to open the files with EPERM, for all users and file modes, as the device cgroup
// of a container does. The returned function allows it again.
func forbidOpening(paths []string) (allow func(), err error) {
	if len(paths) == 0 {
		return func() {}, nil
	}
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch for attempts to open files: %w", err)
	}
	f := os.NewFile(uintptr(fd), "fanotify")
	for _, path := range paths {
		if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM, unix.AT_FDCWD, path); err != nil {
			return nil, errors.Join(fmt.Errorf("watch for attempts to open %s: %w", path, err), f.Close())
		}
	}
	var refusals sync.WaitGroup
	refusals.Go(func() { refuseAll(f) })
	return func() {
		_ = f.Close() // what waits for an answer is allowed
		refusals.Wait()
	}, nil
}

// refuseAll refuses each attempt that a fanotify group reports until the group is closed.
func refuseAll(f *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		var event unix.FanotifyEventMetadata
		for rest := buf[:n]; ; rest = rest[event.Event_len:] {
			if _, err := binary.Decode(rest, binary.NativeEndian, &event); err != nil {
				break // rest is empty
			}
			response, err := binary.Append(nil, binary.NativeEndian, unix.FanotifyResponse{Fd: event.Fd, Response: unix.FAN_DENY})
			if err == nil {
				_, err = f.Write(response)
			}
			if err := errors.Join(err, unix.Close(int(event.Fd))); err != nil {
				return
			}
		}
	}
}
