package measure

import (
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// host is what rdma_host is made from: the sums over a snapshot.
type host struct {
	HostTotals
	missing, unwatched, portsDown int64

	unacked uint64
	wakeP99 int64 // the greatest; 0 none
}

func hostMetric() table[host] {
	type view = host
	return table[view]{
		Metric: Metric{
			Name:    "rdma_host",
			Emitted: everyInterval,
			Description: "The devices of the host together, for questions about many hosts: a database has one series " +
				"of a host to read instead of all of its devices'. Only where there is a device, or one is expected. " +
				"Its counters keep those of devices that were renamed or are gone.",
		},
		fields: []field[view]{
			integer("devices_missing", "", "devices that are not there and were, or are expected; not those renamed or reassigned",
				func(v *view) int64 { return v.missing }),
			integer("devices_unwatched", "", "devices that are there and that no worker has open",
				func(v *view) int64 { return v.unwatched }),
			integer("ports_down", "", "ports whose state is known and not active, but for those of expected_down",
				func(v *view) int64 { return v.portsDown }),
			counter("flaps", "sum of rdma_port.flaps", func(v *view) uint64 { return v.Flaps }),
			counter("missed_transitions", "sum of rdma_port.missed_transitions",
				func(v *view) uint64 { return v.MissedTransitions }),
			counter("unacked", "sum of unacked in rdma_async and rdma_cq_probe", func(v *view) uint64 { return v.unacked }),
			counter("lost_events", "sum of rdma_cq_probe.lost_events", func(v *view) uint64 { return v.LostEvents }),
			counter("lost_completions", "sum of rdma_cq_probe.lost_completions",
				func(v *view) uint64 { return v.LostCompletions }),
			counter("errors", "sum of rdma_cq_probe.errors", func(v *view) uint64 { return v.Errors }),
			maybe("wake_ns_p99", "ns", "the greatest rdma_cq_probe.wake_ns_p99",
				func(v *view) (int64, bool) { return v.wakeP99, v.wakeP99 > 0 }),
		},
	}
}

// sum makes the view of a host.
func sum(s *Snapshot) host {
	h := host{HostTotals: s.Totals}
	for i := range s.Devices {
		d := &s.Devices[i]
		switch {
		case !d.Present && d.Reason != status.ReasonRenamed && d.Reason != status.ReasonReassigned:
			h.missing++
		case d.Present && !d.Open:
			h.unwatched++
		}
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Known && p.HasState && p.State != verbs.PortActive && !p.Expected {
			h.portsDown++
		}
	}
	for i := range s.Async {
		h.unacked += s.Async[i].Unacked
	}
	for i := range s.Probes {
		p := &s.Probes[i]
		h.unacked += p.Unacked
		h.wakeP99 = max(h.wakeP99, p.WakeP.P99)
	}
	return h
}
