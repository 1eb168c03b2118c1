package hardware

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/verbs"
)

const (
	// Limit is the longest time for a whole run, without the time for the
	// operator's answers.
	Limit = 2 * time.Minute
	// window is how long the operator has to take the port down and up.
	window = 30 * time.Second
	// timedCalls is how often each call is timed, callPace the time between two calls.
	timedCalls = 20
	callPace   = 50 * time.Millisecond
	// probeRounds is the number of rounds of one method on one port, probePace the
	// time between two rounds.
	probeRounds = 50
	probePace   = 100 * time.Millisecond
	// probeTimeout limits a round, methodLimit all rounds of one method on a port.
	probeTimeout = 500 * time.Millisecond
	methodLimit  = 30 * time.Second
	// autoRounds is the number of rounds that show which method `auto` chooses.
	autoRounds = 5
)

// Options names the device, and the answer to the questions.
type Options struct {
	Device string
	Yes    bool // answer all questions with yes, except the one about the flap
}

// trial is one run.
type trial struct {
	*Host
	o     Options
	r     *Report
	sys   reader
	attr  verbs.DeviceAttr
	ports []verbs.PortAttr // by port number - 1, from the first queries
	costs map[int]drivers.Costs
	stuck bool // a worker hangs in the kernel; another worker would hang, too
}

// Run asks the operator, tries the device and returns the file's content. It
// blocks for the time of the answers, and then for Limit at most. If ctx ends, Run
// returns early and the error wraps that of ctx. Any other error means that the
// device must not be tried, and nothing was done.
func Run(ctx context.Context, h *Host, o Options) (*Report, error) {
	x := &trial{Host: h, o: o, sys: reader{Files: inspect.Files{FS: h.Sys}}, costs: map[int]drivers.Costs{}}
	x.r = &Report{
		Schema: Schema, Made: h.Now().UTC().Truncate(time.Second), Simulated: h.Simulated,
		Methods: []Method{}, Auto: []Auto{}, Commands: []Timed{}, Events: []Event{}, Counters: []Counter{}, Problems: []string{},
	}
	var err error
	if x.r.InUse, err = h.inUse(o.Device, o.Yes); err != nil {
		return nil, err
	}
	row, known := drivers.Find(x.kernelDriver(), x.transport())
	x.r.Allowed = x.questions(row, known)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ask about %s: %w", o.Device, err)
	}
	begin := h.Mono()
	limited, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	x.try(limited)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("try %s: %w", o.Device, err)
	}
	if limited.Err() != nil {
		x.problem("the two minutes were over before all was tried")
	}
	x.r.TookNS = h.Mono() - begin
	x.r.scrub(o.Device)
	return x.r, nil
}

// try runs all parts that open the device or send requests to it.
func (x *trial) try(ctx context.Context) {
	library, err := x.Worker.AskLibrary(ctx)
	if err != nil {
		x.problem("%v", err)
	}
	if !x.queryPorts(ctx) {
		return
	}
	x.describe(library)
	before := x.counters(ctx)
	for i := range x.ports {
		x.timeSysfs(ctx, i+1)
	}
	x.methods(ctx)
	x.auto(ctx)
	if x.r.Allowed.Flap {
		x.flap(ctx)
	}
	x.r.Counters = compare(before, x.counters(ctx))
}

func (x *trial) problem(format string, args ...any) {
	x.r.Problems = append(x.r.Problems, fmt.Sprintf(format, args...))
}

// queryPorts opens the device and times the queries of its ports. It reports
// whether the device was opened.
func (x *trial) queryPorts(ctx context.Context) (opened bool) {
	x.Say("%s: looking at it", x.o.Device)
	ctx, cancel := context.WithTimeout(ctx, methodLimit)
	defer cancel()
	ports := 0
	seen := x.watchDevice(ctx, verbs.Options{StateInterval: callPace, EveryReading: true}, func(seen *inspect.Observation) bool {
		ports = len(verbs.PortNumbers(seen.Attr.Ports, nil))
		return len(seen.Readings) >= timedCalls*ports
	})
	if seen.Attr == nil {
		x.problem("the device was not opened: %s", orSilence(seen.Why))
		return false
	}
	x.attr, x.ports = *seen.Attr, make([]verbs.PortAttr, ports)
	row, known := drivers.Find(x.attr.Driver, x.attr.Transport)
	for n := 1; n <= ports; n++ {
		timed := Timed{Call: "ibv_query_port", Port: n, Commands: -1, Errors: map[string]int{}}
		var took []int64
		for _, r := range seen.Readings {
			switch {
			case r.Port != n:
			case r.Err != "":
				timed.Errors[r.Err]++
			default:
				took = append(took, r.Took)
				x.ports[n-1] = r.Attr
			}
		}
		if known {
			x.costs[n] = row.On(x.ports[n-1].LinkLayer)
			timed.Commands = x.costs[n].Of(drivers.PortReading())
		}
		timed.Times = timesOf(took)
		x.r.Commands = append(x.r.Commands, timed)
	}
	if seen.Why != "" {
		x.problem("looking at the ports ended early: %s", seen.Why)
	}
	return true
}

// watchDevice has a worker watch the device until enough returns true or ctx ends, and
// adds the events to the report.
func (x *trial) watchDevice(ctx context.Context, o verbs.Options, enough func(*inspect.Observation) bool) *inspect.Observation {
	o.Device = x.o.Device
	seen := inspect.Observe(ctx, x.Worker, o, enough)
	x.stuck = x.stuck || seen.Stuck
	x.events(seen)
	return seen
}

func orSilence(why string) string {
	if why == "" {
		return "the worker did not answer in time"
	}
	return why
}

// events adds a worker's events to the sums in the report.
func (x *trial) events(seen *inspect.Observation) {
	for _, run := range seen.Runs {
		i := slices.IndexFunc(x.r.Events, func(e Event) bool { return e.Port == run.Port && e.Type == run.Type.String() })
		if i < 0 {
			x.r.Events = append(x.r.Events, Event{Port: run.Port, Type: run.Type.String()})
			i = len(x.r.Events) - 1
		}
		e := &x.r.Events[i]
		e.Count += run.Count
		e.HoldMaxNS, e.AckMaxNS = max(e.HoldMaxNS, run.HoldMax), max(e.AckMaxNS, run.AckMax)
	}
}

// questions asks the operator for permission. It runs before the device is tried.
func (x *trial) questions(row drivers.Driver, known bool) Allowed {
	a := Allowed{InUse: x.o.Yes, RCWrite: x.o.Yes, Flush: x.o.Yes}
	if x.Ask == nil {
		return a
	}
	if !x.o.Yes {
		a.RCWrite = x.Ask(askRCWrite)
		a.Flush = x.Ask(askFlush(row, known, x.flushCounters()))
	}
	a.Flap = x.Ask(askFlap)
	return a
}

const (
	askRCWrite = "rc_write connects a queue pair to itself for 5 s a port; on RoCE it holds the port's default GID meanwhile. " +
		"An address of the host is not touched; a MAC address that is changed just then has no default GID until the next change. Try it?"
	askFlap = "At the end there can be 30 s in which you take a port down and up, by its cable, its switch or its network device: " +
		"whatever uses the port loses its link. Will you?"
)

// askFlush returns the question about flush. It names the counters that the
// method moves, from the table of drivers and from the driver's counters in sysfs.
func askFlush(row drivers.Driver, known bool, shown []string) string {
	text := fmt.Sprintf("flush has %d work requests a port end in error, each on a queue pair of its own. ", probeRounds)
	moved := slices.Compact(slices.Sorted(slices.Values(append(shown, row.FlushMoves...))))
	switch {
	case len(moved) > 0:
		text += "The driver counts them in " + strings.Join(moved, " and ") + ", by which alerts may be raised. "
	case known:
		text += "No counter of the driver " + row.Name + " is known to move. "
	default:
		text += "Whether a counter of the driver moves is not known. "
	}
	return text + "Try it?"
}
