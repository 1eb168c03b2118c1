package hotplug

import (
	"slices"
	"strings"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

// maxScans limits how often scan repeats because the devices change meanwhile.
const maxScans = 3

// scanDevices lists the devices, sorted by name. It reads only attributes that the RDMA core provides itself, so that a driver that hangs
// cannot block it. If descriptors or memory are short, it returns an error: a device with an unread attribute would look like a different
// device, or like a device without a node, and so like a removal.  In exclusive mode it also lists the devices of other network namespaces.
// A device that comes, goes or moves while scan reads the two classes would be found in the wrong namespace, so scan then repeats.
func scanDevices(sysfs sysfs.FS, indexes func() (map[string]int, error)) ([]verbs.Found, error) {
	names, err := sysfs.Devices()
	for range maxScans {
		if err != nil {
			return nil, err
		}
		found, err := describeDevices(sysfs, names, indexes)
		if err != nil {
			return nil, err
		}
		var now []string
		if now, err = sysfs.Devices(); err == nil && slices.Equal(now, names) {
			return found, nil
		}
		names = now
	}
	return describeDevices(sysfs, names, indexes)
}

// describeDevices returns the devices with these names. In exclusive mode it adds the devices of other network namespaces.
func describeDevices(sysfs sysfs.FS, names []string, indexes func() (map[string]int, error)) ([]verbs.Found, error) {
	exclusive, err := sysfs.ReadExclusiveNetns()
	if verbs.Shortage(err) != "" {
		return nil, err
	}
	if len(names) == 0 && !exclusive {
		return nil, nil
	}
	nodes, err := sysfs.Nodes()
	if nodes == nil || verbs.Shortage(err) != "" {
		return nil, err
	}
	var others []verbs.Found
	if exclusive {
		others = sysfs.OtherNetns(names, nodes)
	}
	if len(names) == 0 {
		return others, nil
	}
	byName, err := indexes()
	if verbs.Shortage(err) != "" {
		return nil, err
	}
	if err != nil {
		byName = nil // the indexes are optional
	}
	found := make([]verbs.Found, 0, len(names)+len(others))
	for _, name := range names {
		index, ok := byName[name]
		if !ok {
			index = -1
		}
		guid, err := sysfs.ReadNodeGUID(name)
		if verbs.Shortage(err) != "" {
			return nil, err
		}
		f, err := sysfs.Function(name)
		if verbs.Shortage(err) != "" {
			return nil, err
		}
		f.Index, f.Node, f.NodeGUID = index, nodes[name], guid
		if exclusive {
			f.Netns = verbs.NetnsOwn
		}
		found = append(found, f)
	}
	found = append(found, others...)
	slices.SortFunc(found, func(a, b verbs.Found) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
