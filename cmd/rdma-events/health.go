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

const healthAbout = `Prints the problems of this host, by the names of the alerts, in one line of at
most 80 characters, for health checks such as those of Slurm and of
node-problem-detector. The running plugin provides the status.
Exit status 0: no problem; 1: a warning; 2: a critical problem; 70: unknown, for
example if no plugin runs, while a device is released or cannot be opened, while a
port does not answer, or after a start or a release until a port has been down for
long enough to be a problem.
With -format npd, 0: no critical problem; 1: a critical problem; 2: unknown. With
-format npd-warning, 0: no problem, or unknown; 1: a warning or a critical problem.
If the plugin is restarted within ten minutes, problems go on as if it had run.
The command evaluates the alerts that one host can judge. -json lists the others,
which need other hosts or a database, as not_judged.
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
		"text; npd: exit statuses for a condition of node-problem-detector; npd-warning: exit statuses for its events")
	set.BoolVar(&o.json, "json", false, "write the status and the problems as one JSON object")
	set.StringVar(&o.dir, "dir", "", dirText)
	return set
}

// showHealth runs the subcommand health.
func showHealth(args []string, stdout, stderr io.Writer) int {
	var o healthFlags
	set := o.define(stderr)
	if code, ok := parseFlags(set, args, "health takes only flags"); !ok {
		return code
	}
	switch {
	case o.format != formatText && o.format != formatNPD && o.format != formatNPDWarning:
		return reportMisuse(set, fmt.Sprintf("-format %q is not allowed: want text, npd or npd-warning", o.format))
	case o.json && o.format != formatText:
		return reportMisuse(set, "-json and -format "+o.format+" do not go together")
	}
	found, err := statusfile.Read(o.dir)
	code := exitUnknown
	switch {
	case err != nil && o.json:
		err = writeJSON(stdout, healthJSON{health.Schema, statusName(code), err.Error(), []health.Problem{}, nil, notJudged()})
	case err != nil:
		fmt.Fprintln(stderr, "E!", err) // the error may be longer than a line of health
		_, err = fmt.Fprintln(stdout, "cannot tell:", statusfile.ErrNone)
	case o.json:
		code = exitStatus(found.Status)
		err = writeJSON(stdout, healthJSON{health.Schema, statusName(code), "", found.Problems, found.Pending, notJudged()})
	default:
		code = exitStatus(found.Status)
		_, err = fmt.Fprintln(stdout, statustext.SummaryLine(found.Status, time.Now()))
	}
	if err != nil {
		code = exitUnknown
	}
	switch o.format {
	case formatNPD:
		return npdStatus(code, exitFailed, npdUnknown)
	case formatNPDWarning:
		return npdStatus(code, exitWarning, npdOK) // otherwise each node would have an event every ten minutes
	}
	return code
}

// exitStatus returns the exit status for a status. A pending fact may turn out to be critical, so it takes precedence
// over warnings.
func exitStatus(s *health.Status) int {
	if s.Worst() != alerts.Critical && len(s.Pending) > 0 {
		return exitUnknown
	}
	return exitStatusFor(s.Worst())
}

// notJudged returns the alerts that one host cannot judge, each with what it lacks.
func notJudged() map[string]string {
	not := map[string]string{}
	for _, a := range alerts.Table() {
		if a.When == nil {
			not[a.ID] = a.Elsewhere
		}
	}
	return not
}

// healthJSON is the output of health -json.
type healthJSON struct {
	Schema   int              `json:"schema"`
	Status   string           `json:"status"` // ok, warning, critical or unknown
	Text     string           `json:"text,omitempty"`
	Problems []health.Problem `json:"problems"`
	Pending  []health.Pending `json:"pending,omitempty"`
	// NotJudged lists the alerts that one host cannot judge, by name, with what they need.
	NotJudged map[string]string `json:"not_judged"`
}

// statusName returns the word for an exit status in the JSON output.
func statusName(code int) string {
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

// Exit statuses that node-problem-detector expects from a custom plugin (pkg/custompluginmonitor/types).
const (
	npdOK      = 0
	npdProblem = 1
	npdUnknown = 2
)

// npdStatus converts an exit status of this program to one for node-problem-detector. Statuses from least on count as
// problems. unknown is the result if it is not known whether there is a problem.
func npdStatus(code, least, unknown int) int {
	switch {
	case code == exitUnknown:
		return unknown
	case code >= least:
		return npdProblem
	}
	return npdOK
}
