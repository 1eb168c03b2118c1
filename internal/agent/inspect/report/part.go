package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
	"unicode"
)

// Part makes one or several files of a report.
type Part struct {
	// Files are what it makes, in the order of the archive.
	Files []Description
	// Stage orders the parts in time: all of one stage are made at once, before the next stage.
	Stage int
	// Limit is when the context of Make ends. A Make that has not returned some time later is
	// left behind, and its files are missing.
	Limit time.Duration
	// Make returns the files, by their names. Those that it does not return are missing, because
	// of the error. It is called once, and must not use what anything else changes.
	Make func(ctx context.Context) (map[string]File, error)
}

// Description is the name of a file in the archive, with slashes, and what it is: a few words.
type Description struct{ Name, About string }

// File is the content of a file.
type File struct {
	Data Data
	// Lacks are parts that it should have and has not, each with its reason; one line each.
	Lacks []string
	// Notes are what else a reader has to know; one line each.
	Notes []string
	// Removed are places where a value was removed.
	Removed []string
}

// Data is what a file holds. It does not change any more.
type Data interface {
	io.WriterTo
	// Len returns the number of bytes that WriteTo writes.
	Len() int64
}

// Text is Data in memory.
type Text []byte

// Len implements Data.
func (t Text) Len() int64 { return int64(len(t)) }

// WriteTo implements Data.
func (t Text) WriteTo(w io.Writer) (int64, error) { return bytes.NewReader(t).WriteTo(w) }

// LeftOutError is the error of a part that is not missing, since there is nothing to put into it or it
// was not asked for.
type LeftOutError string

// Error implements error.
func (l LeftOutError) Error() string { return string(l) }

// InsteadError is an error with the command that gives an operator what is missing.
type InsteadError struct {
	Err     error
	Command string
}

// Error implements error.
func (i *InsteadError) Error() string { return fmt.Sprintf("%v; instead: %s", i.Err, i.Command) }

// Unwrap returns the cause.
func (i *InsteadError) Unwrap() error { return i.Err }

// errLeftBehind is the reason of a part whose Make has not returned.
var errLeftBehind = errors.New("it did not end in time, and is left behind")

// ErrLate is the cause of a context that ends because the whole report may not take longer. A Make that goes on after it is left
// behind at once.
var ErrLate = errors.New("there was no time left for it")

// atOnce is how long a Make may go on after ErrLate.
const atOnce = 200 * time.Millisecond

// grace is how long a Make may go on after its context has ended.
const grace = 2 * time.Second

// together is how many parts of a stage are made at once.
const together = 8

// Made is a file of a report, or why it is missing.
type Made struct {
	Description
	File           // without Data if Missing is set
	Missing error  // nil: it is there
	As      string // another file of the same part that is missing for the same reason
	At      time.Time
}

// Collect makes the parts and returns their files in the order of the parts. It blocks for the sum
// of the stages' longest limits at most, somewhat longer where a stage has many parts. If ctx ends, the rest is missing.
func Collect(ctx context.Context, parts []Part, now func() time.Time) []Made {
	results := make([][]Made, len(parts))
	for _, stage := range stages(parts) {
		var all sync.WaitGroup
		slots := make(chan struct{}, together)
		for i := range parts {
			if parts[i].Stage != stage {
				continue
			}
			slots <- struct{}{} // in the order of the parts, so that the first ones begin where time is short
			all.Go(func() {
				defer func() { <-slots }()
				results[i] = parts[i].make(ctx, now)
			})
		}
		all.Wait()
	}
	var made []Made
	for _, r := range results {
		made = append(made, r...)
	}
	return made
}

// make makes the files of a part.
func (p *Part) make(ctx context.Context, now func() time.Time) []Made {
	at := now()
	files, err := p.files(ctx)
	all := make([]Made, len(p.Files))
	for i, d := range p.Files {
		f, ok := files[d.Name]
		f.Lacks, f.Notes, f.Removed = cut(f.Lacks), cut(f.Notes), cut(f.Removed)
		all[i] = Made{Description: d, File: f, At: at}
		if ok && f.Data != nil {
			continue
		}
		if all[i].Missing = err; err == nil {
			all[i].Missing = errors.New("it was not made")
		}
		if i > 0 && all[0].Missing != nil {
			all[i].As = all[0].Name
		}
	}
	return all
}

// cut returns the first of many lines, and how many more there are.
func cut(lines []string) []string {
	const most = 50
	if more := len(lines) - most; more > 0 {
		return append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", more))
	}
	return lines
}

// files calls Make, and leaves it behind if it does not end.
func (p *Part) files(ctx context.Context) (map[string]File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	type result struct {
		files map[string]File
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if v := recover(); v != nil {
				r = result{err: fmt.Errorf("panic: %v", v)}
			}
			done <- r
		}()
		r.files, r.err = p.Make(ctx)
	}()
	select {
	case r := <-done:
		return r.files, r.err
	case <-ctx.Done():
	}
	patience := grace
	if errors.Is(context.Cause(ctx), ErrLate) {
		patience = atOnce
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-done:
		return r.files, r.err
	case <-late.C:
		if patience == atOnce {
			return nil, ErrLate
		}
		return nil, fmt.Errorf("%w: its limit is %s", errLeftBehind, p.Limit)
	}
}

// stages returns the stages that parts have, in their order.
func stages(parts []Part) []int {
	seen := map[int]bool{}
	for i := range parts {
		seen[parts[i].Stage] = true
	}
	return sortedKeys(seen)
}

// OneLine returns a text as one line that a terminal shows as it is: it may come from a device, a
// library or a damaged file.
func OneLine(text string) string {
	const most = 400
	var b bytes.Buffer
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case space:
			b.WriteByte(' ')
		}
		space = false
		if !unicode.IsPrint(r) {
			r = '?'
		}
		if b.WriteRune(r); b.Len() >= most {
			return b.String() + "..."
		}
	}
	return b.String()
}

// The stages. What shows how things are comes first, and what tries devices last.
const (
	stageDevices = iota
	stageRest
	stageDoctor
)
