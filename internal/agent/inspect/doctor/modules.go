package doctor

import (
	"fmt"
	"slices"
	"strings"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/device/drivers"
)

// checkModules checks that ib_core, ib_uverbs and the drivers are loaded. It looks for the files that they create in
// sysfs, because they may be built into the kernel.
func checkModules(x *examination) []Result {
	const name = "kernel_modules"
	if len(x.released) > 0 && len(x.devices) == 0 {
		return []Result{{Check: name, Status: Skipped, Text: "all devices are released, so their modules may be unloaded at the moment"}}
	}
	results := append(x.findDriverlessCards(name), x.findIdleCards(name)...)
	hasUverbs := x.exists("sys/class/infiniband_verbs")
	switch {
	case len(x.devices) == 0 && len(results) == 0:
		return []Result{x.reportNoDevice(name)}
	case len(x.devices) > 0 && !hasUverbs:
		results = append(results, Result{Check: name, Status: Fail,
			Text: "ib_uverbs is not loaded, so no program can open a device", Fix: x.command(advice.LoadVerbs)})
	case len(x.devices) > 0:
		results = append(results, Result{Check: name, Text: "ib_core, ib_uverbs and " + strings.Join(x.listDrivers(), ", ") + " are there"})
	}
	return results
}

// listDrivers returns the drivers of the devices, without duplicates.
func (x *examination) listDrivers() []string {
	var all []string
	for i := range x.devices {
		driver := x.devices[i].Driver
		if driver == "" {
			driver = "an unknown driver"
		}
		all = append(all, driver)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// findIdleCards finds network cards whose RDMA module is not loaded. This is probably intended on a host with other
// RDMA devices.
func (x *examination) findIdleCards(check string) []Result {
	var results []Result
	for _, driver := range x.list("sys/bus/pci/drivers") {
		module := drivers.Companion(driver)
		if module == "" || x.exists("sys/module", module) {
			continue
		}
		i := slices.IndexFunc(x.list("sys/bus/pci/drivers", driver), func(n string) bool { return strings.Count(n, ":") == 2 })
		if i < 0 {
			continue // the driver has no card
		}
		r := Result{Check: check, Status: Skipped,
			Text: fmt.Sprintf("there are cards with driver %s, but %s, which creates their RDMA devices, is not loaded", driver, module),
		}
		if len(x.devices) == 0 {
			r.Status, r.Fix = Warn, x.command(advice.LoadDriver, module)
		} else {
			r.Text += ": they are not watched, which is right if nobody needs them for RDMA"
		}
		results = append(results, r)
	}
	return results
}

// findDriverlessCards finds RDMA network cards without any driver. A function that was given to vfio-pci has a driver.
func (x *examination) findDriverlessCards(check string) []Result {
	var results []Result
	const devices = "sys/bus/pci/devices"
	for _, address := range x.list(devices) {
		vendor, device := x.read(devices, address, "vendor"), x.read(devices, address, "device")
		// A virtual function without a driver waits for a guest.
		if x.exists(devices, address, "driver") || x.exists(devices, address, "physfn") || !isForRDMA(x.read(devices, address, "class"), vendor, device) {
			continue
		}
		results = append(results, Result{Check: check, Subject: address, Status: Warn,
			Text: fmt.Sprintf("this network card (%s:%s) has no driver", strings.TrimPrefix(vendor, "0x"), strings.TrimPrefix(device, "0x")),
			Fix:  x.command(advice.LoadDriver, x.read(devices, address, "modalias"))})
	}
	return results
}

// isForRDMA reports whether a PCI function is certainly an RDMA device: an InfiniBand or fabric controller (classes
// 0207 and 0208 of the PCI specification), or a network card of a vendor or model that always supports RDMA (pci.ids).
func isForRDMA(class, vendor, device string) bool {
	const (
		network  = "0x02"
		mellanox = "0x15b3"
		amazon   = "0x1d0f"
		efa      = "0xefa"
	)
	switch {
	case strings.HasPrefix(class, "0x0207"), strings.HasPrefix(class, "0x0208"):
		return true
	case !strings.HasPrefix(class, network):
		return false
	}
	return vendor == mellanox || vendor == amazon && strings.HasPrefix(device, efa)
}

// reportNoDevice returns the result for a host on which the plugin would watch no device.
func (x *examination) reportNoDevice(check string) Result {
	r := Result{Check: check, Status: Warn, Text: "this host has no RDMA device"}
	if names, err := x.Sysfs.Devices(); err == nil && len(names) > 0 {
		r.Text = fmt.Sprintf("the configuration watches none of this host's devices: %s", strings.Join(names, ", "))
		r.Fix = x.editConfig()
		return r
	}
	r.Text += fmt.Sprintf("; `%s` shows simulated ones", advice.ShowDemo.Line())
	r.Fix = x.command(advice.ShowCards) // does the host have a card at all?
	return r
}
