package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
)

// Probe is a point of rdma_cq_probe.
type Probe struct {
	Device string
	verbs.ProbeKey
	Role       string // verbs.RoleManagement if the port has this role, else ""
	Counts     ledger.ProbeCounts
	Unacked    uint64
	Released   uint64
	EventsRate float64
	OK         bool
	HasOK      bool   // a round has ended since the device was opened, and it is open
	Status     string // the last error; "" none yet

	// Of the interval just ended, and of the window.
	Wake, Ack, Hold, Total, Get, Arm, Drain        aggregate.Stat
	WakeP, AckP, HoldP, TotalP, GetP, ArmP, DrainP aggregate.Percentiles
	At                                             time.Time
}

// addTo adds the probe to the sums of its host.
func (p *Probe) addTo(h *Host) {
	h.Unacked += p.Unacked
	h.WakeP99 = max(h.WakeP99, p.WakeP.P99)
}

// Key implements Point.
func (p *Probe) Key() Key {
	return Key{Measurement: probes.Name, Device: p.Device, Of: p.Method.String(), Port: p.Port, Vector: p.Vector}
}

// Time implements Point.
func (p *Probe) Time() time.Time { return p.At }

// Merge implements Point: the later one replaces this.
func (p *Probe) Merge(later Point) { *p = *later.(*Probe) }

// Clone implements Point.
func (p *Probe) Clone() Point { return clone(p) }

// Events implements Point.
func (*Probe) Events() uint64 { return 0 }

// Lines implements Point.
func (p *Probe) Lines(add func(Line)) { add(probes.line(p)) }

var probes = table[Probe]{
	Metric: Metric{
		Name:    "rdma_cq_probe",
		Emitted: everyInterval,
		Description: "Rounds of a completion queue probe, a queue pair of the plugin's own that is connected to " +
			"itself. It exercises the device's own path and interrupts, not the cable, not the fabric, and no " +
			"application's queues. events = acked + unacked + released. What an outcome means depends on the method. " +
			"rc_write is repeated by the device: errors are a path that is broken (retry_exc_err, wr_flush_err), and " +
			"lost_completions a device that does not work. ud_send is repeated by nobody, and its receive makes the event: errors " +
			"are a datagram that could not be sent or received, lost_completions two datagrams in a row that did not come back, and a " +
			"missing address is no round. flush never leaves " +
			"the device: an error is a receive that was not flushed.",
	},
	tags: append(probeTags(func(v *Probe) (string, verbs.ProbeKey) { return v.Device, v.ProbeKey }),
		managementTag(func(v *Probe) string { return v.Role })),
	fields: slices.Concat(roundRows(), eventCountRows(),
		stage("wake", "before the post to the return of ibv_get_cq_event",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Wake, v.WakeP }),
		stage("ack", "ibv_ack_cq_events alone",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Ack, v.AckP }),
		stage("hold", "return of ibv_get_cq_event to return of ibv_ack_cq_events",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Hold, v.HoldP }),
		stage("total", "before the post to the acknowledgement's return, or to the end of the drain when "+
			"acknowledgements are batched",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Total, v.TotalP }),
		stage("get", "ibv_get_cq_event alone; with stages = true",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Get, v.GetP }),
		stage("arm", "ibv_req_notify_cq; with stages = true",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Arm, v.ArmP }),
		stage("drain", "ibv_poll_cq until empty; with stages = true",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Drain, v.DrainP })),
}

// probeTags returns the tags of a measurement of one probe.
func probeTags[V any](of func(*V) (device string, k verbs.ProbeKey)) []tag[V] {
	key := func(v *V) verbs.ProbeKey {
		_, k := of(v)
		return k
	}
	return []tag[V]{
		newTag("device", "name of the RDMA device", func(v *V) string {
			device, _ := of(v)
			return device
		}),
		newTag("port", "number of the port, from 1", func(v *V) string { return strconv.Itoa(key(v).Port) }),
		newTag("vector", "completion vector, from 0", func(v *V) string { return strconv.Itoa(key(v).Vector) }),
		newTag("method", "rc_write, ud_send or flush", func(v *V) string { return key(v).Method.String() }),
	}
}

func roundRows() []field[Probe] {
	return []field[Probe]{
		counter("rounds", "rounds that ended", func(v *Probe) uint64 { return v.Counts.Rounds }),
		counter("successes", "rounds with an event and a good completion",
			func(v *Probe) uint64 { return v.Counts.Successes }),
		counter("errors", "rounds with a completion of bad status, or with a verb that failed",
			func(v *Probe) uint64 { return v.Counts.Errors }),
		counter("lost_events", "rounds without an event in time although the completion was there: interrupts or event path",
			func(v *Probe) uint64 { return v.Counts.LostEvents }),
		counter("lost_completions", "rounds with neither in time: the device's own data path; of ud_send, which sends twice then, both datagrams",
			func(v *Probe) uint64 { return v.Counts.LostCompletions }),
		counter("disturbed", "rounds during which the host was paused (the live migration of a guest) or suspended; they are in rounds, and in no other "+
			"outcome, no latency and not in ok", func(v *Probe) uint64 { return v.Counts.Disturbed }),
		maybe("ok", "", "1 when the last round was a success; not there before a round has ended and while the device is not open",
			func(v *Probe) (int64, bool) { return bit(v.OK), v.HasOK }),
		text("status", "the last error: a completion status, or a verb with its errno",
			func(v *Probe) string { return v.Status }),
	}
}

func eventCountRows() []field[Probe] {
	return []field[Probe]{
		counter("events", "completion events read", func(v *Probe) uint64 { return v.Counts.Events }),
		counter("acked", "of these, acknowledged", func(v *Probe) uint64 { return v.Counts.Acked }),
		integer("unacked", "", "of these, not yet acknowledged; below ack_batch between rounds",
			func(v *Probe) int64 { return clip(v.Unacked) }),
		counter("released", "of these, freed unacknowledged by a worker's death",
			func(v *Probe) uint64 { return v.Released }),
		counter("spurious", "events without a completion, which is legal",
			func(v *Probe) uint64 { return v.Counts.Spurious }),
		counter("late", "events of rounds that had been given up", func(v *Probe) uint64 { return v.Counts.Late }),
		counter("resent", "rounds of ud_send that sent a second datagram, since the first was not there after half the timeout; no device repeats one",
			func(v *Probe) uint64 { return v.Counts.Resent }),
		float("events_rate", "1/s", "events per second",
			func(v *Probe) (float64, bool) { return v.EventsRate, true }),
	}
}

func stage(
	name, what string, value func(*Probe) (aggregate.Stat, aggregate.Percentiles),
) []field[Probe] {
	return slices.Concat(
		stat(name, what, func(v *Probe) aggregate.Stat {
			s, _ := value(v)
			return s
		}),
		percentiles(name, what, func(v *Probe) aggregate.Percentiles {
			_, p := value(v)
			return p
		}))
}
