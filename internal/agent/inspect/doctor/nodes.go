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
	case d.nodeless != "":
		r.Status, r.Text = Skipped, "not watched: "+d.nodeless
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
		r.Status, r.Text, r.Fix = Fail, node+" is refused by the kernel, whatever its mode is", x.permit()
	case errors.Is(err, unix.EACCES):
		r.Status, r.Text, r.Fix = Fail, fmt.Sprintf("user %d may not read and write %s", x.UID, node), x.line(advice.OpenNode, node)
	default:
		r.Status, r.Text, r.Fix = Fail, fmt.Sprintf("%s cannot be opened: %v", node, err), x.line(advice.ShowKernelLog)
	}
	return r
}

// makeNodes returns the command for a device of which ib_uverbs has made no node: the one that loads ib_uverbs or, if that is
// loaded, the one that shows why it has not.
func (x *examination) makeNodes() advice.Line {
	if x.Sysfs.HasNodeClass() {
		return x.line(advice.ShowKernelLog)
	}
	return x.line(advice.LoadVerbs)
}

// makeNode returns the command that creates a node which the kernel has and this
// file system lacks.
func (x *examination) makeNode(node string) advice.Line {
	if x.container() != "" {
		return x.line(advice.GiveNodes)
	}
	major, minor, ok := strings.Cut(x.read("sys/class/infiniband_verbs", node, "dev"), ":")
	if !ok {
		return x.line(advice.MakeNodes)
	}
	return x.line(advice.MakeNode, node, major, minor)
}

// permit returns the fix for EPERM. The cause is the device cgroup of a
// container, or another network namespace (ib_uverbs_open in
// drivers/infiniband/core/uverbs_main.c).
func (x *examination) permit() advice.Line {
	if x.container() == "" && x.read("sys/module/ib_core/parameters/netns_mode") == "N" {
		return x.line(advice.ShowNamespaces)
	}
	return x.line(advice.AllowNodes)
}
