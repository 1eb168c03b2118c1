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

const eventsAbout = `Shows what the plugin has recorded on this host: events, changes of ports, GIDs
and attributes, commands that were not answered, rounds that were lost, workers
that ended, what applications experienced where that is traced, and what was said
of the network to other hosts where they are probed. It needs no running plugin,
and reads copies of other hosts' directories as well: name them behind the flags,
and their records are merged by time, with the name of the host. A summary comes
first where a time, a unit or several directories are named: what broke first,
where, what followed, what was broken already, and what the records do not have.
Times are those of each host's own clock.
Exit status 0: all was read; 1: a part is damaged or gone; 2: nothing can be read.
`

// defaultRecords is where a service of the system keeps its records (StateDirectory=rdma_events).
const defaultRecords = "/var/lib/rdma_events"

// followInterval is how often new records are looked for.
const followInterval = 200 * time.Millisecond

// eventsFlags are the flags of the subcommand events.
type eventsFlags struct {
	device, unit, summary string
	directories           []string
	since, until          moment
	json, follow          bool

	from, to  time.Time // of since and until
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
	set.Var(&o.since, "since", "only what happened since a `TIME`: "+momentUsage+"; 0: all that is left")
	set.Var(&o.until, "until", "only what happened until a `TIME`, as of -since")
	set.StringVar(&o.unit, "unit", "", "only this Slurm job, pod, container or service of applications, as in job_1234, and what concerns "+
		"devices and hosts")
	set.StringVar(&o.summary, "summary", summaryAuto, "begin with a summary: auto, yes, no, or only that")
	set.StringVar(&o.device, "device", "", "only this device, and what concerns the host")
	set.BoolVar(&o.json, "json", false, "write one JSON object a line")
	set.BoolVar(&o.follow, "follow", false, "go on with what is recorded from now on")
	set.Func("directory", "a recorder's `DIRECTORY`, by default "+defaultRecords+"; may be repeated", func(dir string) error {
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
		return misused(set, complaint)
	}
	code := exitOK
	bad := func(what any) {
		fmt.Fprintln(stderr, "W!", what)
		code = exitWarning
	}
	out := bufio.NewWriter(stdout)
	if o.summarize || len(o.directories) > 1 {
		m := mergedEvents{options: &o, bad: bad, summary: summary.New(summary.Query{Since: o.from, Until: o.to, Unit: o.unit, Now: now})}
		if err := m.write(out); err != nil {
			fmt.Fprintln(stderr, "E!", err)
			return exitFailed
		}
		return code
	}
	directory := o.directories[0]
	reader, err := recorder.NewReader(directory, recorder.Filter{Device: o.device, Since: o.from}, func(s recorder.Skip) { bad(s) })
	if err != nil {
		fmt.Fprintln(stderr, "E!", advised(err, directory))
		return exitFailed
	}
	host, err := hostOf(directory)
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	w := eventWriter{out: out, printer: timeline.Printer{Out: out, JSON: o.json}, bad: bad, selects: o.selects, host: host}
	if o.follow {
		err = w.follow(reader)
	} else {
		err = w.all(reader.Records())
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	return code
}

// complete completes the flags. It returns what is wrong with them.
func (o *eventsFlags) complete(dirs []string, now time.Time) (complaint string) {
	for _, dir := range dirs {
		if strings.HasPrefix(dir, "-") {
			return fmt.Sprintf("%s stands behind a directory: flags come first", dir)
		}
	}
	o.directories = append(o.directories, dirs...)
	if len(o.directories) == 0 {
		o.directories = []string{defaultRecords}
	}
	o.unit = unitName(o.unit)
	if o.from, o.to, complaint = window(&o.since, &o.until, now); complaint != "" {
		return complaint
	}
	if twice := sameDirectory(o.directories); twice != "" {
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

// selects reports whether a record is of the time and the unit that are asked for.
func (o *eventsFlags) selects(k *timeline.StoredRecord) bool {
	return !k.Time.Before(o.from) && (o.to.IsZero() || !k.Time.After(o.to)) &&
		(o.unit == "" || k.App == nil || k.App.Unit == "" || k.App.Unit == o.unit)
}

// advised says what to do about a directory that cannot be read.
func advised(err error, dir string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; set recorder.directory, or name the directory behind the flags, and a device with -device", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; only root and the user of the plugin may read %s", err, dir)
	}
	return err
}

// eventWriter writes the records of a reader.
type eventWriter struct {
	out     *bufio.Writer
	printer timeline.Printer
	bad     func(any)
	selects func(*timeline.StoredRecord) bool
	host    string // of records that do not name theirs
}

// follow writes records as they come. An event that no change of state follows is written after followInterval.
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
			if err := errors.Join(w.add(&r.one), w.out.Flush()); err != nil {
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

func (w *eventWriter) all(records iter.Seq2[recorder.Record, error]) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		if err := w.add(&r); err != nil {
			return err
		}
	}
	return w.flush()
}

func (w *eventWriter) add(r *recorder.Record) error {
	k, err := timeline.NewStoredRecord(r)
	if err != nil {
		w.bad(err)
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

// flush also writes the record that waits.
func (w *eventWriter) flush() error { return errors.Join(w.printer.Flush(), w.out.Flush()) }
