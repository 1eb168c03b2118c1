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

// TimelineOptions says what of the recorder's records is taken.
type TimelineOptions struct {
	Directory string    // of the recorder
	Since     time.Time // the zero Time: all that is left
	Until     time.Time // the zero Time: to the end
	Device    string    // "": all; what concerns the host is always taken
	// Spools make the files' Data; the caller closes them after all.
	Text, JSONL *Spool
	// Most is how many bytes each of the files has at most, but for one record. Older records are left out.
	Most int64
}

// timelineLimit is how long records are read: a directory of 1 GiB has some three million.
const timelineLimit = 2 * time.Minute

// Timeline returns the part with the recorder's records.
func Timeline(o TimelineOptions) Part {
	return Part{
		Files: []Description{
			{TimelineText, "what was recorded, for people"},
			{TimelineJSONL, "the same, an object a line, as of rdma-events events -json"},
		},
		Stage: stageRest, Limit: timelineLimit,
		Make: o.make,
	}
}

// reading is one run through the records.
type reading struct {
	TimelineOptions
	text, objects timeline.Printer

	records int // since the last turn
	before  int // between the two turns before
	dropped int
	oldest  [2]time.Time // between the two turns before, and since the last one
	newest  time.Time
	lacks   []string
	notes   []string
}

func (o TimelineOptions) make(ctx context.Context) (map[string]File, error) {
	r := &reading{
		TimelineOptions: o, text: timeline.Printer{Out: o.Text}, objects: timeline.Printer{Out: o.JSONL, JSON: true},
	}
	filter := recorder.Filter{Device: o.Device, Since: o.Since, Ended: func() bool { return ctx.Err() != nil }}
	reader, err := recorder.NewReader(o.Directory, filter, r.skipped)
	if err != nil {
		return nil, advised(err, o.Directory)
	}
	for one, err := range reader.Records() {
		if err != nil {
			r.lacks = append(r.lacks, err.Error())
			break
		}
		if err := r.add(&one); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		after := ""
		if !r.newest.IsZero() {
			after = " after " + inUTC(r.newest)
		}
		r.lacks = append(r.lacks, "records"+after+": not all were read in time; a later -since makes it faster")
	}
	if err := errors.Join(r.text.Flush(), r.objects.Flush()); err != nil {
		return nil, err
	}
	return r.files(), nil
}

// advised says what to do about a directory that cannot be read.
func advised(err error, dir string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; nothing was recorded there: set recorder.directory, or name the directory with -directory", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; only root and the user of the plugin may read %s", err, dir)
	}
	return err
}

// skipped notes what cannot be read. The end of the newest segment, which is one place, is no damage
// while a plugin writes it.
func (r *reading) skipped(s recorder.Skip) {
	if errors.Is(s.Err, recorder.ErrTail) && s.Places == 1 {
		r.notes = append(r.notes, s.String())
		return
	}
	r.lacks = append(r.lacks, s.String())
}

func (r *reading) add(one *recorder.Record) error {
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
	if r.records++; max(r.Text.Size(), r.JSONL.Size()) < r.Most/2 {
		return nil
	}
	r.dropped, r.before, r.records = r.dropped+r.before, r.records, 0
	r.oldest = [2]time.Time{r.oldest[1], {}}
	r.text.NewPage()
	return errors.Join(r.Text.Turn(), r.JSONL.Turn())
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (r *reading) files() map[string]File {
	n := r.before + r.records
	span := ""
	if n > 0 {
		span = fmt.Sprintf(", the first of %s, the last of %s; an event and the change of state that it caused stand on one line",
			inUTC(cmp.Or(r.oldest[0], r.oldest[1])), inUTC(r.newest))
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
