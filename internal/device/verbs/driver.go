package verbs

import "strings"

// DriverScalable is the name of the driver of mlx5's scalable functions. The kernel names a driver on the auxiliary bus after
// its module, here mlx5_core (auxiliary_driver_register in include/linux/auxiliary_bus.h; mlx5_sf_driver in
// drivers/net/ethernet/mellanox/mlx5/core/sf/dev/driver.c). mlx5_ib provides the RDMA device, as for any other function.
const DriverScalable = "mlx5_core.sf"

// DriverRaisesEvents reports whether a kernel driver, named as in DeviceAttr.Driver,
// raises asynchronous events at all. efa raises none (Linux 7.3,
// drivers/infiniband/hw/efa).
func DriverRaisesEvents(driver string) bool { return driver != "efa" }

// DriverReportsState reports whether the port state that a kernel driver returns depends on
// the link. The driver is named as in DeviceAttr.Driver. efa reports active for as long as the
// device exists (Linux 7.3, efa_query_port in drivers/infiniband/hw/efa/efa_verbs.c). No
// network device can be used instead: the ports of efa name none, and the ENA device of the
// same interface is another PCI function, which the kernel does not associate with it.
func DriverReportsState(driver string) bool { return driver != "efa" }

// AddressHandleCommands returns how many firmware commands it takes to create an address handle
// on RoCE and to destroy it. The kernel driver is named as in DeviceAttr.Driver. bnxt_re, irdma
// and ionic send one command for each (Linux 7.3, their create_ah). The library of vmw_pvrdma
// queries the port before it creates a handle (rdma-core 65, pvrdma_create_ah in
// providers/vmw_pvrdma/verbs.c). The libraries of mlx5 and mlx4 do so only until a query of the
// port has succeeded; opening the device and the plugin's first query take care of that
// (mlx5_create_ah in providers/mlx5/verbs.c, query_port_cache in providers/mlx4/verbs.c). efa
// sends commands too but counts as 0: its address never changes, so its handle is kept.
func AddressHandleCommands(driver string) int {
	switch driver {
	case "bnxt_en", "bnxt_re", "ice", "i40e", "idpf", "irdma", "ionic":
		return 2
	case "vmw_pvrdma":
		return 1
	}
	return 0
}

// AddressHandleIsCommand reports whether an address handle on RoCE takes firmware commands, see AddressHandleCommands.
func AddressHandleIsCommand(driver string) bool { return AddressHandleCommands(driver) > 0 }

// DriverCommands returns the calls that a kernel driver, named as in DeviceAttr.Driver, turns
// into firmware commands (Linux 6.12; 7.3 for mana and ionic). Not all devices of a driver
// have files in hw_counters. bnxt_re's hw_counters are not included: after one failed command
// its driver never asks the device for them again, and later reads succeed all the same. The
// set is empty for an unknown driver.
func DriverCommands(driver string) CommandSet {
	switch driver {
	case "mlx5_core", DriverScalable, "mlx5_ib", "mlx4_core", "mlx4_ib":
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

// ProviderName returns the name of libibverbs' provider for a kernel driver, which is named as in
// DeviceAttr.Driver. The provider's library is lib<name>-rdmav<ABI>.so (rdma-core, providers/). The
// table lists the drivers whose provider has another name.
func ProviderName(driver string) string {
	others := map[string]string{
		"rdma_rxe": "rxe", "ice": "irdma", "i40e": "irdma", "bnxt_en": "bnxt_re", "qede": "qedr", "be2net": "ocrdma",
		"hns3": "hns", "hfi1": "hfi1verbs", "ib_qib": "ipathverbs", "ib_mthca": "mthca", "iw_cxgb4": "cxgb4",
		"mlx5_ib": "mlx5", "mlx4_ib": "mlx4", DriverScalable: "mlx5",
	}
	if name, ok := others[driver]; ok {
		return name
	}
	return strings.TrimSuffix(driver, "_core")
}
