package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"rdma_events/internal/device/verbs"
)

// FindDevices returns the devices that are present now, sorted by name. They include devices that the configuration
// does not watch. It blocks until the discovery has reported or ctx ends; then the error wraps that of ctx.
func (c *Config) FindDevices(ctx context.Context) ([]verbs.Found, error) {
	found, err := c.newDiscovery(c.Request(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	var here []verbs.Found
	looked := false
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err = found.Run(ctx, func(devices []verbs.Found) {
		if looked {
			return
		}
		looked = true
		here = slices.Clone(devices)
		stop()
	})
	if looked {
		err = nil
	} else if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	slices.SortFunc(here, func(a, b verbs.Found) int { return strings.Compare(a.Name, b.Name) })
	return here, nil
}

// Watches reports whether the configuration watches a device. here lists all present devices, including this one. The
// configuration must have been checked.
func (c *Config) Watches(d verbs.Found, here []verbs.Found) bool {
	wants, err := c.DeviceFilter()
	return err == nil && wants(d.Name) && c.WatchedFunctions().Watches(d, here)
}

// WatchedFunctions returns which virtual and scalable functions the configuration watches.
func (c *Config) WatchedFunctions() verbs.VirtualFunctions {
	switch {
	case c.VirtualFunctions == nil:
		return verbs.VirtualAlone
	case *c.VirtualFunctions:
		return verbs.VirtualAll
	}
	return verbs.VirtualNone
}

// ExplainSkipped returns how many of the present devices are functions that virtual_functions excludes, and why, as
// text for people. It returns "" if there are none.
func (c *Config) ExplainSkipped(here []verbs.Found) string {
	wants, err := c.DeviceFilter()
	n := 0
	for _, d := range here {
		if err == nil && wants(d.Name) && !c.WatchedFunctions().Watches(d, here) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return c.WatchedFunctions().Explain(n)
}

// everyDevice is the default value of the option devices. It matches every device, so it is no mismatch on a host
// without devices.
const everyDevice = "*"

// Mismatches returns a text for each entry of the configuration that refers to a device, port or host that is not
// there. Each text names the option.
func (c *Config) Mismatches(found []verbs.Found) []string {
	var all, here []string
	for _, d := range found {
		here = append(here, d.Name)
	}
	for _, option := range []struct {
		name  string
		globs []string
	}{{"devices", c.Devices}, {"devices_exclude", c.DevicesExclude}} {
		for _, glob := range option.globs {
			g, err := compileGlobs([]string{glob})
			if err == nil && glob != everyDevice && !slices.ContainsFunc(here, g.Match) {
				all = append(all, fmt.Sprintf("%s: %q matches no device that is here now", option.name, glob))
			}
		}
	}
	for _, l := range c.Roles.roleLists() {
		for _, glob := range l.globs {
			devices, _, _ := splitPortGlob(glob)
			g, err := compileGlobs([]string{devices})
			if err == nil && devices != everyDevice && !slices.ContainsFunc(here, g.Match) {
				all = append(all, fmt.Sprintf("roles.%s: %q matches no device that is here now", l.role, glob))
			}
		}
	}
	for _, option := range []struct {
		name  string
		ports []string
	}{{"ports", c.Ports}, {"expected_down", c.ExpectedDown}} {
		for _, text := range option.ports {
			if device, _, ok := splitPort(text); ok && !slices.Contains(here, device) {
				all = append(all, fmt.Sprintf("%s: %s: %s is not here now", option.name, text, device))
			}
		}
	}
	for _, device := range c.Expect {
		all = append(all, c.missingExpected("expect", device, found)...)
	}
	return slices.Concat(all, c.expectedMismatches(found), c.fabricMismatches(found))
}

// PortMismatches returns a text for each port in ports and expected_down that its device does not have. portsOf returns the ports of a
// device, nil if they are unknown.
func (c *Config) PortMismatches(portsOf func(device string) []int) (all []string) {
	for _, option := range []struct {
		name  string
		ports []string
	}{{"ports", c.Ports}, {"expected_down", c.ExpectedDown}} {
		for _, text := range option.ports {
			device, port, ok := splitPort(text)
			if !ok {
				continue
			}
			if here := portsOf(device); len(here) > 0 && !slices.Contains(here, port) {
				all = append(all, fmt.Sprintf("%s: %s: %s has no port %d", option.name, text, device, port))
			}
		}
	}
	return all
}

// missingExpected returns a text if a device that an option expects is reported as missing.
func (c *Config) missingExpected(option, device string, found []verbs.Found) []string {
	i := slices.IndexFunc(found, func(d verbs.Found) bool { return d.Name == device })
	switch {
	case i < 0:
		return []string{fmt.Sprintf("%s: %s is not here now, so it is reported as missing", option, device)}
	case !c.Watches(found[i], found):
		return []string{fmt.Sprintf("%s: %s is here but not watched (see virtual_functions), so it is reported as missing", option, device)}
	}
	return nil
}

// fabricMismatches returns the mismatches of the section fabric. See Mismatches.
func (c *Config) fabricMismatches(found []verbs.Found) (all []string) {
	f := &c.Fabric
	if !f.Enabled() {
		return nil
	}
	for _, glob := range f.Devices {
		g, err := compileGlobs([]string{glob})
		if err == nil && glob != everyDevice && !slices.ContainsFunc(found, func(d verbs.Found) bool { return c.Watches(d, found) && g.Match(d.Name) }) {
			all = append(all, fmt.Sprintf("fabric.devices: %q matches no device that is watched here", glob))
		}
	}
	l, err := f.ReadPinglist()
	switch {
	case err != nil: // Check returns this error
	case l.Own.Group == "":
		all = append(all, fmt.Sprintf("fabric.peers_file: it has no host %q, so that this host neither probes others nor answers them; "+
			"add it, or set fabric.host to the name that it has there", l.Own.Name))
	case l.Hosts < 2:
		all = append(all, "fabric.peers_file: it lists no host but this one, so none is probed")
	}
	return all
}
