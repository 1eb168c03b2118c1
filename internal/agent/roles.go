package agent

import (
	"slices"
	"strconv"
	"strings"

	"rdma_events/internal/device/verbs"
)

// RolesConfig is [inputs.rdma_events.roles]: globs of devices, each with or without a port.
type RolesConfig struct {
	Compute    []string `toml:"compute"`
	Storage    []string `toml:"storage"`
	Management []string `toml:"management"`
}

func (c *RolesConfig) options() []option {
	const want = `a list of globs on device names, with or without a port, as in ["mlx5_[0-7]", "mlx5_8:1"]`
	return []option{
		{"roles.compute", &c.Compute, want, each(&c.Compute, isPortGlob)},
		{"roles.storage", &c.Storage, want, each(&c.Storage, isPortGlob)},
		{"roles.management", &c.Management, want, each(&c.Management, isPortGlob)},
	}
}

// lists returns the lists by their roles, in the order in which they count.
func (c *RolesConfig) lists() []roleList {
	return []roleList{{verbs.RoleCompute, c.Compute}, {verbs.RoleStorage, c.Storage}, {verbs.RoleManagement, c.Management}}
}

type roleList struct {
	role  string
	globs []string
}

// Role returns the role that the configuration gives a port, "" if it gives none. The first list that has the port counts.
func (c *RolesConfig) Role(device string, port int) string {
	for _, l := range c.lists() {
		if slices.ContainsFunc(l.globs, func(glob string) bool { return matchesPort(glob, device, port) }) {
			return l.role
		}
	}
	return ""
}

// cutPort cuts a glob with a port, as in "mlx5_*:1". Port 0 stands for all ports.
func cutPort(glob string) (devices string, port int, ok bool) {
	devices, number, has := strings.Cut(glob, ":")
	if !has {
		return glob, 0, true
	}
	n, err := strconv.ParseUint(number, 10, 8)
	return devices, int(n), err == nil && n > 0
}

func isPortGlob(glob string) bool {
	devices, _, ok := cutPort(glob)
	return ok && isGlob(devices)
}

func matchesPort(glob, device string, port int) bool {
	devices, number, ok := cutPort(glob)
	if !ok || number != 0 && number != port {
		return false
	}
	g, err := compile([]string{devices})
	return err == nil && g.Match(device)
}
