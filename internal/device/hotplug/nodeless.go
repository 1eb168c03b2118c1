package hotplug

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/netlink"
)

// Type is the type of an RDMA device as RDMA netlink reports it. The zero Type belongs to a device
// that programs can open.
type Type struct {
	SMI    bool   // a sub-device for subnet management alone
	Parent string // the device that a sub-device belongs to
}

// QueryTypes asks RDMA netlink for the types of all RDMA devices, by name. It needs no privilege.
// Kernels have types from 6.11 on; devices of older ones have the zero Type.
func QueryTypes() (map[string]Type, error) {
	c, err := netlink.Dial(unix.NETLINK_RDMA, indexTimeout)
	if err != nil {
		return nil, fmt.Errorf("request device types: %w", err)
	}
	defer c.Close()
	types := make(map[string]Type)
	err = c.Ask(nldevGet, unix.NLM_F_DUMP, nil, func(body []byte) error { return parseType(body, types) })
	if err != nil {
		return nil, fmt.Errorf("request device types: %w", err)
	}
	return types, nil
}

// parseType adds a device to types, unless its name is missing.
func parseType(body []byte, types map[string]Type) error {
	name := ""
	var t Type
	err := netlink.Each(body, func(kind uint16, value []byte) error {
		switch {
		case kind == nldevDevName:
			name = netlink.ParseText(value)
		case kind == nldevDevType && len(value) >= 1:
			t.SMI = value[0] == nldevTypeSMI
		case kind == nldevParentName:
			t.Parent = netlink.ParseText(value)
		}
		return nil
	})
	if err == nil && name != "" {
		types[name] = t
	}
	return err
}

// nodeLimit is the time within which ib_uverbs makes the node of a device that RDMA netlink does not
// list. ib_uverbs makes the nodes of all devices while it is loaded, and the node of a later device
// before the kernel announces the device.
const nodeLimit = 5 * time.Second

// nodelessDevices determines why devices have no node. It remembers which devices had a node, and
// since when the others have been present without one.
type nodelessDevices struct {
	sysfs sysfs.FS
	types func() (map[string]Type, error)
	had   map[string]bool
	since map[string]time.Time
}

// markDevices sets Pending and Unwatchable of the devices that have never had a node although ib_uverbs is
// loaded. A device that has lost its node is being removed and stays unmarked. The only error is a
// shortage of a resource.
func (n *nodelessDevices) markDevices(found []verbs.Found, now time.Time) error {
	had, since := make(map[string]bool), make(map[string]time.Time)
	var types map[string]Type
	loaded := n.sysfs.HasNodeClass()
	for i := range found {
		f := &found[i]
		had[f.Name] = f.Node != "" || n.had[f.Name]
		if had[f.Name] || !loaded {
			continue
		}
		if types == nil {
			var err error
			if types, err = n.types(); verbs.Shortage(err) != "" {
				return err
			}
		}
		first, known := n.since[f.Name]
		if !known {
			first = now
		}
		since[f.Name] = first
		f.Unwatchable, f.Pending = WhyNoNode(f.Name, types, now.Sub(first) >= nodeLimit)
	}
	n.had, n.since = had, since
	return nil
}

// WhyNoNode returns why a device has no node although ib_uverbs is loaded, and never will have one; ""
// if the missing node is a fault. types has the types of all devices (QueryTypes). They decide:
// ib_uverbs makes no node for SMI sub-devices only (ib_uverbs_add_one in
// drivers/infiniband/core/uverbs_main.c). For a device that is not in types the time decides: settled
// tells that ib_uverbs would have made the node by now. Until then pending is true.
func WhyNoNode(device string, types map[string]Type, settled bool) (why string, pending bool) {
	t, listed := types[device]
	switch {
	case t.SMI && t.Parent != "":
		return "it is an SMI sub-device of " + t.Parent + ", for subnet management alone: no program can open it", false
	case t.SMI:
		return "it is an SMI sub-device, for subnet management alone: no program can open it", false
	case listed:
		return "", false
	case settled:
		return "ib_uverbs is loaded and makes no node for it, as for a sub-device: no program can open it", false
	}
	return "", true
}
