package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/device/verbs"
)

func (s *System) portDir(device string, port int) string {
	return path.Join("sys/class/infiniband", device, "ports", strconv.Itoa(port))
}

// portsOf returns the numbers of a device's ports, at most verbs.MaxPorts.
func (s *System) portsOf(device string) []int {
	ports := s.Sysfs.Ports(device)
	return ports[:min(len(ports), verbs.MaxPorts)]
}

func subject(device string, port int) string { return fmt.Sprintf("%s port %d", device, port) }

// eachPort calls f for all ports of all devices.
func (x *examination) eachPort(f func(d *device, port int) Result) []Result {
	var results []Result
	for i := range x.devices {
		for _, port := range x.devices[i].ports {
			r := f(&x.devices[i], port)
			r.Subject = subject(x.devices[i].Name, port)
			results = append(results, r)
		}
	}
	return results
}

// checkPorts reports each port's state from sysfs, which needs no library.
func checkPorts(x *examination) []Result {
	x.compareRates()
	results := x.eachPort(x.checkPort)
	if len(results) == 0 {
		return []Result{{Check: "ports", Status: Skipped, Text: "no device, so no port"}}
	}
	return results
}

func (x *examination) checkPort(d *device, port int) Result {
	r := Result{Check: "ports"}
	state, phys := x.portState(d.Name, port), x.portAttr(d.Name, port, "phys_state")
	attr := verbs.PortAttr{LinkLayer: verbs.LinkEthernet}
	x.Sysfs.Port(d.Name, port, &attr)
	netdev := x.netdev(d.Name, attr.NetDev)
	if file, err := x.refusedRead(d, port); err != nil {
		r.Status = Warn
		r.Text, r.Fix = x.unanswered(d, file, verbs.CommandStatus(err))
		return r
	}
	switch {
	case state == "ACTIVE" && x.statedRate(d.Name, port) > attr.RateGbps:
		r.Status, r.Text = Warn, fmt.Sprintf("active, %g Gb/s (%s), and the configuration expects %g Gb/s; look at its cable, its lanes "+
			"and the other end", attr.RateGbps, attr.Width, x.statedRate(d.Name, port))
	case state == "ACTIVE" && x.comparedRate(d.Name, port) > attr.RateGbps:
		r.Status, r.Text = Warn, fmt.Sprintf("active, %g Gb/s (%s), and most other ports of its board type have %g Gb/s; look at its cable, its lanes "+
			"and the other end", attr.RateGbps, attr.Width, x.comparedRate(d.Name, port))
	case state == "ACTIVE":
		r.Text = fmt.Sprintf("active, %g Gb/s (%s), %s", attr.RateGbps, attr.Width, x.link(d.Name, port, netdev))
	case x.expectsDown(d, port):
		r.Text = fmt.Sprintf("%s (%s), as expected_down says", strings.ToLower(state), phys)
	case state == "INIT" || state == "ARMED":
		r.Status = Warn
		r.Text = strings.ToLower(state) + ": there is a link, and the fabric's subnet manager has not brought the port up; ask whoever runs the fabric"
		r.Fix = x.line(advice.ShowSubnetManagerOf, d.Name, strconv.Itoa(port))
	default:
		r.Status, r.Text = Warn, fmt.Sprintf("%s (%s)", strings.ToLower(state), phys)
		r.Text, r.Fix = x.whyDown(r.Text, d.Name, port, phys, netdev)
	}
	return r
}

// expectsDown reports whether the configuration says that a port may be down.
func (x *examination) expectsDown(d *device, port int) bool {
	return x.plugin.ExpectedDown != nil && x.plugin.ExpectedDown(d.Name, port)
}

// unanswered returns the text and the command for a device that ends a read with an errno that refusals have. Drivers also answer EIO for a
// device that has failed and may recover, which is not one to leave out.
func (x *examination) unanswered(d *device, read, errno string) (text string, fix advice.Line) {
	if errno == "EIO" {
		return fmt.Sprintf("%s ends with EIO: the device has failed and may recover, or its firmware refuses the read; the kernel log "+
			"says which", read), x.line(advice.ShowKernelLogOf, d.kernelLogWord())
	}
	return fmt.Sprintf("its firmware refuses %s (%s), as that of a restricted function, and each refusal may be a line of the "+
		"kernel log; add %s to devices_exclude to leave the device alone", read, errno, d.Name), x.editConfig()
}

// refusedRead returns a file of a port that firmware refuses to read, and the error of that. With drivers that do not ask
// the firmware, counters that cannot be read are normal.
func (x *examination) refusedRead(d *device, port int) (file string, err error) {
	files := []string{"state"}
	if verbs.DriverCommands(d.Driver).Has(verbs.CommandQueryPort) {
		files = append(files, "counters/link_downed")
	}
	for _, file := range files {
		if _, err := fs.ReadFile(x.Root, path.Join(x.portDir(d.Name, port), file)); verbs.IsRefusal(err) {
			return file, err
		}
	}
	return "", nil
}

// whyDown returns why a port is down, appended to text, and the fix.
func (x *examination) whyDown(text, device string, port int, phys, netdev string) (why string, fix advice.Line) {
	disabled := strings.EqualFold(phys, "Disabled")
	switch {
	case netdev != "" && disabled:
		return text + ": its network device " + netdev + " is down", x.line(advice.BringUp, netdev)
	case netdev != "":
		return text + ": there is no link; look at cable, transceiver and the other end", x.line(advice.ShowLink, netdev)
	case disabled:
		return text + ": it has been disabled; whoever runs the fabric can enable it", x.line(advice.ShowPortSettings, device, strconv.Itoa(port))
	}
	return text + ": there is no link; look at cable, transceiver and the other end", x.line(advice.ShowPort, device, strconv.Itoa(port))
}

func (x *examination) link(device string, port int, netdev string) string {
	if x.portAttr(device, port, "link_layer") == "InfiniBand" {
		return "InfiniBand, LID " + x.read(x.portDir(device, port), "lid")
	}
	if netdev == "" {
		return "Ethernet"
	}
	return "Ethernet on " + netdev
}

// portState returns "ACTIVE" for "4: ACTIVE", "UNKNOWN" if the state cannot be read.
func (x *examination) portState(device string, port int) string {
	if state := x.portAttr(device, port, "state"); state != "" {
		return state
	}
	return "UNKNOWN"
}

func (x *examination) portAttr(device string, port int, name string) string {
	text := x.read(x.portDir(device, port), name)
	if _, after, ok := strings.Cut(text, ": "); ok {
		return after
	}
	return text
}

// netdev returns the network device of a port, "" if it is unknown. It comes from
// the port's GIDs, or else from the device, because a port that is down may have
// lost its GIDs.
func (x *examination) netdev(device, ofGIDs string) string {
	if ofGIDs != "" {
		return ofGIDs
	}
	dir := path.Join("sys/class/infiniband", device)
	if parent := x.read(dir, "parent"); parent != "" { // rdma_rxe
		return parent
	}
	if all := x.list(dir, "device/net"); len(all) == 1 {
		return all[0]
	}
	return ""
}
