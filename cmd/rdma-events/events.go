package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"rdma_events/internal/record/recorder"
	"rdma_events/internal/record/summary"
	"rdma_events/internal/record/timeline"
)

const eventsAbout = `Shows the events that the plugin has recorded on this host: asynchronous events,
changes of ports, GIDs and attributes, firmware commands without an answer, failed
probe rounds, workers that ended, errors of applications if these are traced, and
verdicts about the network to other hosts if these are probed. The command needs no
running plugin, and can read copies of other hosts' directories: name them after the
flags, and it merges their records by time, with the name of the host. If a time, a
unit or several directories are named, a summary comes first: which failure came
first, where, what followed, what had failed before, and what is not recorded.
Times are those of each host's own clock.
Exit status 0: everything was read; 1: a part is damaged or missing; 2: failed.
`

// defaultRecords is the directory in which a system service keeps its records (StateDirectory=rdma_events).
const defaultRecords = "/var/lib/rdma_events"

// followInterval is the time between two checks for new records.
const followInterval = 200 * time.Millisecond

// eventsFlags are the flags of the subcommand events.
type eventsFlags struct {
	device, unit, summary string
	directories           []string
	since, until          timeFlag
	json, follow          bool

	from, to  time.Time // resolved from since and until
	summarize bool
}

// The values of -summary.
const (
	summaryAuto = "auto"
	summaryYes  = "yes"
	summaryNo   = "no"
	summaryOnly = "only"
)

func (o *eventsFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("events", stderr)
	set.Var(&o.since, "since", "show events since a `TIME`: "+timeFlagUsage+"; 0: from the oldest record")
	set.Var(&o.until, "until", "show events until a `TIME`, in the form of -since")
	set.StringVar(&o.unit, "unit", "", "show only applications of this Slurm job, pod, container or service, as in job_1234; events of "+
		"devices and hosts remain")
	set.StringVar(&o.summary, "summary", summaryAuto, "show a summary first: auto, yes, no or only (no events)")
	deviceVar(set, &o.device, "show only the device with this `name`, and the host")
	set.BoolVar(&o.json, "json", false, "write one JSON object per line")
	set.BoolVar(&o.follow, "follow", false, "keep running and show new events")
	set.Func("directory", "the recorder's `DIRECTORY`, by default "+defaultRecords+"; may be repeated", func(dir string) error {
		o.directories = append(o.directories, dir)
		return nil
	})
	return set
}

// showEvents runs the subcommand events.
func showEvents(args []string, stdout, stderr io.Writer) int {
	var o eventsFlags
	set := o.define(stderr)
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	now := time.Now()
	if complaint := o.complete(set.Args(), now); complaint != "" {
		return reportMisuse(set, complaint)
	}
	code := exitOK
	bad := func(what any) {
		fmt.Fprintln(stderr, "W!", what)
		code = exitWarning
	}
	out := bufio.NewWriter(stdout)
	if o.summarize || len(o.directories) > 1 {
		m := mergedEvents{options: &o, warn: bad, summary: summary.New(summary.Query{Since: o.from, Until: o.to, Unit: o.unit, Now: now})}
		if err := m.writeAll(out); err != nil {
			fmt.Fprintln(stderr, "E!", err)
			return exitFailed
		}
		return code
	}
	directory := o.directories[0]
	reader, err := recorder.NewReader(directory, recorder.Filter{Device: o.device, Since: o.from}, func(s recorder.Skip) { bad(s) })
	if err != nil {
		fmt.Fprintln(stderr, "E!", withAdvice(err, directory))
		return exitFailed
	}
	host, err := findHost(directory)
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	w := eventWriter{out: out, printer: timeline.Printer{Out: out, JSON: o.json}, warn: bad, selects: o.selects, host: host}
	if o.follow {
		err = w.follow(reader)
	} else {
		err = w.writeAll(reader.Records())
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	return code
}

// complete resolves the flags. It returns what is wrong with them, or "".
func (o *eventsFlags) complete(dirs []string, now time.Time) (complaint string) {
	for _, dir := range dirs {
		if strings.HasPrefix(dir, "-") {
			return fmt.Sprintf("%s follows a directory: flags come first", dir)
		}
	}
	o.directories = append(o.directories, dirs...)
	if len(o.directories) == 0 {
		o.directories = []string{defaultRecords}
	}
	o.unit = unitName(o.unit)
	if o.from, o.to, complaint = resolveWindow(&o.since, &o.until, now); complaint != "" {
		return complaint
	}
	if twice := findDuplicate(o.directories); twice != "" {
		return twice + " is named twice"
	}
	several := len(o.directories) > 1
	switch {
	case !slices.Contains([]string{summaryAuto, summaryYes, summaryNo, summaryOnly}, o.summary):
		return fmt.Sprintf("-summary %s: want auto, yes, no or only", o.summary)
	case o.json && o.summary != summaryAuto && o.summary != summaryNo:
		return "-json writes records alone: leave out -summary"
	case o.follow && (several || !o.to.IsZero()):
		return "-follow goes on with one directory, and has no end: leave out the others, and -until"
	case o.follow && (o.summary == summaryYes || o.summary == summaryOnly):
		return "-follow has no summary, which needs an end"
	}
	asked := several || !o.from.IsZero() || !o.to.IsZero() || o.unit != ""
	o.summarize = !o.json && !o.follow && (o.summary == summaryYes || o.summary == summaryOnly || o.summary == summaryAuto && asked)
	return ""
}

// selects reports whether a record matches -since, -until and -unit.
func (o *eventsFlags) selects(k *timeline.StoredRecord) bool {
	return !k.Time.Before(o.from) && (o.to.IsZero() || !k.Time.After(o.to)) &&
		(o.unit == "" || k.App == nil || k.App.Unit == "" || k.App.Unit == o.unit)
}

// withAdvice adds to an error about a directory what to do.
func withAdvice(err error, dir string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; set recorder.directory, or name the directory after the flags, and a device with -device", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; only root and the user of the plugin may read %s", err, dir)
	}
	return err
}

// eventWriter writes the records of a reader.
type eventWriter struct {
	out     *bufio.Writer
	printer timeline.Printer
	warn    func(any)
	selects func(*timeline.StoredRecord) bool
	host    string // host of records that do not name it
}

// follow writes new records until it is interrupted. The printer holds an event back for its change of state, for
// 2*followInterval at most.
func (w *eventWriter) follow(reader *recorder.Reader) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	type result struct {
		one recorder.Record
		err error
	}
	records := make(chan result)
	go func() {
		defer close(records)
		for one, err := range reader.Follow(ctx, followInterval) {
			select {
			case records <- result{one, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	idle := time.NewTicker(2 * followInterval)
	defer idle.Stop()
	for {
		select {
		case r, ok := <-records:
			if !ok {
				return w.flush()
			}
			if r.err != nil {
				return r.err
			}
			if err := errors.Join(w.writeRecord(&r.one), w.out.Flush()); err != nil {
				return err
			}
			idle.Reset(2 * followInterval)
		case <-idle.C:
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
}

func (w *eventWriter) writeAll(records iter.Seq2[recorder.Record, error]) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		if err := w.writeRecord(&r); err != nil {
			return err
		}
	}
	return w.flush()
}

func (w *eventWriter) writeRecord(r *recorder.Record) error {
	k, err := timeline.NewStoredRecord(r)
	if err != nil {
		w.warn(err)
		return nil
	}
	if k.Host == "" {
		k.Host = w.host
	}
	if !w.selects(&k) {
		return nil
	}
	return w.printer.Add(k)
}

// flush writes all output, including the record that the printer holds back.
func (w *eventWriter) flush() error { return errors.Join(w.printer.Flush(), w.out.Flush()) }
