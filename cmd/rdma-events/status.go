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

const statusAbout = `Shows how each RDMA device of this host is: its ports, since when, and which
alerts it would raise. It comes from the running plugin, which knows the past;
where none runs, the devices are opened once, and the first line says so.
Exit status 0: no problem; 1: a warning; 2: a critical one; 70: cannot tell, as
while something is pending after a start of the plugin.
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
	}
	if s == nil {
		return exitUnknown
	}
	here := len(s.Devices)
	if o.device != "" {
		s.KeepOnly(func(device string) bool {
			ok, _ := path.Match(o.device, device) // it was tried
			return ok
		})
	}
	if o.json {
		err = errors.Join(err, indented(stdout, s))
	} else {
		err = errors.Join(err, statustext.WriteScreen(stdout, s, first, time.Now()))
	}
	switch {
	case err != nil, here > 0 && len(s.Devices) == 0: // no device is the one that was asked for
		return exitUnknown
	case here == 0 && s.Source == health.SourceLook:
		return exitWarning // as the doctor says; a plugin that runs knows by its option expect what is missing
	}
	return statusExit(s)
}

// find returns the status of the running plugins, else what one look shows, and the first line for people. The status is
// nil, or with an error of it something is unknown.
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
	if s, err = look(ctx, o.config); s != nil {
		first = fmt.Sprintf("%s, rdma-events %s; %s", s.Host, s.Version, first)
	}
	return s, first, err
}

// exitStatusOf returns the exit status for the worst problem.
func exitStatusOf(worst alerts.Severity) int {
	switch worst {
	case alerts.Critical:
		return exitFailed
	case alerts.Warning:
		return exitWarning
	}
	return exitOK
}

func indented(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
