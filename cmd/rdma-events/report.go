package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"rdma_events/internal/report"
)

const reportAbout = `Prints what was recorded, and writes one archive for a ticket with a vendor: that
timeline, what the doctor says, a snapshot of each device now, versions, the
links of the PCI functions, counts of RDMA resources, the plugin's configuration
without secrets, and the kernel's lines about the devices. It needs no running
plugin. A device that does not answer costs 10 s and its own part. MANIFEST.txt
in the archive says what each file is, and why one is missing; the archive has
addresses of this host, so look through it before you send it.
Run it as root, who may read the kernel's lines and the records.
Exit status 0: the archive has it all; 1: parts are missing; 2: no archive.
`

// reportFlags are the flags of the subcommand report.
type reportFlags struct {
	since                          time.Duration
	device, out, directory, config string
}

func (o *reportFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("report", stderr)
	set.DurationVar(&o.since, "since", 24*time.Hour, "what was recorded since so long ago; 0: all that is left")
	set.StringVar(&o.device, "device", "", "only this device, and what concerns the host")
	set.StringVar(&o.out, "out", "", "the archive; by default report-HOST-TIME.tar.gz here")
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
	if o.since < 0 {
		return misused(set, fmt.Sprintf("-since %s is in the future", o.since))
	}
	made, path, err := o.write(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	printTimeline(made, stdout)
	missing := report.Missing(made)
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

// write makes the parts and writes the archive.
func (o *reportFlags) write(args []string, stderr io.Writer) (made []report.Made, path string, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	h := report.Header{Version: buildVersion(), Host: hostName(), Began: time.Now(), Zone: zone(time.Now()), Asked: args}
	name := report.Name(h.Host, h.Began)
	if path = o.out; path == "" {
		path = name + report.Suffix
	}
	// It is made before the parts, so that a directory without write permission is an error at once.
	out, err := report.Create(path)
	if err != nil {
		return nil, "", fmt.Errorf("%w; name another file with -out", err)
	}
	defer out.Discard()
	p, err := o.plan(ctx, h.Began, filepath.Dir(path))
	if err != nil {
		return nil, "", err
	}
	defer p.close()
	fmt.Fprintln(stderr, "collecting; each device that does not answer takes 10 s")
	made = report.Collect(ctx, p.parts, time.Now)
	if ctx.Err() != nil {
		return nil, "", errors.New("interrupted: no archive is written")
	}
	h.Took, h.Simulated = time.Since(h.Began), p.simulated
	if err := report.Archive(out, name, h.Began, h.Text(made), made); err != nil {
		return nil, "", err
	}
	if _, err := out.Keep(); err != nil {
		return nil, "", err
	}
	return made, path, nil
}

// printTimeline prints the timeline if it is there. Its reader may end before, as head does.
func printTimeline(made []report.Made, stdout io.Writer) {
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
