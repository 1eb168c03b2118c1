package rdma_events

import (
	"slices"
	"strings"
)

// excludesAll reports whether each of globs is among the excluded ones, or is covered by
// one that is simple enough to compare. An empty list of globs means all devices.
func excludesAll(globs, excluded []string) bool {
	if len(globs) == 0 {
		globs = []string{"*"}
	}
	return !slices.ContainsFunc(globs, func(glob string) bool {
		return !slices.ContainsFunc(excluded, func(by string) bool { return covers(by, glob) })
	})
}

// covers reports whether the glob by matches every name that glob matches. If neither has
// a special character other than *, it does so when it matches the text of glob. For
// other globs covers cannot decide and returns false, unless both are equal.
func covers(by, glob string) bool {
	if by == glob || strings.Trim(by, "*") == "" {
		return true
	}
	f, err := compile([]string{by})
	return err == nil && f != nil && !strings.ContainsAny(by+glob, `?[]{}!\`) && f.Match(glob)
}

// lacksIndex reports whether a name is only that of a driver, as in "mlx5" or "mlx5_". The
// kernel appends a number to it, so no device has that name. Any other name without a
// number may have been given by an administrator (rdma-dev(8)).
func lacksIndex(name string) bool {
	return slices.Contains(drivers(), strings.TrimSuffix(name, "_"))
}

// drivers returns the names that the kernel's drivers give their devices: the text before
// %d, or _%d, in their calls of ib_register_device. rxe and siw are not among them: an
// administrator names their devices.
func drivers() []string {
	return []string{
		"bnxt_re", "cxgb4", "efa", "erdma", "hfi1", "hns", "i40iw", "ionic", "irdma", "mana", "mlx4", "mlx5", "mlx5_bond",
		"mthca", "ocrdma", "qedr", "qib", "usnic", "vmw_pvrdma",
	}
}
