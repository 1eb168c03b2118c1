package hardware

import (
	"context"
	"time"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/verbs"
)

// methods tries each method on each port.
func (x *trial) methods(ctx context.Context) {
	for i := range x.ports {
		for _, m := range []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite, verbs.MethodFlush} {
			x.r.Methods = append(x.r.Methods, x.method(ctx, i+1, m))
		}
	}
}

func (x *trial) method(ctx context.Context, port int, m verbs.Method) Method {
	one := Method{
		Port: port, Method: m.String(), PaceNS: probePace.Nanoseconds(), Outcomes: map[string]int{}, Stages: map[string]Times{},
	}
	gid, why := x.gidIndex(port, m)
	if why == "" {
		why = x.forbidden(ctx, m)
	}
	if one.Why = why; why != "" {
		return one
	}
	x.Say("%s port %d: %s, %d rounds", x.o.Device, port, m, probeRounds)
	one.Tried = true
	seen := x.probe(ctx, port, m, gid, probeRounds)
	one.add(seen, port)
	return one
}

// probe has a worker run probe rounds on one port.
func (x *trial) probe(ctx context.Context, port int, method verbs.Method, gid, rounds int) *inspect.Observation {
	ctx, cancel := context.WithTimeout(ctx, methodLimit)
	defer cancel()
	o := verbs.Options{
		Ports: []int{port},
		Probe: verbs.ProbeOptions{
			Interval: probePace, Timeout: probeTimeout, Method: method, Vectors: []int{0}, AckBatch: 1, GIDIndex: gid, PKeyIndex: -1,
		},
	}
	return x.watchDevice(ctx, o, func(seen *inspect.Observation) bool {
		return len(seen.Rounds) >= rounds || seen.Refusal() != ""
	})
}

// gidIndex returns the index of the GID that a method may hold: the port's default
// GID, which no network manager deletes. Without a default GID rc_write is not
// tried on RoCE, because it would hold another one. An index of -1 leaves the
// choice to the worker.
func (x *trial) gidIndex(port int, m verbs.Method) (index int, why string) {
	if x.ports[port-1].LinkLayer == verbs.LinkInfiniBand || m == verbs.MethodFlush {
		return -1, ""
	}
	if index, ok := x.Sysfs.DefaultGID(x.o.Device, port); ok {
		return index, ""
	}
	if m == verbs.MethodRCWrite && x.attr.Transport != "iwarp" && !x.Simulated {
		return -1, "the port has no default GID, and another would be held"
	}
	return -1, ""
}

// forbidden returns why a method must not be tried now, "" if it may be tried.
func (x *trial) forbidden(ctx context.Context, m verbs.Method) string {
	allowed := map[verbs.Method]bool{
		verbs.MethodUDSend: true, verbs.MethodRCWrite: x.r.Allowed.RCWrite, verbs.MethodFlush: x.r.Allowed.Flush,
	}
	switch {
	case ctx.Err() != nil:
		return "the two minutes were over"
	case x.stuck:
		return "a worker hangs in the kernel"
	case allowed[m]:
		return ""
	case x.Ask == nil:
		return "it takes a yes: run it on a terminal, or with -yes"
	}
	return "the operator did not want it"
}

// add adds a worker's rounds.
func (one *Method) add(seen *inspect.Observation, port int) {
	stages := map[string][]int64{}
	for _, r := range seen.Rounds {
		if r.Port != port || one.Rounds == probeRounds {
			continue // a batch may contain more rounds than needed
		}
		one.Rounds++
		one.Outcomes[r.Outcome.String()]++
		if r.Outcome != verbs.OutcomeSuccess {
			if one.Statuses == nil {
				one.Statuses = map[string]int{}
			}
			one.Statuses[r.Status]++
			continue
		}
		for name, ns := range map[string]int64{
			"wake": r.Wake, "get": r.Get, "arm": r.Arm, "drain": r.Drain, "hold": r.Hold, "ack": r.Ack, "total": r.Total,
		} {
			stages[name] = append(stages[name], ns)
		}
	}
	for name, all := range stages {
		one.Stages[name] = timesOf(all)
	}
	one.Events, one.Acked, one.Spurious, one.Late = seen.Counts.Events, seen.Counts.Acked, seen.Counts.Spurious, seen.Counts.Late
	switch {
	case seen.Refusal() != "":
		one.Why = seen.Refusal()
	case seen.Why != "":
		one.Why = seen.Why
	case one.Rounds < probeRounds:
		one.Why = "not all rounds were over within " + methodLimit.String()
	}
}

// auto tries which method the plugin would choose on each port. That may be any
// method, so the operator must have agreed to all of them.
func (x *trial) auto(ctx context.Context) {
	for i := range x.ports {
		port := i + 1
		one := Auto{Port: port}
		for _, m := range []verbs.Method{verbs.MethodRCWrite, verbs.MethodFlush} {
			if why := x.forbidden(ctx, m); why != "" {
				one.Why = "it may choose " + m.String() + ": " + why
			}
		}
		gid, why := x.gidIndex(port, verbs.MethodRCWrite)
		if one.Why == "" {
			one.Why = why
		}
		if one.Why == "" {
			x.Say("%s port %d: what auto chooses", x.o.Device, port)
			one.Tried = true
			seen := x.probe(ctx, port, verbs.MethodAuto, gid, autoRounds)
			one.Why = seen.Why
			if n := len(seen.Choices); n > 0 {
				one.Method, one.Reason = seen.Choices[n-1].Method.String(), seen.Choices[n-1].Reason
			}
		}
		x.r.Auto = append(x.r.Auto, one)
	}
}

// flap watches the device while the operator takes a port down and up.
func (x *trial) flap(ctx context.Context) {
	if x.stuck {
		return
	}
	x.Say("%s: take a port down and up NOW; you have %v", x.o.Device, window)
	begin := x.Mono()
	limited, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	seen := x.watchDevice(limited, verbs.Options{StateInterval: time.Second}, func(*inspect.Observation) bool { return false })
	f := &Flap{WindowNS: window.Nanoseconds(), Seen: []Seen{}, Links: []LinkCount{}}
	f.add(seen, begin, len(x.ports))
	x.r.Flap = f
	if seen.Why != "" {
		x.problem("the window for the flap ended early: %s", seen.Why)
	}
}
