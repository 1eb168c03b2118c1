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
	WakeP99   int64       // ns, the greatest; 0: no event came
	Stuck     int64       // commands
	Apps      *HostApps   // nil: there is no tracer
	Fabric    *HostFabric // nil: hosts are not probed
	At        time.Time
}

// HostTotals are sums of counters over all present and former devices. No sum decreases
// when a device is renamed or forgotten.
type HostTotals struct {
	Flaps             uint64
	MissedTransitions uint64
	LostEvents        uint64
	LostCompletions   uint64
	Errors            uint64
	GIDMoves          uint64
}

// HostApps are sums over all applications of the host. Errors does not decrease when a series is forgotten.
type HostApps struct {
	Errors       uint64 // events queued that are errors
	Hangs        int64  // threads
	UnreadErrors uint64 // that wait now, for however short a time: only the record and the alert about one application wait first
	Attached     bool   // UnreadErrors is known
}

// HostFabric are sums over all ports of the host whose fabric is probed.
type HostFabric struct {
	PairsBad   int64
	PortsBad   int64
	PairsUnmet int64
}

// Add adds the values of a point of one interval. A point without the method addTo adds nothing.
func (h *Host) Add(p Point) {
	if p, ok := p.(interface{ addTo(h *Host) }); ok {
		p.addTo(h)
	}
}

// Key implements Point.
func (*Host) Key() Key { return Key{Measurement: hosts.Name} }

// Time implements Point.
func (h *Host) Time() time.Time { return h.At }

// Merge implements Point: the later one replaces this.
func (h *Host) Merge(later Point) { *h = *later.(*Host) }

// Clone implements Point.
func (h *Host) Clone() Point { return clone(h) }

// Events implements Point.
func (*Host) Events() uint64 { return 0 }

// Lines implements Point.
func (h *Host) Lines(add func(Line)) { add(hosts.line(h)) }

var hosts = table[Host]{
	Metric: Metric{
		Name:    "rdma_host",
		Emitted: everyInterval,
		Description: "The devices of the host together, for questions about many hosts: a database has one series " +
			"of a host to read instead of all of its devices'. Only where there is a device, or one is expected. " +
			"Its counters keep those of devices that were renamed or are gone.",
	},
	fields: []field[Host]{
		integer("devices_missing", "", "devices that are not there and were, or are expected; not those renamed, reassigned, deleted or released",
			func(v *Host) int64 { return v.Missing }),
		integer("devices_unwatched", "", "devices that are there and that no worker has open; not those released, in another network namespace or unwatchable",
			func(v *Host) int64 { return v.Unwatched }),
		integer("ports_down", "", "ports that should be active (expected_up) and are not, as far as their state is known",
			func(v *Host) int64 { return v.PortsDown }),
		counter("flaps", "sum of rdma_port.flaps", func(v *Host) uint64 { return v.Flaps }),
		counter("missed_transitions", "sum of rdma_port.missed_transitions",
			func(v *Host) uint64 { return v.MissedTransitions }),
		integer("unacked", "", "sum of unacked in rdma_async and rdma_cq_probe", func(v *Host) int64 { return clip(v.Unacked) }),
		counter("lost_events", "sum of rdma_cq_probe.lost_events", func(v *Host) uint64 { return v.LostEvents }),
		counter("lost_completions", "sum of rdma_cq_probe.lost_completions",
			func(v *Host) uint64 { return v.LostCompletions }),
		counter("errors", "sum of rdma_cq_probe.errors", func(v *Host) uint64 { return v.Errors }),
		counter("gid_moves", "sum of rdma_port.gid_moves", func(v *Host) uint64 { return v.GIDMoves }),
		integer("commands_stuck", "", "series of rdma_command whose stuck is 1", func(v *Host) int64 { return v.Stuck }),
		maybe("wake_ns_p99", "ns", "the greatest rdma_cq_probe.wake_ns_p99",
			func(v *Host) (int64, bool) { return v.WakeP99, v.WakeP99 > 0 }),
		cumulative(ofApps("app_errors", "errors in rdma_app_async.queued, of all applications so far",
			func(a *HostApps) (int64, bool) { return clip(a.Errors), true })),
		ofApps("app_hangs", "sum of rdma_app_hang.threads", func(a *HostApps) (int64, bool) { return a.Hangs, true }),
		ofApps("app_unread_errors", "sum of rdma_app_async.unread_errors",
			func(a *HostApps) (int64, bool) { return clip(a.UnreadErrors), a.Attached }),
		ofFabric("fabric_pairs_bad", "sum of rdma_fabric_port.pairs_bad", func(f *HostFabric) int64 { return f.PairsBad }),
		ofFabric("fabric_ports_bad", "sum of rdma_fabric_port.bad", func(f *HostFabric) int64 { return f.PortsBad }),
		ofFabric("fabric_pairs_unmet", "rdma_fabric_port.pairs without pairs_met, of all ports", func(f *HostFabric) int64 { return f.PairsUnmet }),
	},
}

// ofFabric returns a field that is there with fabric.peers_file only.
func ofFabric(name, description string, value func(*HostFabric) int64) field[Host] {
	return maybe(name, "", description+"; with fabric.peers_file", func(v *Host) (int64, bool) {
		if v.Fabric == nil {
			return 0, false
		}
		return value(v.Fabric), true
	})
}

// ofApps returns a field that is there with applications.events only.
func ofApps(name, description string, value func(*HostApps) (int64, bool)) field[Host] {
	return maybe(name, "", description+"; with applications.events", func(v *Host) (int64, bool) {
		if v.Apps == nil {
			return 0, false
		}
		return value(v.Apps)
	})
}
