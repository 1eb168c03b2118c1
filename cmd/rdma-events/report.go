package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"rdma_events/internal/agent/inspect/report"
)

const reportAbout = `Prints what was recorded, and writes one archive for a ticket with a vendor: that
timeline, what the doctor says, a snapshot of each device now, versions, the
links of the PCI functions, counts of RDMA resources, the plugin's configuration
without secrets, and the kernel's lines about the devices. It needs no running
plugin. A device that does not answer costs 10 s and its own part. MANIFEST.txt
in the archive says what each file is, and why one is missing; the archive has
addresses of this host, so look through it before you send it.
Run it as root, who may read the kernel's lines and the records.
With -timeout it stops after that time and writes what it has so far; the doctor is
left out. This is meant for the epilog of a job. Where -out is a directory, no file in it is replaced.
Exit status 0: the archive has it all; 1: parts are missing; 2: no archive.
`

// reportFlags are the flags of the subcommand report.
type reportFlags struct {
	since, until                   moment
	timeout                        time.Duration
	from, to                       time.Time // of since and until
	device, out, directory, config string
	fresh                          bool // the archive replaces no file
}

func (o *reportFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("report", stderr)
	o.since = agoMoment(24 * time.Hour)
	set.Var(&o.since, "since", "what was recorded since a `TIME`: "+momentUsage+"; 0: all that is left")
	set.Var(&o.until, "until", "what was recorded until a `TIME`, as of -since")
	set.DurationVar(&o.timeout, "timeout", 0, "how long it may take, 1s at least; 0: until all parts are made")
	set.StringVar(&o.device, "device", "", "only this device, and what concerns the host")
	set.StringVar(&o.out, "out", "", "the archive, or a directory for it; by default report-HOST-TIME.tar.gz here")
	set.StringVar(&o.directory, "directory", "", "the recorder's directory; by default the configuration's, else "+defaultRecords)
	set.StringVar(&o.config, "config", "", "the plugin's configuration: devices, simulator; it is in the archive without secrets")
	return set
}

// writeReport runs the subcommand report.
func writeReport(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == partArgument {
		return printPart(args[1:], stdout, stderr)
	}
	var o reportFlags
	set := o.define(stderr)
	if code, ok := parse(set, args, "name a device with -device"); !ok {
		return code
	}
	began := time.Now()
	var complaint string
	if o.from, o.to, complaint = window(&o.since, &o.until, began); complaint != "" {
		return misused(set, complaint)
	}
	if o.timeout != 0 && o.timeout < leastTimeout {
		return misused(set, fmt.Sprintf("-timeout %s is too short: give it %s", o.timeout, leastTimeout))
	}
	made, path, err := o.writeInTime(args, stderr, began)
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	printTimeline(made, stdout)
	missing := report.MissingLines(made)
	for _, line := range missing {
		fmt.Fprintln(stderr, "W!", line)
	}
	if len(missing) > 0 {
		fmt.Fprintf(stderr, "%s is written, without what the lines above name\n", path)
		return exitWarning
	}
	fmt.Fprintf(stderr, "%s is written\n", path)
	return exitOK
}

const (
	// leastTimeout leaves some time for the parts.
	leastTimeout = time.Second
	// archiveTime is what is left of -timeout for the archive when no part is waited for any more, and is an upper bound: half of
	// the time if that is less.
	archiveTime = time.Second
)

// writeInTime is write within -timeout, whatever hangs: what does not end is left behind, and ends with this process.
func (o *reportFlags) writeInTime(args []string, stderr io.Writer, began time.Time) ([]report.Result, string, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	h := report.Header{Version: buildVersion(), Host: hostName(), Began: began, Zone: zone(began), Asked: args}
	name := report.Name(h.Host, h.Began)
	path := o.out
	if info, err := os.Stat(path); path == "" || err == nil && info.IsDir() {
		o.fresh = true
		path = filepath.Join(path, name+report.Suffix)
	}
	// It is made before the parts, so that a directory without write permission is an error at once.
	out, err := report.Create(path)
	if err != nil {
		return nil, "", fmt.Errorf("%w; name another file with -out", err)
	}
	type result struct {
		made []report.Result
		path string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		r.made, r.path, r.err = o.write(ctx, &h, name, out, path, stderr)
		out.Discard()
		done <- r
	}()
	var late <-chan time.Time
	if o.timeout > 0 {
		timer := time.NewTimer(time.Until(began.Add(o.timeout)))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case r := <-done:
		return r.made, r.path, r.err
	case <-late:
		out.Unlink()
		return nil, "", fmt.Errorf("no archive is written: it did not end within %s", o.timeout)
	}
}

// write makes the parts and writes the archive.
func (o *reportFlags) write(
	ctx context.Context, h *report.Header, name string, out *report.Output, path string, stderr io.Writer,
) ([]report.Result, string, error) {
	p, err := o.plan(ctx, filepath.Dir(path))
	if err != nil {
		return nil, "", err
	}
	defer p.close()
	collecting := ctx
	if o.timeout > 0 {
		left := o.timeout - min(archiveTime, o.timeout/2)
		var cancel context.CancelFunc
		collecting, cancel = context.WithDeadlineCause(ctx, h.Began.Add(left), report.ErrLate)
		defer cancel()
	} else {
		fmt.Fprintln(stderr, "collecting; each device that does not answer takes 10 s")
	}
	made := report.Collect(collecting, p.parts, time.Now)
	if ctx.Err() != nil {
		return nil, "", errors.New("interrupted: no archive is written")
	}
	h.Took, h.Simulated = time.Since(h.Began), p.simulated
	if err := report.Archive(out, name, h.Began, h.Text(made), made); err != nil {
		return nil, "", err
	}
	if !o.fresh {
		_, err := out.Keep()
		return made, path, err
	}
	path, err = keepNew(out, path)
	return made, path, err
}

// keepNew keeps an archive under its name or, where that is taken, under one with a number.
func keepNew(out *report.Output, path string) (string, error) {
	const most = 99
	for n := 1; ; n++ {
		name := path
		if n > 1 {
			name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, report.Suffix), n, report.Suffix)
		}
		out.Rename(name)
		if _, err := out.KeepNew(); n == most || !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

// printTimeline prints the timeline if it is there. Its reader may end before, as head does.
func printTimeline(made []report.Result, stdout io.Writer) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // else the process ends before it says what is missing
	defer signal.Stop(broken)
	for i := range made {
		if made[i].Name == report.TimelineText && made[i].Missing == nil {
			_, _ = made[i].Data.WriteTo(stdout) // the archive has it
		}
	}
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// zone returns the name of the time zone with its distance from UTC.
func zone(at time.Time) string {
	name, _ := at.Zone()
	return fmt.Sprintf("%s (UTC%s)", name, at.Format("-07:00"))
}
