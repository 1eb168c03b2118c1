package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"rdma_events/internal/record/recorder"
	"rdma_events/internal/record/timeline"
)

// The names of the timeline's files.
const (
	TimelineText  = "timeline.txt"
	TimelineJSONL = "timeline.jsonl"
)

// TimelineOptions selects records of the recorder.
type TimelineOptions struct {
	Directory string    // directory of the recorder
	Since     time.Time // zero: from the oldest record
	Until     time.Time // zero: to the newest record
	Device    string    // "": all devices; records about the host are always included
	// Text and JSONL hold the content of the files. The caller must close them when the archive is complete.
	Text, JSONL *Spool
	// MaxBytes is the maximum size of each file; one record may exceed it. Older records are omitted.
	MaxBytes int64
}

// timelineTimeout is the time limit for reading records. A directory of 1 GiB contains about three million.
const timelineTimeout = 2 * time.Minute

// Timeline returns the part with the recorder's records.
func Timeline(o TimelineOptions) Part {
	return Part{
		Files: []Description{
			{TimelineText, "what was recorded, for people"},
			{TimelineJSONL, "the same, an object a line, as of rdma-events events -json"},
		},
		Stage: stageRest, Timeout: timelineTimeout,
		Make: o.makeFiles,
	}
}

// timelineBuilder builds the files in one pass through the records.
type timelineBuilder struct {
	TimelineOptions
	text, objects timeline.Printer

	records      int // since the last rotation
	olderRecords int // between the last two rotations
	dropped      int
	oldest       [2]time.Time // oldest record between the last two rotations, and since the last one
	newest       time.Time
	lacks        []string
	notes        []string
}

func (o TimelineOptions) makeFiles(ctx context.Context) (map[string]File, error) {
	r := &timelineBuilder{
		TimelineOptions: o, text: timeline.Printer{Out: o.Text}, objects: timeline.Printer{Out: o.JSONL, JSON: true},
	}
	filter := recorder.Filter{Device: o.Device, Since: o.Since, Ended: func() bool { return ctx.Err() != nil }}
	reader, err := recorder.NewReader(o.Directory, filter, r.noteSkip)
	if err != nil {
		return nil, withAdvice(err, o.Directory)
	}
	for one, err := range reader.Records() {
		if err != nil {
			r.lacks = append(r.lacks, err.Error())
			break
		}
		if err := r.addRecord(&one); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		after := ""
		if !r.newest.IsZero() {
			after = " after " + formatUTC(r.newest)
		}
		r.lacks = append(r.lacks, "records"+after+": not all were read in time; a later -since makes it faster")
	}
	if err := errors.Join(r.text.Flush(), r.objects.Flush()); err != nil {
		return nil, err
	}
	return r.buildFiles(), nil
}

// withAdvice adds to an error about a directory what to do.
func withAdvice(err error, dir string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; nothing was recorded there: set recorder.directory, or name the directory with -directory", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; only root and the user of the plugin may read %s", err, dir)
	}
	return err
}

// noteSkip records what cannot be read. An incomplete end of the newest segment, if it is the only place, is no damage:
// a plugin is writing it.
func (r *timelineBuilder) noteSkip(s recorder.Skip) {
	if errors.Is(s.Err, recorder.ErrTail) && s.Places == 1 {
		r.notes = append(r.notes, s.String())
		return
	}
	r.lacks = append(r.lacks, s.String())
}

func (r *timelineBuilder) addRecord(one *recorder.Record) error {
	k, err := timeline.NewStoredRecord(one)
	if err != nil {
		r.lacks = append(r.lacks, err.Error())
		return nil
	}
	if !r.Until.IsZero() && k.Time.After(r.Until) {
		return nil
	}
	if r.oldest[1].IsZero() {
		r.oldest[1] = k.Time
	}
	if r.newest.Before(k.Time) {
		r.newest = k.Time
	}
	if err := errors.Join(r.text.Add(k), r.objects.Add(k)); err != nil {
		return err
	}
	if r.records++; max(r.Text.Size(), r.JSONL.Size()) < r.MaxBytes/2 {
		return nil
	}
	r.dropped, r.olderRecords, r.records = r.dropped+r.olderRecords, r.records, 0
	r.oldest = [2]time.Time{r.oldest[1], {}}
	r.text.NewPage()
	return errors.Join(r.Text.Rotate(), r.JSONL.Rotate())
}

func formatUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (r *timelineBuilder) buildFiles() map[string]File {
	n := r.olderRecords + r.records
	span := ""
	if n > 0 {
		span = fmt.Sprintf(", the first of %s, the last of %s; an event and the change of state that it caused stand on one line",
			formatUTC(cmp.Or(r.oldest[0], r.oldest[1])), formatUTC(r.newest))
	}
	notes := append(r.notes, fmt.Sprintf("%d records%s", n, span))
	if r.dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d older records are left out, of which there is no space: rdma-events events prints them", r.dropped))
	}
	return map[string]File{
		TimelineText:  {Data: r.Text, Lacks: r.lacks, Notes: notes},
		TimelineJSONL: {Data: r.JSONL},
	}
}
