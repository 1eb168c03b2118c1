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

const reportAbout = `Prints the recorded events, and writes an archive for a vendor's support ticket:
the recorded events, the result of the doctor, a snapshot of each device, versions,
the links of the PCI functions, counts of RDMA resources, the plugin's
configuration without secrets, and lines of the kernel log about the devices. It
needs no running plugin. A device that does not answer takes 10 s, and only its own
part is missing. MANIFEST.txt in the archive describes each file, or tells why it is
missing. The archive contains addresses of this host: look through it before you
send it. Run the command as root, who may read the kernel log and the records.
With -timeout it stops after that time and writes the parts that are ready, without
the doctor. This is meant for the epilog of a job. If -out is a directory, the
command replaces no file in it.
Exit status 0: the archive is complete; 1: parts are missing; 2: no archive.
`

// reportFlags are the flags of the subcommand report.
type reportFlags struct {
	since, until                   timeFlag
	timeout                        time.Duration
	from, to                       time.Time // resolved from since and until
	device, out, directory, config string
	neverReplaces                  bool // the archive must not replace a file
}

func (o *reportFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("report", stderr)
	o.since = durationAgo(24 * time.Hour)
	set.Var(&o.since, "since", "include events since a `TIME`: "+timeFlagUsage+"; 0: from the oldest record")
	set.Var(&o.until, "until", "include events until a `TIME`, in the form of -since")
	set.DurationVar(&o.timeout, "timeout", 0, "time limit of the command, at least 1s; 0: no limit")
	deviceVar(set, &o.device, "include only the device with this `name`, and the host")
	set.StringVar(&o.out, "out", "", "path of the archive or of a directory for it; by default report-HOST-TIME.tar.gz in the current directory")
	set.StringVar(&o.directory, "directory", "", "the recorder's directory; by default that of the configuration, or "+defaultRecords)
	set.StringVar(&o.config, "config", "", "the plugin's configuration, which selects the devices; the archive contains it without secrets")
	return set
}

// writeReport runs the subcommand report.
func writeReport(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == partArgument {
		return printPart(args[1:], stdout, stderr)
	}
	var o reportFlags
	set := o.define(stderr)
	if code, ok := parseFlags(set, args, "name a device with -device"); !ok {
		return code
	}
	began := time.Now()
	var complaint string
	if o.from, o.to, complaint = resolveWindow(&o.since, &o.until, began); complaint != "" {
		return reportMisuse(set, complaint)
	}
	if o.timeout != 0 && o.timeout < minTimeout {
		return reportMisuse(set, fmt.Sprintf("-timeout %s is too short: give it %s", o.timeout, minTimeout))
	}
	made, path, err := o.writeWithin(args, stderr, began)
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
		fmt.Fprintf(stderr, "%s is written; the lines above name the missing parts\n", path)
		return exitWarning
	}
	fmt.Fprintf(stderr, "%s is written\n", path)
	return exitOK
}

const (
	// minTimeout is the minimum of -timeout, which leaves some time for the parts.
	minTimeout = time.Second
	// archiveTime is the part of -timeout that is reserved for writing the archive. It is at most half of -timeout.
	archiveTime = time.Second
)

// writeWithin runs writeArchive within -timeout. A part that hangs is left behind and ends with this process.
func (o *reportFlags) writeWithin(args []string, stderr io.Writer, began time.Time) ([]report.Result, string, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	h := report.Header{Version: buildVersion(), Host: hostName(), Began: began, Zone: formatZone(began), Asked: args}
	name := report.Name(h.Host, h.Began)
	path := o.out
	if info, err := os.Stat(path); path == "" || err == nil && info.IsDir() {
		o.neverReplaces = true
		path = filepath.Join(path, name+report.Suffix)
	}
	// The archive is created before the parts, so that a directory without write permission is reported at once.
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
		r.made, r.path, r.err = o.writeArchive(ctx, &h, name, out, path, stderr)
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

// writeArchive makes the parts and writes the archive.
func (o *reportFlags) writeArchive(
	ctx context.Context, h *report.Header, name string, out *report.Output, path string, stderr io.Writer,
) ([]report.Result, string, error) {
	p, err := o.newPlan(ctx, filepath.Dir(path))
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
	if !o.neverReplaces {
		_, err := out.Keep()
		return made, path, err
	}
	path, err = keepUnderNewName(out, path)
	return made, path, err
}

// keepUnderNewName gives the archive its name or, if a file with that name exists, the name with a number appended.
func keepUnderNewName(out *report.Output, path string) (string, error) {
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

// printTimeline prints the timeline if it is not missing. The reader may end earlier, for example head.
func printTimeline(made []report.Result, stdout io.Writer) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // otherwise SIGPIPE would end the process before it reports missing parts
	defer signal.Stop(broken)
	for i := range made {
		if made[i].Name == report.TimelineText && made[i].Missing == nil {
			_, _ = made[i].Data.WriteTo(stdout) // the archive contains the timeline
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

// formatZone returns the name of the time zone with its offset from UTC.
func formatZone(at time.Time) string {
	name, _ := at.Zone()
	return fmt.Sprintf("%s (UTC%s)", name, at.Format("-07:00"))
}
