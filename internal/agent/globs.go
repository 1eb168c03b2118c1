package agent

import (
	"slices"
	"strings"

	"github.com/gobwas/glob"
)

// patterns are compiled globs on device names.
type patterns []glob.Glob

// compile compiles globs. Not even ** matches a slash, which no device name has.
func compile(globs []string) (patterns, error) {
	var all patterns
	for _, text := range globs {
		g, err := glob.Compile(text, '/')
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// Match reports whether one of the globs matches the name.
func (p patterns) Match(name string) bool {
	return slices.ContainsFunc(p, func(g glob.Glob) bool { return g.Match(name) })
}

// excludesAll reports whether each of globs is among the excluded ones, or is covered by
// one that is simple enough to compare. An empty list of globs means all devices.
func excludesAll(globs, excluded []string) bool {
	if len(globs) == 0 {
		globs = []string{"*"}
	}
	return !slices.ContainsFunc(globs, func(text string) bool {
		return !slices.ContainsFunc(excluded, func(by string) bool { return covers(by, text) })
	})
}

// covers reports whether the glob by matches every name that the glob other matches. If neither has
// a special character but *, it does so when it matches the text of other. For any other globs
// covers cannot decide and returns false, unless both are equal.
func covers(by, other string) bool {
	if by == other || strings.Trim(by, "*") == "" {
		return true
	}
	p, err := compile([]string{by})
	return err == nil && !strings.ContainsAny(by+other, `?[]{}!\`) && p.Match(other)
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
