package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health"
	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/agent/statustext"
)

const healthAbout = `Prints one line of at most 80 characters with what is wrong on this host, by the
names of the alerts, for health checks as those of Slurm and of
node-problem-detector. It comes from the running plugin.
Exit status 0: no problem; 1: a warning; 2: a critical one; 70: cannot tell, as
when no plugin runs, or after a start while a device has not been opened or a
port that should be active has not been down for long enough to be a problem.
With -format npd, 0: no critical problem; 1: a critical one; 2: cannot tell. With
-format npd-warning, 1: a warning or a critical one.
It judges by the alerts that a host can judge; -json has the others, which need
other hosts or a database, as not_judged.
`

// The formats of health.
const (
	formatText       = "text"
	formatNPD        = "npd"
	formatNPDWarning = "npd-warning"
)

// healthFlags are the flags of the subcommand health.
type healthFlags struct {
	dir, format string
	json        bool
}

func (o *healthFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("health", stderr)
	set.StringVar(&o.format, "format", formatText,
		"text; or npd: the exit statuses of node-problem-detector for a condition; or npd-warning: for its events")
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
	case o.format != formatText && o.format != formatNPD && o.format != formatNPDWarning:
		return misused(set, fmt.Sprintf("-format %q is not allowed: want text, npd or npd-warning", o.format))
	case o.json && o.format != formatText:
		return misused(set, "-json and -format "+o.format+" do not go together")
	}
	found, err := statusfile.Read(o.dir)
	code := exitUnknown
	switch {
	case err != nil && o.json:
		err = indented(stdout, healthJSON{health.Schema, named(code), err.Error(), []health.Problem{}, nil, notJudged()})
	case err != nil:
		fmt.Fprintln(stderr, "E!", err) // it may be longer than a line of health
		_, err = fmt.Fprintln(stdout, "cannot tell:", statusfile.ErrNone)
	case o.json:
		code = statusExit(found.Status)
		err = indented(stdout, healthJSON{health.Schema, named(code), "", found.Problems, found.Pending, notJudged()})
	default:
		code = statusExit(found.Status)
		_, err = fmt.Fprintln(stdout, statustext.SummaryLine(found.Status, time.Now()))
	}
	if err != nil {
		code = exitUnknown
	}
	switch o.format {
	case formatNPD:
		return npd(code, exitFailed)
	case formatNPDWarning:
		return npd(code, exitWarning)
	}
	return code
}

// statusExit returns the exit status for a status. What is pending may become critical, so that it hides warnings.
func statusExit(s *health.Status) int {
	if s.Worst() != alerts.Critical && len(s.Pending) > 0 {
		return exitUnknown
	}
	return exitStatusOf(s.Worst())
}

// notJudged returns the alerts that a host cannot judge, with what it lacks.
func notJudged() map[string]string {
	not := map[string]string{}
	for _, a := range alerts.Table() {
		if a.When == nil {
			not[a.ID] = a.Elsewhere
		}
	}
	return not
}

// healthJSON is what health -json prints.
type healthJSON struct {
	Schema   int              `json:"schema"`
	Status   string           `json:"status"` // ok, warning, critical or unknown
	Text     string           `json:"text,omitempty"`
	Problems []health.Problem `json:"problems"`
	Pending  []health.Pending `json:"pending,omitempty"`
	// NotJudged are the alerts that need more than this host, by name, with what they need.
	NotJudged map[string]string `json:"not_judged"`
}

func named(code int) string {
	switch code {
	case exitFailed:
		return string(alerts.Critical)
	case exitWarning:
		return string(alerts.Warning)
	case exitUnknown:
		return "unknown"
	}
	return "ok"
}

// npd returns the exit status that node-problem-detector's custom plugins have for an exit status of this program: 1 is a problem, of those
// from least on.
func npd(code, least int) int {
	switch {
	case code == exitUnknown:
		return 2
	case code >= least:
		return 1
	}
	return 0
}
