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

// Part makes one or more files of a report.
type Part struct {
	// Files describes the files of the part, in the order of the archive.
	Files []Description
	// Stage orders the parts in time. All parts of one stage are made at the same time, before the next stage.
	Stage int
	// Timeout is the time after which the context of Make ends, with a cause that names it. If Make does not return
	// soon afterwards, it is left behind, and its files are missing.
	Timeout time.Duration
	// Make returns the files by name. A file that it does not return is missing because of the error. Make is called
	// once, and must not use data that others change.
	Make func(ctx context.Context) (map[string]File, error)
}

// Description names a file in the archive, with slashes in the name, and describes it in a few words.
type Description struct{ Name, About string }

// File is the content of a file.
type File struct {
	Data Data
	// Lacks lists content that is missing in the file, each with its reason in one line.
	Lacks []string
	// Notes lists what else a reader must know, in one line each.
	Notes []string
	// Removed lists places where a value was removed.
	Removed []string
}

// Data is the content of a file. It does not change any more.
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

// OmittedError is the error of a part that was omitted on purpose, because it has no content or was not requested.
type OmittedError string

// Error implements error.
func (l OmittedError) Error() string { return string(l) }

// AlternativeError is an error together with a command by which an operator can get the missing content.
type AlternativeError struct {
	Err     error
	Command string
}

// Error implements error.
func (i *AlternativeError) Error() string { return fmt.Sprintf("%v; instead: %s", i.Err, i.Command) }

// Unwrap returns the cause.
func (i *AlternativeError) Unwrap() error { return i.Err }

// errLeftBehind is the error of a part whose Make has not returned.
var errLeftBehind = errors.New("it did not end in time, and is left behind")

// ErrLate is the cause of a context that ends because the time for the whole report is over. A Make that is still
// running then is left behind almost at once.
var ErrLate = errors.New("there was no time left for it")

// lateGrace is the time for which a Make may continue after ErrLate.
const lateGrace = 200 * time.Millisecond

// grace is the time for which a Make may continue after its context has ended.
const grace = 2 * time.Second

// maxParallel is the maximum number of parts of a stage that are made at the same time.
const maxParallel = 8

// Result is a file of a report, or the reason why it is missing.
type Result struct {
	Description
	File           // without Data if Missing is set
	Missing error  // nil if the file is there
	SameAs  string // name of another file of the part that is missing for the same reason
	MadeAt  time.Time
}

// Collect makes the parts and returns their files in the order of the parts. It blocks for the sum of the longest
// timeout of each stage at most, and somewhat longer if a stage has many parts. If ctx ends, the remaining files are
// missing.
func Collect(ctx context.Context, parts []Part, now func() time.Time) []Result {
	results := make([][]Result, len(parts))
	for _, stage := range listStages(parts) {
		var all sync.WaitGroup
		slots := make(chan struct{}, maxParallel)
		for i := range parts {
			if parts[i].Stage != stage {
				continue
			}
			slots <- struct{}{} // the first parts start first, in case time is short
			all.Go(func() {
				defer func() { <-slots }()
				results[i] = parts[i].makeResults(ctx, now)
			})
		}
		all.Wait()
	}
	var made []Result
	for _, r := range results {
		made = append(made, r...)
	}
	return made
}

// makeResults makes the files of a part.
func (p *Part) makeResults(ctx context.Context, now func() time.Time) []Result {
	at := now()
	files, err := p.callMake(ctx)
	all := make([]Result, len(p.Files))
	for i, d := range p.Files {
		f, ok := files[d.Name]
		f.Lacks, f.Notes, f.Removed = limitLines(f.Lacks), limitLines(f.Notes), limitLines(f.Removed)
		all[i] = Result{Description: d, File: f, MadeAt: at}
		if ok && f.Data != nil {
			continue
		}
		if all[i].Missing = err; err == nil {
			all[i].Missing = errors.New("it was not made")
		}
		if i > 0 && all[0].Missing != nil {
			all[i].SameAs = all[0].Name
		}
	}
	return all
}

// limitLines returns the first lines, followed by the number of omitted ones.
func limitLines(lines []string) []string {
	const most = 50
	if more := len(lines) - most; more > 0 {
		return append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", more))
	}
	return lines
}

// callMake calls Make, and leaves it behind if it does not return in time.
func (p *Part) callMake(ctx context.Context) (map[string]File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("not finished within its limit of %s", p.Timeout))
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
		patience = lateGrace
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-done:
		return r.files, r.err
	case <-late.C:
		if patience == lateGrace {
			return nil, ErrLate
		}
		return nil, fmt.Errorf("%w: its limit is %s", errLeftBehind, p.Timeout)
	}
}

// listStages returns the stages of the parts, in order.
func listStages(parts []Part) []int {
	seen := map[int]bool{}
	for i := range parts {
		seen[parts[i].Stage] = true
	}
	return sortedKeys(seen)
}

// OneLine returns a text as one line of printable characters. The text may come from a device, a library or a damaged
// file.
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

// The stages. Parts that show the current state come first, and parts that try devices last.
const (
	stageDevices = iota
	stageRest
	stageDoctor
)
