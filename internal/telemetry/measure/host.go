package measure

import (
	"time"
)

// Host is the point of rdma_host.
type Host struct {
	HostTotals
	Missing   int64
	Unwatched int64
	PortsDown int64
	Unacked   uint64
	WakeP99   int64       // ns, maximum of all probes; 0: no event came
	Stuck     int64       // stuck commands
	Apps      *HostApps   // nil: there is no tracer
	Fabric    *HostFabric // nil: the plugin does not probe other hosts
	At        time.Time
}

// HostTotals holds sums of counters over all present and former devices. The sums do not
// decrease when a device is renamed or forgotten.
type HostTotals struct {
	Flaps             uint64
	MissedTransitions uint64
	LostEvents        uint64
	LostCompletions   uint64
	Errors            uint64
	GIDMoves          uint64
}

// HostApps holds sums over all applications of the host. Errors does not decrease when a series is forgotten.
type HostApps struct {
	Errors       uint64 // queued events that are errors
	Hangs        int64  // hanging threads
	UnreadErrors uint64 // all unread errors, even if unread only briefly; the record and the alert about one application wait first
	Attached     bool   // UnreadErrors is known
}

// HostFabric holds sums over all ports of the host that probe other hosts.
type HostFabric struct {
	PairsBad   int64
	PortsBad   int64
	PairsUnmet int64
}

// Add adds the values of a point of one interval. A point type without the method addTo has no sum in Host.
func (h *Host) Add(p Point) {
	if p, ok := p.(interface{ addTo(h *Host) }); ok {
		p.addTo(h)
	}
}

// Key implements Point.
func (*Host) Key() Key { return Key{Measurement: hostTable.Name} }

// Time implements Point.
func (h *Host) Time() time.Time { return h.At }

// Merge implements Point. The later point replaces this one.
func (h *Host) Merge(later Point) { *h = *later.(*Host) }

// Clone implements Point.
func (h *Host) Clone() Point { return clone(h) }

// Events implements Point.
func (*Host) Events() uint64 { return 0 }

// Lines implements Point.
func (h *Host) Lines(add func(Line)) { add(hostTable.line(h)) }

var hostTable = table[Host]{
	Metric: Metric{
		Name:    "rdma_host",
		Emitted: everyInterval,
		Description: "Sums over all devices of the host. They serve queries about many hosts, which then read one series per host " +
			"instead of the series of all devices. Only if the host has a device or one is expected. The counters include the " +
			"counts of devices that were renamed or removed.",
	},
	fields: []field[Host]{
		requiredInt("devices_missing", "", "devices that are not present but were, or are expected; not devices that were renamed, reassigned, deleted or released",
			func(v *Host) int64 { return v.Missing }),
		requiredInt("devices_unwatched", "", "devices that are present but not open; not devices that are released, in another network namespace or unwatchable",
			func(v *Host) int64 { return v.Unwatched }),
		requiredInt("ports_down", "", "ports that should be active (expected_up) and are known not to be",
			func(v *Host) int64 { return v.PortsDown }),
		counter("flaps", "sum of rdma_port.flaps", func(v *Host) uint64 { return v.Flaps }),
		counter("missed_transitions", "sum of rdma_port.missed_transitions",
			func(v *Host) uint64 { return v.MissedTransitions }),
		requiredInt("unacked", "", "sum of unacked in rdma_async and rdma_cq_probe", func(v *Host) int64 { return clampToInt64(v.Unacked) }),
		counter("lost_events", "sum of rdma_cq_probe.lost_events", func(v *Host) uint64 { return v.LostEvents }),
		counter("lost_completions", "sum of rdma_cq_probe.lost_completions",
			func(v *Host) uint64 { return v.LostCompletions }),
		counter("errors", "sum of rdma_cq_probe.errors", func(v *Host) uint64 { return v.Errors }),
		counter("gid_moves", "sum of rdma_port.gid_moves", func(v *Host) uint64 { return v.GIDMoves }),
		requiredInt("commands_stuck", "", "series of rdma_command with stuck = 1", func(v *Host) int64 { return v.Stuck }),
		optionalInt("wake_ns_p99", "ns", "maximum of rdma_cq_probe.wake_ns_p99",
			func(v *Host) (int64, bool) { return v.WakeP99, v.WakeP99 > 0 }),
		markCumulative(appsField("app_errors", "errors counted in rdma_app_async.queued, over all applications so far",
			func(a *HostApps) (int64, bool) { return clampToInt64(a.Errors), true })),
		appsField("app_hangs", "sum of rdma_app_hang.threads", func(a *HostApps) (int64, bool) { return a.Hangs, true }),
		appsField("app_unread_errors", "sum of rdma_app_async.unread_errors",
			func(a *HostApps) (int64, bool) { return clampToInt64(a.UnreadErrors), a.Attached }),
		fabricField("fabric_pairs_bad", "sum of rdma_fabric_port.pairs_bad", func(f *HostFabric) int64 { return f.PairsBad }),
		fabricField("fabric_ports_bad", "sum of rdma_fabric_port.bad", func(f *HostFabric) int64 { return f.PortsBad }),
		fabricField("fabric_pairs_unmet", "sum of pairs minus pairs_met in rdma_fabric_port", func(f *HostFabric) int64 { return f.PairsUnmet }),
	},
}

// fabricField returns a field that is present only with fabric.peers_file.
func fabricField(name, description string, value func(*HostFabric) int64) field[Host] {
	return optionalInt(name, "", description+"; only with fabric.peers_file", func(v *Host) (int64, bool) {
		if v.Fabric == nil {
			return 0, false
		}
		return value(v.Fabric), true
	})
}

// appsField returns a field that is present only with applications.events.
func appsField(name, description string, value func(*HostApps) (int64, bool)) field[Host] {
	return optionalInt(name, "", description+"; only with applications.events", func(v *Host) (int64, bool) {
		if v.Apps == nil {
			return 0, false
		}
		return value(v.Apps)
	})
}
