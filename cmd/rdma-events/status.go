package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path"
	"syscall"
	"time"

	"rdma_events/internal/health"
	"rdma_events/internal/measure"
	"rdma_events/internal/status"
	"rdma_events/internal/statusfile"
	"rdma_events/plugins/inputs/rdma_events"
)

const statusAbout = `Shows how each RDMA device of this host is: its ports, since when, and which
alerts it would raise. It comes from the running plugin, which knows the past;
where none runs, the devices are opened once, and the first line says so.
Exit status 0: no problem; 1: a warning; 2: a critical one; 70: cannot tell.
`

const healthAbout = `Prints one line of at most 80 characters with what is wrong on this host, by the
names of the alerts, for health checks as those of Slurm and of
node-problem-detector. It comes from the running plugin.
Exit status 0: no problem; 1: a warning; 2: a critical one; 70: cannot tell, as
when no plugin runs. With -format npd, 0: no problem; 1: a problem; 2: cannot tell.
`

// statusFlags are the flags of the subcommand status.
type statusFlags struct {
	dir, config, device string
	json                bool
}

func (o *statusFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("status", stderr)
	set.StringVar(&o.device, "device", "", "only this device; a glob")
	set.BoolVar(&o.json, "json", false, "write one JSON object")
	set.StringVar(&o.config, "config", "", "where no plugin runs: the configuration to open the devices with")
	set.StringVar(&o.dir, "dir", "", dirText)
	return set
}

// dirText is the text of the flag -dir.
const dirText = "the directory in which plugins keep their status (default /run/rdma_events-status)"

// showStatus runs the subcommand status.
func showStatus(args []string, stdout, stderr io.Writer) int {
	var o statusFlags
	set := o.define(stderr)
	if code, ok := parse(set, args, "name a device with -device"); !ok {
		return code
	}
	if _, err := path.Match(o.device, ""); err != nil {
		return misused(set, fmt.Sprintf("-device %q is no glob", o.device))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, first, err := o.find(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitUnknown
	}
	here := len(s.Devices)
	if o.device != "" {
		s.Only(func(device string) bool {
			ok, _ := path.Match(o.device, device) // it was tried
			return ok
		})
	}
	if o.json {
		err = indented(stdout, s)
	} else {
		err = s.WriteText(stdout, first, time.Now())
	}
	if err != nil {
		return exitUnknown
	}
	if here == 0 && s.Source == health.SourceLook {
		return exitWarning // as the doctor says; a plugin that runs knows by its option expect what is missing
	}
	return severe(s.Worst())
}

// find returns the status of the running plugins, else what one look shows, and the first line for people.
func (o *statusFlags) find(ctx context.Context) (s *health.Status, first string, err error) {
	found, err := statusfile.Read(o.dir)
	if err == nil {
		first = fmt.Sprintf("%s, rdma-events %s", found.Host, found.Version)
		for _, p := range found.Plugins {
			first += fmt.Sprintf("; plugin %d reported %s ago", p.PID, p.Age.Round(100*time.Millisecond))
		}
		return found.Status, first, nil
	}
	if !errors.Is(err, statusfile.ErrNone) {
		return nil, "", err
	}
	first = err.Error() + ": this is one look, which knows nothing of the past"
	if s, err = look(ctx, o.config); err == nil {
		first = fmt.Sprintf("%s, rdma-events %s; %s", s.Host, s.Version, first)
	}
	return s, first, err
}

const (
	// openTime is how long one look waits for devices to be opened.
	openTime = 10 * time.Second
	// lookAgain is how often it asks whether they are.
	lookAgain = 50 * time.Millisecond
)

// look opens all devices of a configuration once, without probes.
func look(ctx context.Context, config string) (_ *health.Status, err error) {
	c, err := loadConfig(config)
	if err != nil {
		return nil, err
	}
	c.Probe.Interval = 0
	if err := c.Check(); err != nil {
		return nil, err
	}
	here, err := c.Present(ctx)
	if err != nil {
		return nil, err
	}
	wanted := 0
	for _, d := range here {
		if c.Watches(d) {
			wanted++
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find name of host: %w", err)
	}
	devices, err := rdma_events.Open(&c, func(measure.Point) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	points, err := opened(ctx, devices, wanted)
	if err = errors.Join(err, devices.Close()); err != nil {
		return nil, err
	}
	return health.Look(buildVersion(), host, points, time.Now()), nil
}

// opened runs the devices until as many as wanted are open or refused, for a limited time, and returns their points.
func opened(ctx context.Context, devices *rdma_events.Devices, wanted int) ([]measure.Point, error) {
	ctx, stop := context.WithTimeout(ctx, openTime)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- devices.Run(ctx) }()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		points, _ := devices.Gather(time.Now())
		if ctx.Err() != nil || settled(points) >= wanted {
			stop()
			return points, <-ended
		}
	}
}

// settled counts the devices of which it is known whether they can be watched, and the state of their ports.
func settled(points []measure.Point) int {
	n := 0
	unknown := map[string]bool{}
	for _, p := range points {
		if p, ok := p.(*measure.Port); ok && p.Known && !p.HasState {
			unknown[p.Device] = true
		}
	}
	for _, p := range points {
		d, ok := p.(*measure.Device)
		if ok && d.Present && !unknown[d.Device] && (d.Open || d.Reason != status.ReasonStarting && d.Reason != status.ReasonOK) {
			n++
		}
	}
	return n
}

// The formats of health.
const (
	formatText = "text"
	formatNPD  = "npd"
)

// healthFlags are the flags of the subcommand health.
type healthFlags struct {
	dir, format string
	json        bool
}

func (o *healthFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("health", stderr)
	set.StringVar(&o.format, "format", formatText, "text, or npd: the exit statuses of node-problem-detector")
	set.BoolVar(&o.json, "json", false, "write one JSON object: problems and status")
	set.StringVar(&o.dir, "dir", "", dirText)
	return set
}

// judge runs the subcommand health.
func judge(args []string, stdout, stderr io.Writer) int {
	var o healthFlags
	set := o.define(stderr)
	if code, ok := parse(set, args, "health takes flags alone"); !ok {
		return code
	}
	switch {
	case o.format != formatText && o.format != formatNPD:
		return misused(set, fmt.Sprintf("-format %q is not allowed: want text or npd", o.format))
	case o.json && o.format == formatNPD:
		return misused(set, "-json and -format npd do not go together")
	}
	found, err := statusfile.Read(o.dir)
	code := exitUnknown
	switch {
	case err != nil && o.json:
		err = indented(stdout, healthJSON{health.Schema, "unknown", err.Error(), []health.Problem{}})
	case err != nil:
		fmt.Fprintln(stderr, "E!", err) // it may be longer than a line of health
		_, err = fmt.Fprintln(stdout, "cannot tell:", statusfile.ErrNone)
	case o.json:
		code = severe(found.Worst())
		err = indented(stdout, healthJSON{health.Schema, named(code), "", found.Problems})
	default:
		code = severe(found.Worst())
		_, err = fmt.Fprintln(stdout, found.Line(time.Now()))
	}
	if err != nil {
		code = exitUnknown
	}
	if o.format == formatNPD {
		return npd(code)
	}
	return code
}

// healthJSON is what health -json prints.
type healthJSON struct {
	Schema   int              `json:"schema"`
	Status   string           `json:"status"` // ok, warning, critical or unknown
	Text     string           `json:"text,omitempty"`
	Problems []health.Problem `json:"problems"`
}

// severe returns the exit status for the worst problem.
func severe(worst health.Severity) int {
	switch worst {
	case health.Critical:
		return exitFailed
	case health.Warning:
		return exitWarning
	}
	return exitOK
}

func named(code int) string {
	switch code {
	case exitFailed:
		return string(health.Critical)
	case exitWarning:
		return string(health.Warning)
	}
	return "ok"
}

// npd returns the exit status that node-problem-detector's custom plugins have for an exit status of this program.
func npd(code int) int {
	switch code {
	case exitOK:
		return 0
	case exitWarning, exitFailed:
		return 1
	}
	return 2
}

func indented(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
