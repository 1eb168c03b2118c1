package timeline

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Printer writes records that were kept, as lines for people or as JSON objects. An event waits
// for the next record, which may be the change of state that it caused. Lines are in the order
// of their times, since what explains an event is recorded after what followed it; objects are
// in the order in which they were recorded. One goroutine uses it.
type Printer struct {
	Out   io.Writer
	JSON  bool  // one object a line
	Style Style // of the lines for people
	// Ordered is set for records that Merge or Read has put into their order: each is written at once.
	Ordered bool
	// Hosts is the width of the column with the names of hosts; 0: lines have none.
	Hosts int

	put   func(*Kept) error // in place of writing; nil: write
	held  *Kept
	lines []Kept // that wait for earlier ones, by time
	day   string
}

// The most that a line waits for earlier ones: evidence is recorded up to 6 s after its trigger.
const (
	orderedSpan  = 7 * time.Second
	orderedLines = 256
)

// Add writes a record, after those that wait, or has it wait.
func (p *Printer) Add(k Kept) error {
	if p.Ordered {
		return p.written(&k)
	}
	if p.held != nil && p.held.join(&k.Record) {
		return p.release()
	}
	if err := p.release(); err != nil {
		return err
	}
	if !k.mayJoin() {
		return p.print(k)
	}
	p.held = &k
	return nil
}

// release passes on the event that waits, if one does.
func (p *Printer) release() error {
	k := p.held
	if k == nil {
		return nil
	}
	p.held = nil
	return p.print(*k)
}

// Flush writes what waits.
func (p *Printer) Flush() error {
	if err := p.release(); err != nil {
		return err
	}
	return p.writeLines(0)
}

// NewPage has the next line begin with its day again.
func (p *Printer) NewPage() { p.day = "" }

// print writes an object, or a line as soon as no earlier one may come. Records of the recorder
// itself keep their place: the time may begin anew there.
func (p *Printer) print(k Kept) error {
	if p.JSON {
		return p.written(&k)
	}
	if k.Start != nil || k.Clock != nil || k.Lost != nil || len(p.lines) > 0 && p.lines[0].BootID != k.BootID {
		if err := p.writeLines(0); err != nil {
			return err
		}
	}
	at, _ := slices.BinarySearchFunc(p.lines, k.Time.Add(1), func(have Kept, t time.Time) int { return have.Time.Compare(t) })
	p.lines = slices.Insert(p.lines, at, k)
	if k.Start != nil || k.Clock != nil || k.Lost != nil {
		return p.writeLines(0)
	}
	wait := len(p.lines)
	newest := p.lines[wait-1].Time
	for _, one := range p.lines {
		if wait <= orderedLines && newest.Sub(one.Time) <= orderedSpan {
			break
		}
		wait--
	}
	return p.writeLines(wait)
}

// writeLines writes lines until so many wait.
func (p *Printer) writeLines(wait int) error {
	n := len(p.lines) - wait
	for i := range p.lines[:n] {
		if err := p.written(&p.lines[i]); err != nil {
			return err
		}
	}
	p.lines = slices.Delete(p.lines, 0, n)
	return nil
}

func (p *Printer) written(k *Kept) error {
	if p.put != nil {
		return p.put(k)
	}
	if err := p.write(k); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

func (p *Printer) write(k *Kept) error {
	if p.JSON {
		e := json.NewEncoder(p.Out)
		e.SetEscapeHTML(false)
		return e.Encode(k)
	}
	if k.Alive != nil {
		return nil // nothing happened
	}
	if day := k.Time.Local().Format("2006-01-02"); day != p.day {
		p.day = day
		if _, err := fmt.Fprintln(p.Out, day); err != nil {
			return err
		}
	}
	line := p.Style.Kept(k)
	if at, rest, ok := strings.Cut(line, "  "); ok && p.Hosts > 0 {
		line = fmt.Sprintf("%s  %-*s  %s", at, p.Hosts, k.Host, rest)
	}
	_, err := fmt.Fprintln(p.Out, line)
	return err
}
