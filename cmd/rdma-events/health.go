package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"rdma_events/internal/health"
	"rdma_events/internal/statusfile"
)

const healthAbout = `Prints one line of at most 80 characters with what is wrong on this host, by the
names of the alerts, for health checks as those of Slurm and of
node-problem-detector. It comes from the running plugin.
Exit status 0: no problem; 1: a warning; 2: a critical one; 70: cannot tell, as
when no plugin runs. With -format npd, 0: no problem; 1: a problem; 2: cannot tell.
`

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
