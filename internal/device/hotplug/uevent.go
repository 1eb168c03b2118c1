package hotplug

import (
	"bytes"
	"context"
	"errors"
	"path"
	"strings"

	"rdma_events/internal/sys/netlink"
)

// The subsystems of uevents that matter here.
const (
	subsystemDevices = "infiniband"       // mlx5_0
	subsystemNodes   = "infiniband_verbs" // uverbs0
)

// uevent has the fields of a kernel uevent that this package uses.
type uevent struct {
	action    string // "add", "remove", "move", "change", "bind", ...
	path      string // below /sys, without it
	subsystem string
	node      string // below /dev, without it; "" for a device without one
	synthetic bool   // a process wrote to a uevent file; the device has not changed
}

// parseUevent reads a message of the kernel: "action@devpath", then KEY=value
// fields, with a zero byte after each (lib/kobject_uevent.c). It returns false for
// any other message, such as the messages of udev, which begin with "libudev".
func parseUevent(message []byte) (uevent, bool) {
	head, rest, ok := bytes.Cut(message, []byte{0})
	if !ok || !bytes.Contains(head, []byte("@/")) {
		return uevent{}, false
	}
	var u uevent
	for field := range bytes.SplitSeq(rest, []byte{0}) {
		key, value, _ := strings.Cut(string(field), "=")
		switch key {
		case "ACTION":
			u.action = value
		case "DEVPATH":
			u.path = value
		case "SUBSYSTEM":
			u.subsystem = value
		case "DEVNAME":
			u.node = value
		case "SYNTH_UUID":
			u.synthetic = true
		}
	}
	return u, u.action != "" && u.path != "" && u.subsystem != ""
}

// concernsDevices reports whether the set of devices may have changed.
func (u uevent) concernsDevices() bool {
	return u.subsystem == subsystemDevices || u.subsystem == subsystemNodes
}

// removesNode reports whether the kernel is removing an uverbs node such as "uverbs0".
func (u uevent) removesNode(node string) bool {
	if u.action != "remove" || u.subsystem != subsystemNodes || u.synthetic {
		return false
	}
	return u.node == "infiniband/"+node || u.node == "" && path.Base(u.path) == node
}

// receiveUevents calls handle with every uevent of source, and with nil when uevents were
// lost. It returns nil when ctx ends, or the error that ended the subscription. It
// closes source before it returns.
func receiveUevents(ctx context.Context, source Source, handle func(*uevent)) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = source.Close() // nothing was written
	})
	defer func() {
		if stop() {
			_ = source.Close()
			return
		}
		<-closed
	}()
	for {
		message, err := source.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, netlink.ErrOverrun):
			handle(nil)
		case err != nil:
			return err
		default:
			if u, ok := parseUevent(message); ok {
				handle(&u)
			}
		}
	}
}
