package verbs

// DriverRaisesEvents reports whether a kernel driver, named as in DeviceAttr.Driver,
// raises asynchronous events at all. efa raises none (Linux 7.3,
// drivers/infiniband/hw/efa).
func DriverRaisesEvents(driver string) bool { return driver != "efa" }

// HandleIsCommand reports whether a kernel driver, named as in DeviceAttr.Driver,
// sends a command to the device to make an address handle on RoCE, and another to
// destroy it. bnxt_re, irdma and ionic do (Linux 7.3, their create_ah). So does efa,
// but it is left out: its address never changes, and its handle is kept.
func HandleIsCommand(driver string) bool {
	switch driver {
	case "bnxt_en", "bnxt_re", "ice", "i40e", "idpf", "irdma", "ionic":
		return true
	}
	return false
}
