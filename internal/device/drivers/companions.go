package drivers

import (
	"slices"

	"rdma_events/internal/device/verbs"
)

// companionModules returns the modules that create the RDMA devices of network cards, by the driver of the card (drivers/infiniband in
// Linux 7.3).
func companionModules() map[string]string {
	return map[string]string{
		"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib", "ice": "irdma", "i40e": "irdma", "bnxt_en": "bnxt_re",
		"cxgb4": "iw_cxgb4", "qede": "qedr", "be2net": "ocrdma", "mana": "mana_ib", "ionic": "ionic_rdma",
		"hns3": "hns_roce_hw_v2", verbs.DriverScalable: "mlx5_ib",
	}
}

// Companion returns the module that creates the RDMA devices of a network card with a driver, "" if
// none is known.
func Companion(driver string) string { return companionModules()[driver] }

// WithCompanions returns the names of all drivers that Companion knows, and of the modules, sorted.
func WithCompanions() []string {
	var all []string
	for driver, module := range companionModules() {
		all = append(all, driver, module)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
