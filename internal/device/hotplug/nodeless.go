package hotplug

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/netlink"
)

// Type is the type of an RDMA device as RDMA netlink has it. The zero Type is that of a device that
// programs can open.
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

// nodeLimit is how long ib_uverbs may take to make the node of a device of which RDMA netlink says
// nothing. It makes the nodes of all devices while it is loaded, and that of a later device before
// the kernel announces the device.
const nodeLimit = 5 * time.Second

// nodeless finds out why devices have no node. It remembers which ones had one, and since when the
// others have been there without.
type nodeless struct {
	sysfs sysfs.FS
	types func() (map[string]Type, error)
	had   map[string]bool
	since map[string]time.Time
}

// markDevices sets Pending and Unwatchable of the devices that have never had a node although ib_uverbs is
// loaded. One that has lost its node is being removed. The error is that of a resource that is short.
func (n *nodeless) markDevices(found []verbs.Found, now time.Time) error {
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

// WhyNoNode returns why a device has no node although ib_uverbs is loaded, and never gets one; "" if
// that would be a fault. types has what RDMA netlink says of all devices (QueryTypes). It has the
// last word: ib_uverbs leaves out SMI sub-devices alone (ib_uverbs_add_one in
// drivers/infiniband/core/uverbs_main.c). Of a device that is missing there the time decides: settled
// says that ib_uverbs would have made the node by now. Until then pending is true.
func WhyNoNode(device string, types map[string]Type, settled bool) (why string, pending bool) {
	t, told := types[device]
	switch {
	case t.SMI && t.Parent != "":
		return "it is an SMI sub-device of " + t.Parent + ", for subnet management alone: no program can open it", false
	case t.SMI:
		return "it is an SMI sub-device, for subnet management alone: no program can open it", false
	case told:
		return "", false
	case settled:
		return "ib_uverbs is loaded and makes no node for it, as for a sub-device: no program can open it", false
	}
	return "", true
}
