package verbs

import "strings"

// DriverScalable is the driver of the scalable functions of mlx5. A driver on the auxiliary bus is named after its module, here
// mlx5_core (auxiliary_driver_register in include/linux/auxiliary_bus.h; mlx5_sf_driver in
// drivers/net/ethernet/mellanox/mlx5/core/sf/dev/driver.c). The RDMA device above it is that of mlx5_ib, as with any other function.
const DriverScalable = "mlx5_core.sf"

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

// HandleCommands returns how many commands to the device it costs to make an address handle
// on RoCE and to destroy it, with a kernel driver that is named as in DeviceAttr.Driver.
// bnxt_re, irdma and ionic send one for each (Linux 7.3, their create_ah). The library of
// vmw_pvrdma asks for the port before it makes a handle (rdma-core 65, pvrdma_create_ah in
// providers/vmw_pvrdma/verbs.c). The libraries of mlx5 and mlx4 do so only as long as no query
// of the port has succeeded, which the open of the device and the plugin's first look make
// (mlx5_create_ah in providers/mlx5/verbs.c, query_port_cache in providers/mlx4/verbs.c). efa
// sends commands too and is left out: its address never changes, and its handle is kept.
func HandleCommands(driver string) int {
	switch driver {
	case "bnxt_en", "bnxt_re", "ice", "i40e", "idpf", "irdma", "ionic":
		return 2
	case "vmw_pvrdma":
		return 1
	}
	return 0
}

// HandleIsCommand reports whether an address handle on RoCE costs commands (HandleCommands).
func HandleIsCommand(driver string) bool { return HandleCommands(driver) > 0 }

// CommandsOf returns the calls that are commands to the device with a kernel driver, named
// as in DeviceAttr.Driver (Linux 6.12; 7.3 for mana and ionic). Not all of a driver's
// devices have files in hw_counters. bnxt_re's hw_counters are left out: after one failure
// its driver never asks the device for them again, and reading them goes on to succeed. A
// driver that is not known has none.
func CommandsOf(driver string) CommandSet {
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

// ProviderOf returns the name of the provider of libibverbs for a kernel driver, named as in
// DeviceAttr.Driver: its library is lib<name>-rdmav<ABI>.so (rdma-core, providers/). The table has
// the drivers whose provider has another name.
func ProviderOf(driver string) string {
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
