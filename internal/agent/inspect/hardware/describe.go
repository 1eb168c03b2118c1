package hardware

import (
	"path"
	"regexp"
	"strings"

	"rdma_events/internal/device/drivers"
)

// kernelDriver and transport return values from sysfs. They are needed before a worker has opened the device.
func (x *run) kernelDriver() string  { return x.Sysfs.Device(x.options.Device).Driver }
func (x *run) readTransport() string { return x.Sysfs.Device(x.options.Device).Transport }

// addDescription adds the versions and the device's attributes to the report.
func (x *run) addDescription(library string) {
	a := x.attr
	libraries := x.Libraries(library, a.Driver)
	x.report.Versions = Versions{
		Plugin: x.Version, Kernel: x.Kernel, Verbs: libraries.Verbs, Provider: libraries.Provider, ABI: libraries.ABI,
		UverbsABI: x.files.ReadText("class/infiniband_verbs/abi_version"),
	}
	row, _ := drivers.Find(a.Driver, a.Transport)
	x.report.Device = Device{
		Name: a.Name, Row: row.Name, Driver: a.Driver, Transport: a.Transport, Firmware: a.Firmware, Board: a.BoardID,
		Type:      x.files.ReadText(x.deviceFile("hca_type")),
		PCIVendor: x.files.ReadText(x.deviceFile("device/vendor")), PCIDevice: x.files.ReadText(x.deviceFile("device/device")),
		VirtualFunction: a.VirtualFunction, Vectors: a.Vectors, RaisesEvents: a.EventsSupported, CountsFlushes: a.CountsFlushes,
		Ports: []Port{},
	}
	for i, p := range x.ports {
		one := Port{
			Port: i + 1, LinkLayer: p.LinkLayer.String(), State: p.State.String(), Phys: p.Phys.String(), MTU: p.MTU, Width: p.Width,
			RateGbps: p.RateGbps, HasLID: p.LID != 0, HasLinkDowned: p.HasLinkDowned, DefaultGID: -1,
		}
		one.GIDs, one.PKeys = x.countGIDs(i+1), len(x.files.List(x.portFile(i+1, "pkeys")))
		if index, ok := x.Sysfs.DefaultGID(x.options.Device, i+1); ok {
			one.DefaultGID = index
		}
		x.report.Device.Ports = append(x.report.Device.Ports, one)
	}
}

// countGIDs returns the number of GIDs of a port. The kernel answers from memory.
func (x *run) countGIDs(port int) int {
	n := 0
	for _, index := range x.files.List(x.portFile(port, "gids")) {
		if strings.Trim(x.files.ReadText(x.portFile(port, "gids", index)), "0:") != "" {
			n++
		}
	}
	return n
}

// guidInName matches a GUID in a device's name. rdma_rename of rdma-core makes
// such names.
var guidInName = regexp.MustCompile(`[0-9a-f]{12,16}`)

// Label returns a device's name with a GUID in it replaced by "x".
func Label(device string) string { return path.Base(guidInName.ReplaceAllString(device, "x")) }

// removeGUIDs removes a GUID that is part of the device's name from all texts.
func (r *Report) removeGUIDs(device string) {
	label := Label(device)
	if label == device {
		return
	}
	clean := func(text *string) { *text = strings.ReplaceAll(*text, device, label) }
	clean(&r.Device.Name)
	for i := range r.Methods {
		clean(&r.Methods[i].Why)
	}
	for i := range r.Auto {
		clean(&r.Auto[i].Why)
		clean(&r.Auto[i].Reason)
	}
	for i := range r.Problems {
		clean(&r.Problems[i])
	}
	for i := range r.Commands {
		errs := map[string]int{}
		for text, n := range r.Commands[i].Errors {
			clean(&text)
			errs[text] += n
		}
		r.Commands[i].Errors = errs
	}
}
