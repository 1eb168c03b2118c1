package hardware

import (
	"path"
	"regexp"
	"strings"

	"rdma_events/internal/device/drivers"
)

// kernelDriver and transport return what sysfs has. They are needed before a
// worker has opened the device.
func (x *trial) kernelDriver() string { return x.Sysfs.Device(x.o.Device).Driver }
func (x *trial) transport() string    { return x.Sysfs.Device(x.o.Device).Transport }

// describe adds the versions and the device's attributes to the report.
func (x *trial) describe(library string) {
	a := x.attr
	libraries := x.Libraries(library, a.Driver)
	x.r.Versions = Versions{
		Plugin: x.Version, Kernel: x.Kernel, Verbs: libraries.Verbs, Provider: libraries.Provider, ABI: libraries.ABI,
		UverbsABI: x.sys.ReadText("class/infiniband_verbs/abi_version"),
	}
	row, _ := drivers.Find(a.Driver, a.Transport)
	x.r.Device = Device{
		Name: a.Name, Row: row.Name, Driver: a.Driver, Transport: a.Transport, Firmware: a.Firmware, Board: a.BoardID,
		Type:      x.sys.ReadText(x.dir("hca_type")),
		PCIVendor: x.sys.ReadText(x.dir("device/vendor")), PCIDevice: x.sys.ReadText(x.dir("device/device")),
		VirtualFunction: a.VirtualFunction, Vectors: a.Vectors, RaisesEvents: a.EventsSupported, CountsFlushes: a.CountsFlushes,
		Ports: []Port{},
	}
	for i, p := range x.ports {
		one := Port{
			Port: i + 1, LinkLayer: p.LinkLayer.String(), State: p.State.String(), Phys: p.Phys.String(), MTU: p.MTU, Width: p.Width,
			RateGbps: p.RateGbps, HasLID: p.LID != 0, HasLinkDowned: p.HasLinkDowned, DefaultGID: -1,
		}
		one.GIDs, one.PKeys = x.gids(i+1), len(x.sys.List(x.port(i+1, "pkeys")))
		if index, ok := x.Sysfs.DefaultGID(x.o.Device, i+1); ok {
			one.DefaultGID = index
		}
		x.r.Device.Ports = append(x.r.Device.Ports, one)
	}
}

// gids returns how many GIDs a port has. The kernel answers from memory.
func (x *trial) gids(port int) int {
	n := 0
	for _, index := range x.sys.List(x.port(port, "gids")) {
		if strings.Trim(x.sys.ReadText(x.port(port, "gids", index)), "0:") != "" {
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

// scrub removes a GUID in the device's name from all texts.
func (r *Report) scrub(device string) {
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
