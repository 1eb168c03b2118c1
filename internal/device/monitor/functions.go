package monitor

import (
	"rdma_events/internal/device/verbs"
)

// functions holds the virtual and scalable functions that are present and not monitored because of Config.VirtualFunctions.
type functions struct {
	skipped map[string]bool // by name; without the functions that Config.Devices excludes
	// elsewhere has, by name, functions of other network namespaces that were never in this one: a pod sees the functions of all pods.
	elsewhere map[string]bool
	// parents has the physical functions, by PCI address, that have ever been visible. A driver that registers its devices again
	// removes them for a while; the plugin must not start to monitor all functions of the card then.
	parents map[string]bool
	logged  bool
}

// chooseFunctions decides which of the present functions are monitored. A function that is already monitored stays monitored until
// it is forgotten, even if its physical function appears later. The caller holds m.mu.
func (m *Monitor) chooseFunctions(found []verbs.Found) {
	c := &m.functions
	c.skipped, c.elsewhere = make(map[string]bool), make(map[string]bool)
	if c.parents == nil {
		c.parents = make(map[string]bool)
	}
	for _, f := range found {
		if !f.VirtualFunction && f.Netns != verbs.NetnsOther {
			c.parents[f.PCI] = true
		}
	}
	for _, f := range found {
		if !f.VirtualFunction || !m.cfg.Devices(f.Name) || m.isMonitored(f) {
			continue
		}
		if !m.cfg.VirtualFunctions.Watches(f, found) {
			c.parents[f.Parent] = true
		}
		switch {
		case m.cfg.VirtualFunctions == verbs.VirtualAll:
		case c.parents[f.Parent]:
			c.skipped[f.Name] = true
		case f.Netns == verbs.NetnsOther:
			c.elsewhere[f.Name] = true
		}
	}
	if n := len(c.skipped); n > 0 && !c.logged {
		m.cfg.Log.Info(m.cfg.VirtualFunctions.Explain(n))
		c.logged = true
	}
}

// isMonitored reports whether a virtual or scalable function is already monitored, perhaps under another name.
func (m *Monitor) isMonitored(f verbs.Found) bool {
	for _, d := range m.devices {
		known, seen := d.identity()
		if seen && known.VirtualFunction && (known.Same(f) || known.Name == f.Name && known.Parent == f.Parent) {
			return true
		}
	}
	return false
}
