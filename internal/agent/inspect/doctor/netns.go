package doctor

import (
	"fmt"
	"slices"
	"strings"

	"rdma_events/internal/agent/advice"
)

// checkNetns reports the mode of network namespaces (rdma-system(8)). In exclusive mode devices of other namespaces are
// hidden. Their nodes stay visible in sysfs, because that class has no namespaces. Devices in other namespaces are not
// a fault: pods borrow them. If no device is left here, the doctor may run in the wrong namespace.
func checkNetns(x *examination) []Result {
	r := Result{Check: "network_namespace"}
	switch x.read("sys/module/ib_core/parameters/netns_mode") {
	case "":
		r.Text = "ib_core is not loaded"
		return []Result{r}
	case "Y":
		r.Text = "shared: devices are visible in all network namespaces"
		return []Result{r}
	}
	hidden := x.findHiddenDevices()
	if len(hidden) == 0 {
		r.Text = "exclusive, and no device is in another network namespace"
		return []Result{r}
	}
	if len(x.devices)+len(x.released) > 0 {
		r.Text = fmt.Sprintf("exclusive: %s in another network namespace (reason other_netns), which the plugin watches again when back here",
			withVerb(hidden))
		return []Result{r}
	}
	r.Status = Warn
	r.Text = fmt.Sprintf("exclusive: %s cannot be watched from this network namespace; run the plugin in the one that has them", strings.Join(hidden, ", "))
	r.Fix = x.command(advice.ShowNamespaces)
	return []Result{r}
}

// withVerb returns the devices followed by "is" or "are".
func withVerb(devices []string) string {
	if len(devices) == 1 {
		return devices[0] + " is"
	}
	return strings.Join(devices, ", ") + " are"
}

// findHiddenDevices returns the devices that have a node and are not visible in this network namespace.
func (x *examination) findHiddenDevices() []string {
	nodes, err := x.Sysfs.Nodes()
	if err != nil {
		return nil
	}
	visible, err := x.Sysfs.Devices()
	if err != nil {
		return nil
	}
	var hidden []string
	for name := range nodes {
		if !slices.Contains(visible, name) {
			hidden = append(hidden, name)
		}
	}
	slices.Sort(hidden)
	return hidden
}
