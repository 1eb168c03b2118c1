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
	HasOK      bool   // the device is open, and a round has ended since it was opened
	Status     string // the last error; "": none yet

	// Durations of the last interval, and their percentiles over the window.
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
	return Key{Measurement: probeTable.Name, Device: p.Device, Subject: p.Method.String(), Port: p.Port, Vector: p.Vector}
}

// Time implements Point.
func (p *Probe) Time() time.Time { return p.At }

// Merge implements Point. The later point replaces this one.
func (p *Probe) Merge(later Point) { *p = *later.(*Probe) }

// Clone implements Point.
func (p *Probe) Clone() Point { return clone(p) }

// Events implements Point.
func (*Probe) Events() uint64 { return 0 }

// Lines implements Point.
func (p *Probe) Lines(add func(Line)) { add(probeTable.line(p)) }

var probeTable = table[Probe]{
	Metric: Metric{
		Name:    "rdma_cq_probe",
		Emitted: everyInterval,
		Description: "Rounds of a completion queue probe, which uses a queue pair of the plugin that is connected to " +
			"itself. A probe tests the data path and the interrupts of the device. It does not test the cable, the fabric or the " +
			"queues of applications. events = acked + unacked + released. The meaning of an outcome depends on the method. " +
			"rc_write: the device retries, so errors (retry_exc_err, wr_flush_err) mean a broken path, and lost_completions mean a " +
			"device that does not work. ud_send: nothing retries, and the receive causes the event. errors mean that a datagram " +
			"could not be sent or received, and lost_completions mean that two datagrams in a row did not come back; without an " +
			"address there is no round. flush: nothing leaves the device, and an error means that a receive was not flushed.",
	},
	tags: append(probeTags(func(v *Probe) (string, verbs.ProbeKey) { return v.Device, v.ProbeKey }),
		managementTag(func(v *Probe) string { return v.Role })),
	fields: slices.Concat(roundFields(), completionEventFields(),
		stageFields("wake", "time from before the post to the return of ibv_get_cq_event",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Wake, v.WakeP }),
		stageFields("ack", "time in ibv_ack_cq_events",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Ack, v.AckP }),
		stageFields("hold", "time from the return of ibv_get_cq_event to the return of ibv_ack_cq_events",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Hold, v.HoldP }),
		stageFields("total", "time from before the post to the return of the acknowledgement, or to the end of the drain if "+
			"acknowledgements are batched",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Total, v.TotalP }),
		stageFields("get", "time in ibv_get_cq_event (only with stages = true)",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Get, v.GetP }),
		stageFields("arm", "time in ibv_req_notify_cq (only with stages = true)",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Arm, v.ArmP }),
		stageFields("drain", "time in ibv_poll_cq until the queue is empty (only with stages = true)",
			func(v *Probe) (aggregate.Stat, aggregate.Percentiles) { return v.Drain, v.DrainP })),
}

// probeTags returns the tags of a measurement about one probe. probeOf returns the device and the key of the probe.
func probeTags[V any](probeOf func(*V) (device string, k verbs.ProbeKey)) []tag[V] {
	key := func(v *V) verbs.ProbeKey {
		_, k := probeOf(v)
		return k
	}
	return []tag[V]{
		requiredTag("device", "name of the RDMA device", func(v *V) string {
			device, _ := probeOf(v)
			return device
		}),
		requiredTag("port", "number of the port, from 1", func(v *V) string { return strconv.Itoa(key(v).Port) }),
		requiredTag("vector", "number of the completion vector, from 0", func(v *V) string { return strconv.Itoa(key(v).Vector) }),
		requiredTag("method", "method of the probe: rc_write, ud_send or flush", func(v *V) string { return key(v).Method.String() }),
	}
}

func roundFields() []field[Probe] {
	return []field[Probe]{
		counter("rounds", "rounds that have ended", func(v *Probe) uint64 { return v.Counts.Rounds }),
		counter("successes", "rounds with an event and a successful completion",
			func(v *Probe) uint64 { return v.Counts.Successes }),
		counter("errors", "rounds with a completion in error or with a failed verb",
			func(v *Probe) uint64 { return v.Counts.Errors }),
		counter("lost_events", "rounds whose completion was there but whose event did not come in time: interrupts or the event path fail",
			func(v *Probe) uint64 { return v.Counts.LostEvents }),
		counter("lost_completions", "rounds with neither completion nor event in time: the data path of the device fails; "+
			"with ud_send, both of its datagrams were lost",
			func(v *Probe) uint64 { return v.Counts.LostCompletions }),
		counter("disturbed", "rounds during which the host was paused (live migration of a guest) or suspended; they count in rounds, but in no other "+
			"outcome, no latency and not in ok", func(v *Probe) uint64 { return v.Counts.Disturbed }),
		optionalInt("ok", "", "1 if the last round succeeded; not before a round has ended, and not while the device is not open",
			func(v *Probe) (int64, bool) { return boolToInt(v.OK), v.HasOK }),
		optionalText("status", "last error: a completion status, or a verb with its errno",
			func(v *Probe) string { return v.Status }),
	}
}

func completionEventFields() []field[Probe] {
	return []field[Probe]{
		counter("events", "completion events read", func(v *Probe) uint64 { return v.Counts.Events }),
		counter("acked", "completion events read and acknowledged", func(v *Probe) uint64 { return v.Counts.Acked }),
		requiredInt("unacked", "", "completion events read and not yet acknowledged; below ack_batch between rounds",
			func(v *Probe) int64 { return clampToInt64(v.Unacked) }),
		counter("released", "completion events read and then freed without acknowledgement, because a worker died",
			func(v *Probe) uint64 { return v.Released }),
		counter("spurious", "completion events without a completion, which the verbs allow",
			func(v *Probe) uint64 { return v.Counts.Spurious }),
		counter("late", "completion events of rounds that the probe had already given up", func(v *Probe) uint64 { return v.Counts.Late }),
		counter("resent", "rounds of ud_send that sent a second datagram because the first had not come back after half the timeout; no device retries datagrams",
			func(v *Probe) uint64 { return v.Counts.Resent }),
		optionalFloat("events_rate", "1/s", "completion events per second",
			func(v *Probe) (float64, bool) { return v.EventsRate, true }),
	}
}

func stageFields(
	name, what string, value func(*Probe) (aggregate.Stat, aggregate.Percentiles),
) []field[Probe] {
	return slices.Concat(
		statFields(name, what, func(v *Probe) aggregate.Stat {
			s, _ := value(v)
			return s
		}),
		percentileFields(name, what, func(v *Probe) aggregate.Percentiles {
			_, p := value(v)
			return p
		}))
}
