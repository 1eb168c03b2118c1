package agent

import (
	"fmt"
	"slices"
	"strings"

	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
)

// expectedSection is the name of the TOML sections that are parsed into ExpectedConfig.
const expectedSection = "expected"

// ExpectedConfig is a section [[inputs.rdma_events.expected]]. It lists devices that must be present with all of their
// ports active.
type ExpectedConfig struct {
	Devices  []string `toml:"devices"`
	Count    int      `toml:"count"`     // 0: the number of names
	RateGbps float64  `toml:"rate_gbps"` // minimum of each port; 0: any rate
}

func (e *ExpectedConfig) options() []option {
	const want = `names of devices or globs on them, as in ["mlx5_[0-7]"]`
	areGlobs := allValid(&e.Devices, isGlob)
	return []option{
		{"expected.devices", &e.Devices, want, func() bool { return len(e.Devices) > 0 && areGlobs() }},
		{"expected.count", &e.Count, `a number from 1 to 1024`, intWithin(&e.Count, 0, 1024)},
		{"expected.rate_gbps", &e.RateGbps, `a number from 0 to 100000`, func() bool { return e.RateGbps >= 0 && e.RateGbps <= 100_000 }},
	}
}

// validate checks each value of the section, and then whether the values contradict each other or the options that
// select devices. wants is the filter of Config.DeviceFilter.
func (e *ExpectedConfig) validate(c *Config, wants func(device string) bool) error {
	for _, o := range e.options() {
		if !o.valid() {
			return notAllowed(o.key, o.target, o.want)
		}
	}
	names, globs := e.names(), e.globs()
	switch {
	case slices.ContainsFunc(names, func(device string) bool { return !wants(device) }):
		return notAllowed("expected.devices", &e.Devices, "only devices that devices, devices_exclude and ports let in")
	case slices.ContainsFunc(globs, func(glob string) bool { return excludesAll([]string{glob}, c.DevicesExclude) }):
		return notAllowed("expected.devices", &e.Devices, "globs of which devices_exclude leaves some devices")
	case len(globs) > 0 && e.Count == 0:
		return notAllowed("expected.count", &e.Count, "how many devices must match "+e.label())
	case len(globs) > 0 && e.Count < len(names):
		return notAllowed("expected.count", &e.Count, fmt.Sprintf("at least %d, because devices has so many names", len(names)))
	case len(globs) == 0 && e.Count != 0 && e.Count != len(names):
		return notAllowed("expected.count", &e.Count, fmt.Sprintf("none, or %d, because devices has so many names and no glob", len(names)))
	}
	return nil
}

// names returns the devices that the section lists by name, without duplicates.
func (e *ExpectedConfig) names() []string {
	var names []string
	for _, name := range e.Devices {
		if isDevice(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// globs returns the entries of the section that are globs.
func (e *ExpectedConfig) globs() []string {
	return slices.DeleteFunc(slices.Clone(e.Devices), isDevice)
}

// label returns the names and globs of the section as one text.
func (e *ExpectedConfig) label() string { return strings.Join(e.Devices, ", ") }

// matcher returns a function that reports whether the section matches a device. The section must have been validated.
func (e *ExpectedConfig) matcher() func(device string) bool {
	g, err := compileGlobs(e.Devices)
	return func(device string) bool { return err == nil && g.Match(device) }
}

// describe returns what the section requires, as text for people.
func (e *ExpectedConfig) describe() string {
	devices, ports := e.label(), ""
	if e.Count > 0 {
		devices = fmt.Sprintf("%d of %s", e.Count, devices)
	}
	if e.RateGbps > 0 {
		ports = fmt.Sprintf(" at %g Gbit/s or more", e.RateGbps)
	}
	return devices + ", with all ports active" + ports
}

// DescribeExpected returns one text for each section expected, with what it requires.
func (c *Config) DescribeExpected() []string {
	var all []string
	for i := range c.Expected {
		all = append(all, c.Expected[i].describe())
	}
	return all
}

// ExpectedNames returns the devices that the configuration requires by name: those of expect, and the names without a
// glob in the sections expected.
func (c *Config) ExpectedNames() []string {
	names := slices.Clone(c.Expect)
	for i := range c.Expected {
		for _, name := range c.Expected[i].names() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// expectedFunc returns a function that reports whether a device should be open: the configuration expects it, or m remembers that
// it was open.
func (c *Config) expectedFunc(device string, m *memory.Memory) func() bool {
	_, configured := c.expectationFunc()(device, 0)
	configured = configured || slices.Contains(c.Expect, device)
	return func() bool {
		return configured || slices.ContainsFunc(m.Devices(), func(r memory.Device) bool { return r.Name == device && r.Missed })
	}
}

// ExpectedRate returns the minimum rate in Gbit/s that the sections expected require of a port, or 0 if they require
// none.
func (c *Config) ExpectedRate(device string, port int) float64 {
	rateGbps, _ := c.expectationFunc()(device, port)
	return rateGbps
}

// expectationFunc returns a function that reports whether a section requires the ports of a device to be active, and
// the minimum rate that it requires (0: any rate). If several sections match the device, the highest rate applies.
func (c *Config) expectationFunc() func(device string, port int) (rateGbps float64, ok bool) {
	var matches []func(string) bool
	for i := range c.Expected {
		matches = append(matches, c.Expected[i].matcher())
	}
	return func(device string, _ int) (rateGbps float64, ok bool) {
		for i := range matches {
			if matches[i](device) {
				rateGbps, ok = max(rateGbps, c.Expected[i].RateGbps), true
			}
		}
		return rateGbps, ok
	}
}

// ExpectedGroups returns the sections that require a number of devices. A section without a glob is not among them,
// because each of its devices is reported by name if it is missing.
func (c *Config) ExpectedGroups() []monitor.Group {
	var all []monitor.Group
	for i := range c.Expected {
		if e := &c.Expected[i]; len(e.globs()) > 0 {
			all = append(all, monitor.Group{Label: e.label(), Matches: e.matcher(), Count: e.Count})
		}
	}
	return all
}

// expectedMismatches returns the mismatches of the sections expected. See Mismatches.
func (c *Config) expectedMismatches(found []verbs.Found) (all []string) {
	for i := range c.Expected {
		e := &c.Expected[i]
		here := map[string]bool{}
		for _, d := range found {
			here[d.Name] = c.Watches(d, found)
		}
		for _, name := range e.names() {
			all = append(all, c.missingExpected("expected", name, found)...)
		}
		if len(e.globs()) == 0 {
			continue
		}
		matches, n := e.matcher(), 0
		for name, watched := range here {
			if watched && matches(name) {
				n++
			}
		}
		if n < e.Count {
			all = append(all, fmt.Sprintf("expected: %d devices that are watched here match %s, and %d must be there", n, e.label(), e.Count))
		}
	}
	return all
}
