package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"rdma_events/internal/device/ethtool"
)

// linkAnswer is the answer about the link of a port's network device.
type linkAnswer struct {
	netdev string
	link   ethtool.Link
	err    error
}

// askLinks queries the link of each port's network device once. All network devices of the host share the kernel's RTNL
// lock, and a card that hangs would hold it for long. Therefore askLinks queries only network devices of RDMA devices
// that could be opened, and stops after the first error.
func (x *examination) askLinks(ctx context.Context) {
	if x.worker == nil || x.versionErr != nil {
		return
	}
	for i := range x.devices {
		if !x.devices[i].wasOpened() {
			continue
		}
		for _, port := range x.devices[i].ports {
			netdev := x.findNetDev(x.devices[i].Name, x.Sysfs.PortNetDev(x.devices[i].Name, port))
			known := func(a linkAnswer) bool { return a.netdev == netdev }
			if netdev == "" || slices.ContainsFunc(x.links, known) {
				continue
			}
			link, err := x.worker.AskLink(ctx, netdev)
			x.links = append(x.links, linkAnswer{netdev, link, err})
			if err != nil {
				return
			}
		}
	}
}

// checkExtState reports whether the drivers of network devices tell why there is no link. It never fails, because the
// plugin does not need this information.
func checkExtState(x *examination) []Result {
	const name = "ext_state"
	if len(x.links) == 0 {
		return []Result{{Check: name, Status: Skipped, Text: "no device with a network device was opened, so none is asked about its link"}}
	}
	var results []Result
	for i := range x.links {
		a := &x.links[i]
		r := Result{Check: name, Subject: a.netdev}
		switch {
		case a.err != nil:
			r.Status = Skipped
			r.Text = "snapshots will not contain the reason why a link is lost: " + oneLine(a.err)
		case a.link.ExtState != "":
			r.Text = "its driver says why there is no link: " + strings.TrimSpace(a.link.ExtState+" "+a.link.ExtSubstate)
		case a.link.Up:
			r.Text = "ethtool netlink answers: there is a link"
		default:
			r.Status, r.Text = Skipped, "there is no link, and its driver does not say why, or it is administratively down"
		}
		results = append(results, r)
	}
	return results
}

// checkKernelLog reports whether rdma-events report can read the kernel log. It never fails, because nothing else reads
// the log.
func checkKernelLog(x *examination) []Result {
	r := Result{Check: "dmesg_restrict", Text: "this user can read the kernel log, so rdma-events report includes it"}
	if err := x.KernelLog(); err != nil {
		r.Status = Skipped
		r.Text = fmt.Sprintf("rdma-events report does not include the kernel log if this user runs it: %v", err)
		if x.read("proc/sys/kernel/dmesg_restrict") == "1" {
			r.Text += "; kernel.dmesg_restrict is 1, so only root or CAP_SYSLOG may read it"
		}
	}
	return []Result{r}
}

// oneLine returns the text of an error in one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
