package agent

import (
	"slices"
	"strings"

	"github.com/gobwas/glob"
)

// patterns are compiled globs on device names.
type patterns []glob.Glob

// compileGlobs compiles globs. No glob matches a slash, not even **, because no device name contains one.
func compileGlobs(globs []string) (patterns, error) {
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

// Match reports whether at least one of the globs matches the name.
func (p patterns) Match(name string) bool {
	return slices.ContainsFunc(p, func(g glob.Glob) bool { return g.Match(name) })
}

// excludesAll reports whether the excluded globs leave no device of globs. It decides this only for globs that are
// simple enough to compare, and returns false for others. An empty list of globs stands for all devices.
func excludesAll(globs, excluded []string) bool {
	if len(globs) == 0 {
		globs = []string{"*"}
	}
	return !slices.ContainsFunc(globs, func(text string) bool {
		return !slices.ContainsFunc(excluded, func(by string) bool { return globCovers(by, text) })
	})
}

// globCovers reports whether the glob by matches every name that the glob other matches. If neither has a special character except *, it
// matches by against the text of other. For all other globs it returns false unless both are equal.
func globCovers(by, other string) bool {
	if by == other || strings.Trim(by, "*") == "" {
		return true
	}
	p, err := compileGlobs([]string{by})
	return err == nil && !strings.ContainsAny(by+other, `?[]{}!\`) && p.Match(other)
}

// lacksIndex reports whether a name is the bare name of a driver, as in "mlx5" or "mlx5_". No device has such a name,
// because the kernel appends a number. Any other name without a number may have been given by an administrator
// (rdma-dev(8)).
func lacksIndex(name string) bool {
	return slices.Contains(driverNames(), strings.TrimSuffix(name, "_"))
}

// driverNames returns the prefixes of the names that the kernel's drivers give their devices: the text before %d or _%d
// in their calls of ib_register_device. rxe and siw are not among them, because an administrator names their devices.
func driverNames() []string {
	return []string{
		"bnxt_re", "cxgb4", "efa", "erdma", "hfi1", "hns", "i40iw", "ionic", "irdma", "mana", "mlx4", "mlx5", "mlx5_bond",
		"mthca", "ocrdma", "qedr", "qib", "usnic", "vmw_pvrdma",
	}
}
