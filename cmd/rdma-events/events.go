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
	"syscall"
	"time"

	"rdma_events/internal/recorder"
	"rdma_events/internal/timeline"
)

const eventsAbout = `Shows what the plugin has recorded on this host: events, changes of ports, GIDs
and attributes, commands that were not answered, rounds that were lost, workers
that ended, what applications experienced where that is traced, and what was said
of the network to other hosts where they are probed. It needs no running plugin,
and reads a copy of another host's directory as well.
Exit status 0: all was read; 1: a part is damaged or gone; 2: nothing can be read.
`

// defaultRecords is where a service of the system keeps its records (StateDirectory=rdma_events).
const defaultRecords = "/var/lib/rdma_events"

// followInterval is how often new records are looked for.
const followInterval = 200 * time.Millisecond

// eventsFlags are the flags of the subcommand events.
type eventsFlags struct {
	directory, device string
	since             time.Duration
	json, follow      bool
}

func (o *eventsFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("events", stderr)
	set.DurationVar(&o.since, "since", 0, "only what happened since so long ago, as in 1h; 0: all that is left")
	set.StringVar(&o.device, "device", "", "only this device, and what concerns the host")
	set.BoolVar(&o.json, "json", false, "write one JSON object a line")
	set.BoolVar(&o.follow, "follow", false, "go on with what is recorded from now on")
	set.StringVar(&o.directory, "directory", defaultRecords, "the recorder's directory")
	return set
}

// showEvents runs the subcommand events.
func showEvents(args []string, stdout, stderr io.Writer) int {
	var o eventsFlags
	set := o.define(stderr)
	if code, ok := parse(set, args, "name a device with -device"); !ok {
		return code
	}
	if o.since < 0 {
		return misused(set, fmt.Sprintf("-since %s is in the future", o.since))
	}
	filter := recorder.Filter{Device: o.device}
	if o.since > 0 {
		filter.Since = time.Now().Add(-o.since)
	}
	code := exitOK
	bad := func(what any) {
		fmt.Fprintln(stderr, "W!", what)
		code = exitWarning
	}
	reader, err := recorder.NewReader(o.directory, filter, func(s recorder.Skip) { bad(s) })
	if err != nil {
		fmt.Fprintln(stderr, "E!", advised(err, o.directory))
		return exitFailed
	}
	out := bufio.NewWriter(stdout)
	w := eventWriter{out: out, printer: timeline.Printer{Out: out, JSON: o.json}, bad: bad}
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

// advised says what to do about a directory that cannot be read.
func advised(err error, dir string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; set recorder.directory, or name the directory with -directory", err)
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
	k, err := timeline.NewKept(r)
	if err != nil {
		w.bad(err)
		return nil
	}
	return w.printer.Add(k)
}

// flush also writes the record that waits.
func (w *eventWriter) flush() error { return errors.Join(w.printer.Flush(), w.out.Flush()) }
