package hotplug

import (
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/sysfs"
)

// scan lists the devices, sorted by name. It reads only attributes that the RDMA
// core provides itself, so that a driver that hangs cannot block it. While descriptors or memory
// are short, it returns an error: a device of which something could not be read would look like
// another one, or like one without its node, and so like a removal.
func scan(sysfs sysfs.FS, indexes func() (map[string]int, error)) ([]verbs.Found, error) {
	names, err := sysfs.Devices()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	nodes, err := sysfs.Nodes()
	if nodes == nil || verbs.Shortage(err) != "" {
		return nil, err
	}
	byName, err := indexes()
	if verbs.Shortage(err) != "" {
		return nil, err
	}
	if err != nil {
		byName = nil // the indexes are optional
	}
	found := make([]verbs.Found, 0, len(names))
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
		found = append(found, f)
	}
	return found, nil
}
