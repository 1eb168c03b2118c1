package doctor

// checkPCILinks compares the PCIe link of each device with the best link that both of its ends support. Devices that do
// not show their link, as in a virtual machine, get no result.
func checkPCILinks(x *examination) []Result {
	const name = "pcie_link"
	var results []Result
	for i := range x.devices {
		d := &x.devices[i]
		link := x.Sysfs.PCILink(d.PCIAddress)
		switch {
		case d.VirtualFunction || !link.Known():
		case link.Degraded():
			results = append(results, Result{Check: name, Subject: d.Name, Status: Warn,
				Text: link.String() + ", which both ends support; look at the slot, the riser and the BIOS, and reseat the card"})
		default:
			results = append(results, Result{Check: name, Subject: d.Name, Text: link.String() + ", as both ends support"})
		}
	}
	return results
}
