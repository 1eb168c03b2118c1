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

// portDir returns the directory of a port in sysfs, relative to the root.
func (s *System) portDir(device string, port int) string {
	return path.Join("sys/class/infiniband", device, "ports", strconv.Itoa(port))
}

// portsOf returns the numbers of a device's ports, at most verbs.MaxPorts.
func (s *System) portsOf(device string) []int {
	ports := s.Sysfs.Ports(device)
	return ports[:min(len(ports), verbs.MaxPorts)]
}

// portSubject returns the subject of a result about a port.
func portSubject(device string, port int) string { return fmt.Sprintf("%s port %d", device, port) }

// eachPort calls f for all ports of all devices.
func (x *examination) eachPort(f func(d *device, port int) Result) []Result {
	var results []Result
	for i := range x.devices {
		for _, port := range x.devices[i].ports {
			r := f(&x.devices[i], port)
			r.Subject = portSubject(x.devices[i].Name, port)
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
	netdev := x.findNetDev(d.Name, attr.NetDev)
	if file, err := x.findRefusedRead(d, port); err != nil {
		r.Status = Warn
		r.Text, r.Fix = x.describeRefusal(d, file, verbs.CommandStatus(err))
		return r
	}
	switch {
	case state == "ACTIVE" && x.configuredRate(d.Name, port) > attr.RateGbps:
		r.Status, r.Text = Warn, fmt.Sprintf("active, %g Gb/s (%s), and the configuration expects %g Gb/s; look at its cable, its lanes "+
			"and the other end", attr.RateGbps, attr.Width, x.configuredRate(d.Name, port))
	case state == "ACTIVE" && x.peerRate(d.Name, port) > attr.RateGbps:
		r.Status, r.Text = Warn, fmt.Sprintf("active, %g Gb/s (%s), and most other ports of its board type have %g Gb/s; look at its cable, its lanes "+
			"and the other end", attr.RateGbps, attr.Width, x.peerRate(d.Name, port))
	case state == "ACTIVE":
		r.Text = fmt.Sprintf("active, %g Gb/s (%s), %s", attr.RateGbps, attr.Width, x.describeLink(d.Name, port, netdev))
	case x.expectsDown(d, port):
		r.Text = fmt.Sprintf("%s (%s), as expected_down says", strings.ToLower(state), phys)
	case state == "INIT" || state == "ARMED":
		r.Status = Warn
		r.Text = strings.ToLower(state) + ": there is a link, and the fabric's subnet manager has not brought the port up; ask whoever runs the fabric"
		r.Fix = x.command(advice.ShowSubnetManagerOf, d.Name, strconv.Itoa(port))
	default:
		r.Status, r.Text = Warn, fmt.Sprintf("%s (%s)", strings.ToLower(state), phys)
		r.Text, r.Fix = x.whyDown(r.Text, d.Name, port, phys, netdev)
	}
	return r
}

// expectsDown reports whether expected_down lists the port.
func (x *examination) expectsDown(d *device, port int) bool {
	return x.plugin.ExpectedDown != nil && x.plugin.ExpectedDown(d.Name, port)
}

// describeRefusal returns the text and the command for a device that fails a read with an errno of a refusal. Drivers
// also return EIO for a device that has failed and may recover; such a device should not be excluded.
func (x *examination) describeRefusal(d *device, read, errno string) (text string, fix advice.Line) {
	if errno == "EIO" {
		return fmt.Sprintf("%s ends with EIO: the device has failed and may recover, or its firmware refuses the read; the kernel log "+
			"says which", read), x.command(advice.ShowKernelLogOf, d.kernelLogWord())
	}
	return fmt.Sprintf("its firmware refuses %s (%s), as on a restricted function, and each refusal may add a line to the "+
		"kernel log; add %s to devices_exclude to leave the device alone", read, errno, d.Name), x.editConfig()
}

// findRefusedRead returns a file of a port that the firmware refuses to read, and the error. With drivers whose
// counters do not come from the firmware, unreadable counters are normal and are not tried.
func (x *examination) findRefusedRead(d *device, port int) (file string, err error) {
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
		return text + ": its network device " + netdev + " is down", x.command(advice.BringUp, netdev)
	case netdev != "":
		return text + ": there is no link; look at cable, transceiver and the other end", x.command(advice.ShowLink, netdev)
	case disabled:
		return text + ": it has been disabled; whoever runs the fabric can enable it", x.command(advice.ShowPortSettings, device, strconv.Itoa(port))
	}
	return text + ": there is no link; look at cable, transceiver and the other end", x.command(advice.ShowPort, device, strconv.Itoa(port))
}

// describeLink returns the link layer of a port with its LID or its network device.
func (x *examination) describeLink(device string, port int, netdev string) string {
	if x.portAttr(device, port, "link_layer") == "InfiniBand" {
		return "InfiniBand, LID " + x.read(x.portDir(device, port), "lid")
	}
	if netdev == "" {
		return "Ethernet"
	}
	return "Ethernet on " + netdev
}

// portState returns the state of a port, as "ACTIVE" for "4: ACTIVE", or "UNKNOWN" if it cannot be read.
func (x *examination) portState(device string, port int) string {
	if state := x.portAttr(device, port, "state"); state != "" {
		return state
	}
	return "UNKNOWN"
}

// portAttr returns a file of a port without a leading number, as "ACTIVE" for "4: ACTIVE".
func (x *examination) portAttr(device string, port int, name string) string {
	text := x.read(x.portDir(device, port), name)
	if _, after, ok := strings.Cut(text, ": "); ok {
		return after
	}
	return text
}

// findNetDev returns the network device of a port, or "" if it is unknown. ofGIDs is the network device of the port's
// GIDs. A port that is down may have lost its GIDs; then the device's network device is used.
func (x *examination) findNetDev(device, ofGIDs string) string {
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
