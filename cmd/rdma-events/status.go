package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"path"
	"syscall"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health"
	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/agent/statustext"
)

const statusAbout = `Shows the state of each RDMA device and port of this host, the start of that
state, and the problems for which alerts fire. The running plugin provides the
status. If no plugin runs, the command opens the devices once, without knowledge
of the past, and the first line says so.
Exit status 0: no problem; 1: a warning; 2: a critical problem; 70: unknown, for
example while something is pending after a start of the plugin, or a device is
released.
`

// statusFlags are the flags of the subcommand status.
type statusFlags struct {
	dir, config, device string
	json                bool
}

func (o *statusFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("status", stderr)
	deviceVar(set, &o.device, "show only devices that match this `glob`")
	set.BoolVar(&o.json, "json", false, "write one JSON object")
	set.StringVar(&o.config, "config", "", "the configuration with which the devices are opened if no plugin runs")
	set.StringVar(&o.dir, "dir", "", dirText)
	return set
}

// dirText is the text of the flag -dir.
const dirText = "the directory in which plugins keep their status (default /run/rdma_events-status)"

// showStatus runs the subcommand status.
func showStatus(args []string, stdout, stderr io.Writer) int {
	var o statusFlags
	set := o.define(stderr)
	if code, ok := parseFlags(set, args, "name a device with -device"); !ok {
		return code
	}
	if _, err := path.Match(o.device, ""); err != nil {
		return reportMisuse(set, fmt.Sprintf("-device %q is not a glob", o.device))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, first, err := o.readStatus(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
	}
	if s == nil {
		return exitUnknown
	}
	here := len(s.Devices)
	if o.device != "" {
		s.KeepOnly(func(device string) bool {
			ok, _ := path.Match(o.device, device) // the pattern is valid
			return ok
		})
	}
	if o.json {
		err = errors.Join(err, writeJSON(stdout, s))
	} else {
		err = errors.Join(err, statustext.WriteScreen(stdout, s, first, time.Now()))
	}
	switch {
	case err != nil, here > 0 && len(s.Devices) == 0: // no device matches -device
		return exitUnknown
	case here == 0 && s.Source == health.SourceLook:
		return max(exitWarning, exitStatus(s)) // like the doctor; a running plugin knows from its configuration which devices are missing
	}
	return exitStatus(s)
}

// readStatus returns the status of the running plugins or, if none runs, the status from opening the devices once.
// first is the first line for people. If it returns both a status and an error, the status is incomplete.
func (o *statusFlags) readStatus(ctx context.Context) (s *health.Status, first string, err error) {
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
	first = err.Error() + ": the devices were opened once, and nothing is known of the past"
	if s, err = examineOnce(ctx, o.config); s != nil {
		first = fmt.Sprintf("%s, rdma-events %s; %s", s.Host, s.Version, first)
	}
	return s, first, err
}

// exitStatusFor returns the exit status for the most severe problem.
func exitStatusFor(worst alerts.Severity) int {
	switch worst {
	case alerts.Critical:
		return exitFailed
	case alerts.Warning:
		return exitWarning
	}
	return exitOK
}

func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
