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
	// RunTimeout is the time limit for a whole run, without the time for the operator's answers.
	RunTimeout = 2 * time.Minute
	// flapWindow is the time that the operator has to take the port down and up.
	flapWindow = 30 * time.Second
	// timedCalls is the number of times that each call is timed, and callInterval the time between two calls.
	timedCalls   = 20
	callInterval = 50 * time.Millisecond
	// probeRounds is the number of rounds of one method on one port, and probeInterval the time between two rounds.
	probeRounds   = 50
	probeInterval = 100 * time.Millisecond
	// roundTimeout is the time limit for one round, and methodTimeout for all rounds of one method on a port.
	roundTimeout  = 500 * time.Millisecond
	methodTimeout = 30 * time.Second
	// autoRounds is the number of rounds that show which method `auto` chooses.
	autoRounds = 5
)

// Options names the device, and answers the questions in advance.
type Options struct {
	Device string
	Yes    bool // answer yes to all questions except the one about the flap
}

// run is one run of the trials.
type run struct {
	*Host
	options      Options
	report       *Report
	files        sysfsReader
	attr         verbs.DeviceAttr
	ports        []verbs.PortAttr // from the first queries; index 0 is port 1
	commandCosts map[int]drivers.Costs
	stuck        bool // a worker hangs in the kernel, as another worker would
}

// Run asks the operator, tries the device and returns the file's content. It
// blocks for the time of the answers, and then for Limit at most. If ctx ends, Run
// returns early and the error wraps that of ctx. Any other error means that the
// device must not be tried, and nothing was done.
func Run(ctx context.Context, h *Host, o Options) (*Report, error) {
	x := &run{Host: h, options: o, files: sysfsReader{Files: inspect.Files{FS: h.Sys}}, commandCosts: map[int]drivers.Costs{}}
	x.report = &Report{
		Schema: Schema, Made: h.Now().UTC().Truncate(time.Second), Simulated: h.Simulated,
		Methods: []Method{}, Auto: []Auto{}, Commands: []Timed{}, Events: []Event{}, Counters: []Counter{}, Problems: []string{},
	}
	var err error
	if x.report.InUse, err = h.checkUse(o.Device, o.Yes); err != nil {
		return nil, err
	}
	row, known := drivers.Find(x.kernelDriver(), x.readTransport())
	x.report.Allowed = x.askOperator(row, known)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ask about %s: %w", o.Device, err)
	}
	begin := h.Mono()
	limited, cancel := context.WithTimeout(ctx, RunTimeout)
	defer cancel()
	x.tryDevice(limited)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("try %s: %w", o.Device, err)
	}
	if limited.Err() != nil {
		x.addProblem("the two minutes were over before all was tried")
	}
	x.report.TookNS = h.Mono() - begin
	x.report.removeGUIDs(o.Device)
	return x.report, nil
}

// tryDevice runs all parts that open the device or send requests to it.
func (x *run) tryDevice(ctx context.Context) {
	library, err := x.Worker.AskLibrary(ctx)
	if err != nil {
		x.addProblem("%v", err)
	}
	if !x.queryPorts(ctx) {
		return
	}
	x.addDescription(library)
	before := x.readCounters(ctx)
	for i := range x.ports {
		x.timeSysfs(ctx, i+1)
	}
	x.tryMethods(ctx)
	x.tryAuto(ctx)
	if x.report.Allowed.Flap {
		x.watchFlap(ctx)
	}
	x.report.Counters = compareCounters(before, x.readCounters(ctx))
}

func (x *run) addProblem(format string, args ...any) {
	x.report.Problems = append(x.report.Problems, fmt.Sprintf(format, args...))
}

// queryPorts opens the device and times the queries of its ports. It reports
// whether the device was opened.
func (x *run) queryPorts(ctx context.Context) (opened bool) {
	x.Say("%s: looking at it", x.options.Device)
	ctx, cancel := context.WithTimeout(ctx, methodTimeout)
	defer cancel()
	ports := 0
	seen := x.watchDevice(ctx, verbs.Options{StateInterval: callInterval, EveryReading: true}, func(seen *inspect.Observation) bool {
		ports = len(seen.Attr.WatchedPorts(nil))
		return len(seen.Readings) >= timedCalls*ports
	})
	if seen.Attr == nil {
		x.addProblem("the device was not opened: %s", whyOrNoAnswer(seen.Why))
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
			x.commandCosts[n] = row.On(x.ports[n-1].LinkLayer)
			timed.Commands = x.commandCosts[n].Of(drivers.PortReading())
		}
		timed.Times = summarizeTimes(took)
		x.report.Commands = append(x.report.Commands, timed)
	}
	if seen.Why != "" {
		x.addProblem("looking at the ports ended early: %s", seen.Why)
	}
	return true
}

// watchDevice runs a worker that watches the device until enough returns true or ctx ends. It adds the events to the
// report.
func (x *run) watchDevice(ctx context.Context, o verbs.Options, enough func(*inspect.Observation) bool) *inspect.Observation {
	o.Device = x.options.Device
	seen := inspect.Observe(ctx, x.Worker, o, enough)
	x.stuck = x.stuck || seen.Stuck
	x.addEvents(seen)
	return seen
}

// whyOrNoAnswer returns why, or that the worker did not answer if why is empty.
func whyOrNoAnswer(why string) string {
	if why == "" {
		return "the worker did not answer in time"
	}
	return why
}

// addEvents adds a worker's events to the sums in the report.
func (x *run) addEvents(seen *inspect.Observation) {
	for _, run := range seen.Runs {
		i := slices.IndexFunc(x.report.Events, func(e Event) bool { return e.Port == run.Port && e.Type == run.Type.String() })
		if i < 0 {
			x.report.Events = append(x.report.Events, Event{Port: run.Port, Type: run.Type.String()})
			i = len(x.report.Events) - 1
		}
		e := &x.report.Events[i]
		e.Count += run.Count
		e.HoldMaxNS, e.AckMaxNS = max(e.HoldMaxNS, run.HoldMax), max(e.AckMaxNS, run.AckMax)
	}
}

// askOperator asks the operator for permission, before the device is tried.
func (x *run) askOperator(row drivers.Driver, known bool) Allowed {
	a := Allowed{InUse: x.options.Yes, RCWrite: x.options.Yes, Flush: x.options.Yes}
	if x.Ask == nil {
		return a
	}
	if !x.options.Yes {
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

// askFlush returns the question about the method flush. It names the counters that the method increments, according to
// the table of drivers and to the driver's counters in sysfs.
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
