package rdma_events

import (
	"slices"
	"strings"
)

// excludesAll reports whether each of some globs stands among those to exclude,
// or is covered by one that is simple enough to judge. An empty list of globs to
// take is all devices.
func excludesAll(globs, excluded []string) bool {
	if len(globs) == 0 {
		globs = []string{"*"}
	}
	return !slices.ContainsFunc(globs, func(glob string) bool {
		return !slices.ContainsFunc(excluded, func(by string) bool { return covers(by, glob) })
	})
}

// covers reports whether a glob takes whatever another one takes. Where both
// have no other special character than *, it does when it takes the other's
// text; of the others it knows too little and says no.
func covers(by, glob string) bool {
	if by == glob || strings.Trim(by, "*") == "" {
		return true
	}
	f, err := compile([]string{by})
	return err == nil && f != nil && !strings.ContainsAny(by+glob, `?[]{}!\`) && f.Match(glob)
}

// lacksIndex reports whether a name is that of a driver, as in "mlx5" or
// "mlx5_": the kernel puts a number behind it, so that no device is named so. A
// name without a number that is no driver's may have been given by an
// administrator (rdma-dev(8)).
func lacksIndex(name string) bool {
	return slices.Contains(drivers(), strings.TrimSuffix(name, "_"))
}

// drivers are what the kernel's drivers name their devices by: what stands
// before %d, or _%d, in their calls of ib_register_device. Those of rxe and siw
// have the name that an administrator gives them.
func drivers() []string {
	return []string{
		"bnxt_re", "cxgb4", "efa", "erdma", "hfi1", "hns", "i40iw", "ionic", "irdma", "mana", "mlx4", "mlx5", "mlx5_bond",
		"mthca", "ocrdma", "qedr", "qib", "usnic", "vmw_pvrdma",
	}
}
