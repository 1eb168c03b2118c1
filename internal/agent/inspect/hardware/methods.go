package hardware

import (
	"context"
	"time"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/verbs"
)

// tryMethods tries each method on each port.
func (x *run) tryMethods(ctx context.Context) {
	for i := range x.ports {
		for _, m := range []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite, verbs.MethodFlush} {
			x.report.Methods = append(x.report.Methods, x.tryMethod(ctx, i+1, m))
		}
	}
}

func (x *run) tryMethod(ctx context.Context, port int, m verbs.Method) Method {
	one := Method{
		Port: port, Method: m.String(), PaceNS: probeInterval.Nanoseconds(), Outcomes: map[string]int{}, Stages: map[string]Times{},
	}
	gid, why := x.chooseGIDIndex(port, m)
	if why == "" {
		why = x.whyForbidden(ctx, m)
	}
	if one.Why = why; why != "" {
		return one
	}
	x.Say("%s port %d: %s, %d rounds", x.options.Device, port, m, probeRounds)
	one.Tried = true
	seen := x.runProbe(ctx, port, m, gid, probeRounds)
	one.addRounds(seen, port)
	return one
}

// runProbe runs a worker that performs probe rounds on one port.
func (x *run) runProbe(ctx context.Context, port int, method verbs.Method, gid, rounds int) *inspect.Observation {
	ctx, cancel := context.WithTimeout(ctx, methodTimeout)
	defer cancel()
	o := verbs.Options{
		Ports: []int{port},
		Probe: verbs.ProbeOptions{
			Interval: probeInterval, Timeout: roundTimeout, Method: method, Vectors: []int{0}, AckBatch: 1, GIDIndex: gid, PKeyIndex: -1,
		},
	}
	return x.watchDevice(ctx, o, func(seen *inspect.Observation) bool {
		return len(seen.Rounds) >= rounds || seen.Refusal() != ""
	})
}

// chooseGIDIndex returns the index of the GID that a method may use: the port's default GID, which no network manager
// deletes. On RoCE without a default GID rc_write is not tried, because it would hold another GID. -1 leaves the choice
// to the worker.
func (x *run) chooseGIDIndex(port int, m verbs.Method) (index int, why string) {
	if x.ports[port-1].LinkLayer == verbs.LinkInfiniBand || m == verbs.MethodFlush {
		return -1, ""
	}
	if index, ok := x.Sysfs.DefaultGID(x.options.Device, port); ok {
		return index, ""
	}
	if m == verbs.MethodRCWrite && x.attr.Transport != "iwarp" && !x.Simulated {
		return -1, "the port has no default GID, and another would be held"
	}
	return -1, ""
}

// whyForbidden returns why a method must not be tried now, or "" if it may be tried.
func (x *run) whyForbidden(ctx context.Context, m verbs.Method) string {
	allowed := map[verbs.Method]bool{
		verbs.MethodUDSend: true, verbs.MethodRCWrite: x.report.Allowed.RCWrite, verbs.MethodFlush: x.report.Allowed.Flush,
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

// addRounds adds the rounds of a worker.
func (one *Method) addRounds(seen *inspect.Observation, port int) {
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
		one.Stages[name] = summarizeTimes(all)
	}
	one.Events, one.Acked, one.Spurious, one.Late = seen.Counts.Events, seen.Counts.Acked, seen.Counts.Spurious, seen.Counts.Late
	switch {
	case seen.Refusal() != "":
		one.Why = seen.Refusal()
	case seen.Why != "":
		one.Why = seen.Why
	case one.Rounds < probeRounds:
		one.Why = "not all rounds were over within " + methodTimeout.String()
	}
}

// tryAuto tries which method the plugin would choose on each port. The plugin may choose any method, so the operator
// must have agreed to all of them.
func (x *run) tryAuto(ctx context.Context) {
	for i := range x.ports {
		port := i + 1
		one := Auto{Port: port}
		for _, m := range []verbs.Method{verbs.MethodRCWrite, verbs.MethodFlush} {
			if why := x.whyForbidden(ctx, m); why != "" {
				one.Why = "it may choose " + m.String() + ": " + why
			}
		}
		gid, why := x.chooseGIDIndex(port, verbs.MethodRCWrite)
		if one.Why == "" {
			one.Why = why
		}
		if one.Why == "" {
			x.Say("%s port %d: what auto chooses", x.options.Device, port)
			one.Tried = true
			seen := x.runProbe(ctx, port, verbs.MethodAuto, gid, autoRounds)
			one.Why = seen.Why
			if n := len(seen.Choices); n > 0 {
				one.Method, one.Reason = seen.Choices[n-1].Method.String(), seen.Choices[n-1].Reason
			}
		}
		x.report.Auto = append(x.report.Auto, one)
	}
}

// watchFlap watches the device while the operator takes a port down and up.
func (x *run) watchFlap(ctx context.Context) {
	if x.stuck {
		return
	}
	x.Say("%s: take a port down and up NOW; you have %v", x.options.Device, flapWindow)
	begin := x.Mono()
	limited, cancel := context.WithTimeout(ctx, flapWindow)
	defer cancel()
	seen := x.watchDevice(limited, verbs.Options{StateInterval: time.Second}, func(*inspect.Observation) bool { return false })
	f := &Flap{WindowNS: flapWindow.Nanoseconds(), Seen: []FlapObservation{}, Links: []LinkCount{}}
	f.addObservation(seen, begin, len(x.ports))
	x.report.Flap = f
	if seen.Why != "" {
		x.addProblem("the window for the flap ended early: %s", seen.Why)
	}
}
