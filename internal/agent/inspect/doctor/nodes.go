package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/advice"
)

// checkNodes opens the device nodes. Opening a node sends no request to the driver.
func checkNodes(x *examination) []Result {
	results := make([]Result, 0, len(x.devices))
	for i := range x.devices {
		results = append(results, x.checkNode(&x.devices[i]))
	}
	if len(results) == 0 {
		return []Result{{Check: "device_nodes", Status: Skipped, Text: "no device, so no node is needed"}}
	}
	return results
}

func (x *examination) checkNode(d *device) Result {
	r := Result{Check: "device_nodes", Subject: d.Name}
	switch {
	case d.whyNoNode != "":
		r.Status, r.Text = Skipped, "not watched: "+d.whyNoNode
		return r
	case d.node == "":
		r.Status, r.Text, r.Fix = Fail, "it has no uverbs node", x.makeNodes()
		return r
	}
	node := path.Join("/dev/infiniband", d.node)
	switch err := x.OpenNode(node); {
	case err == nil:
		r.Text = node + " can be read and written"
	case errors.Is(err, fs.ErrNotExist):
		r.Status, r.Text, r.Fix = Fail, node+" is missing", x.makeNode(d.node)
	case errors.Is(err, unix.EPERM):
		r.Status, r.Text, r.Fix = Fail, node+" is refused by the kernel, independent of its mode", x.allowNode()
	case errors.Is(err, unix.EACCES):
		r.Status, r.Text, r.Fix = Fail, fmt.Sprintf("user %d may not read and write %s", x.UID, node), x.command(advice.OpenNode, node)
	default:
		r.Status, r.Text, r.Fix = Fail, fmt.Sprintf("%s cannot be opened: %v", node, err), x.command(advice.ShowKernelLog)
	}
	return r
}

// makeNodes returns the command for a device without a node of ib_uverbs: the command that loads ib_uverbs or, if it is
// loaded, the command that shows why there is no node.
func (x *examination) makeNodes() advice.Line {
	if x.Sysfs.HasNodeClass() {
		return x.command(advice.ShowKernelLog)
	}
	return x.command(advice.LoadVerbs)
}

// makeNode returns the command that creates a node which the kernel has and which is missing in this file system.
func (x *examination) makeNode(node string) advice.Line {
	if x.findContainer() != "" {
		return x.command(advice.GiveNodes)
	}
	major, minor, ok := strings.Cut(x.read("sys/class/infiniband_verbs", node, "dev"), ":")
	if !ok {
		return x.command(advice.MakeNodes)
	}
	return x.command(advice.MakeNode, node, major, minor)
}

// allowNode returns the fix for EPERM. The cause is the device cgroup of a container, or another network namespace
// (ib_uverbs_open in drivers/infiniband/core/uverbs_main.c).
func (x *examination) allowNode() advice.Line {
	if x.findContainer() == "" && x.read("sys/module/ib_core/parameters/netns_mode") == "N" {
		return x.command(advice.ShowNamespaces)
	}
	return x.command(advice.AllowNodes)
}
