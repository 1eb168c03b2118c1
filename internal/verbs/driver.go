package verbs

// DriverRaisesEvents reports whether a kernel driver, named as in
// DeviceAttr.Driver, raises asynchronous events at all. efa dispatches none
// (Linux 7.3, drivers/infiniband/hw/efa).
func DriverRaisesEvents(driver string) bool { return driver != "efa" }

// HandleIsCommand reports whether a kernel driver, named as in DeviceAttr.Driver,
// executes a command of the device to make an address handle on RoCE, and another
// to destroy it: bnxt_re, irdma and ionic (Linux 7.3, their create_ah). So does efa,
// whose address never changes and whose handle is kept.
func HandleIsCommand(driver string) bool {
	switch driver {
	case "bnxt_en", "bnxt_re", "ice", "i40e", "idpf", "irdma", "ionic":
		return true
	}
	return false
}
