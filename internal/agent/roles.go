package agent

import (
	"slices"
	"strconv"
	"strings"

	"rdma_events/internal/device/verbs"
)

// RolesConfig is [inputs.rdma_events.roles]. Each entry is a glob on device names, with or without a port.
type RolesConfig struct {
	Compute    []string `toml:"compute"`
	Storage    []string `toml:"storage"`
	Management []string `toml:"management"`
}

func (c *RolesConfig) options() []option {
	const want = `a list of globs on device names, with or without a port, as in ["mlx5_[0-7]", "mlx5_8:1"]`
	return []option{
		{"roles.compute", &c.Compute, want, allValid(&c.Compute, isPortGlob)},
		{"roles.storage", &c.Storage, want, allValid(&c.Storage, isPortGlob)},
		{"roles.management", &c.Management, want, allValid(&c.Management, isPortGlob)},
	}
}

// roleLists returns the list of each role, in order of precedence.
func (c *RolesConfig) roleLists() []roleList {
	return []roleList{{verbs.RoleCompute, c.Compute}, {verbs.RoleStorage, c.Storage}, {verbs.RoleManagement, c.Management}}
}

type roleList struct {
	role  string
	globs []string
}

// Role returns the configured role of a port, or "" if it has none. If several lists match, the first one applies.
func (c *RolesConfig) Role(device string, port int) string {
	for _, l := range c.roleLists() {
		if slices.ContainsFunc(l.globs, func(glob string) bool { return matchesPort(glob, device, port) }) {
			return l.role
		}
	}
	return ""
}

// splitPortGlob splits a glob with an optional port, as in "mlx5_*:1". Port 0 stands for all ports.
func splitPortGlob(glob string) (devices string, port int, ok bool) {
	devices, number, has := strings.Cut(glob, ":")
	if !has {
		return glob, 0, true
	}
	n, err := strconv.ParseUint(number, 10, 8)
	return devices, int(n), err == nil && n > 0
}

func isPortGlob(glob string) bool {
	devices, _, ok := splitPortGlob(glob)
	return ok && isGlob(devices)
}

func matchesPort(glob, device string, port int) bool {
	devices, number, ok := splitPortGlob(glob)
	if !ok || number != 0 && number != port {
		return false
	}
	g, err := compileGlobs([]string{devices})
	return err == nil && g.Match(device)
}
