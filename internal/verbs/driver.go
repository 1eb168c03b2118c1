package verbs

// DriverRaisesEvents reports whether a kernel driver, named as in DeviceAttr.Driver,
// raises asynchronous events at all. efa raises none (Linux 7.3,
// drivers/infiniband/hw/efa).
func DriverRaisesEvents(driver string) bool { return driver != "efa" }

// DriverReportsState reports whether the port state that a kernel driver, named as in
// DeviceAttr.Driver, answers depends on the link. efa answers active for as long as the
// device exists (Linux 7.3, efa_query_port in drivers/infiniband/hw/efa/efa_verbs.c). No
// network device can stand in: its ports name none, and the ENA device of the same
// interface is another PCI function, which the kernel does not associate with it.
func DriverReportsState(driver string) bool { return driver != "efa" }

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

// CommandsOf returns the calls that are commands to the device with a kernel driver, named
// as in DeviceAttr.Driver (Linux 6.12; 7.3 for mana and ionic). Not all of a driver's
// devices have files in hw_counters. bnxt_re's hw_counters are left out: after one failure
// its driver never asks the device for them again, and reading them goes on to succeed. A
// driver that is not known has none.
func CommandsOf(driver string) CommandSet {
	switch driver {
	case "mlx5_core", "mlx5_ib", "mlx4_core", "mlx4_ib":
		return NewCommandSet(CommandHWCounters, CommandQueryPort, CommandQueryQP)
	case "efa", "hns3", "hns_roce_hw_v2", "hns", "erdma", "ionic":
		return NewCommandSet(CommandHWCounters, CommandQueryQP)
	case "ice", "i40e", "idpf", "irdma", "mana":
		return NewCommandSet(CommandHWCounters)
	case "ib_mthca", "vmw_pvrdma":
		return NewCommandSet(CommandQueryPort, CommandQueryQP)
	case "bnxt_en", "bnxt_re", "qede", "qedr":
		return NewCommandSet(CommandQueryQP)
	}
	return 0
}
