package timeline

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Printer writes stored records as lines for people or as JSON objects. It delays an event until
// the next record, which may be the state change that the event caused, and writes both as one.
// Lines are in the order of their times, because the evidence for an event is recorded after the
// events that followed it. Objects are in the order of the recording. A Printer is not safe for
// concurrent use.
type Printer struct {
	Out   io.Writer
	JSON  bool  // write one object per line
	Style Style // of the lines for people
	// Ordered is set if Merge or Read has already ordered the records. The Printer then writes each record at once.
	Ordered bool
	// Hosts is the width of the column with the names of hosts; 0: there is no such column.
	Hosts int

	yield   func(*StoredRecord) error // called instead of writing; nil: write
	pending *StoredRecord             // event that waits for the next record
	lines   []StoredRecord            // lines that wait for lines with an earlier time, by time
	lastDay string                    // of the last line
}

// Limits for the waiting lines. Evidence is recorded up to 6 s after its trigger.
const (
	orderedSpan  = 7 * time.Second
	orderedLines = 256
)

// Add adds a record, and writes all records that no longer need to wait.
func (p *Printer) Add(k StoredRecord) error {
	if p.Ordered {
		return p.deliver(&k)
	}
	if p.pending != nil && p.pending.addCausedChange(&k.Record) {
		return p.printPending()
	}
	if err := p.printPending(); err != nil {
		return err
	}
	if !k.mayCauseChange() {
		return p.enqueue(k)
	}
	p.pending = &k
	return nil
}

// printPending enqueues the pending event, if there is one.
func (p *Printer) printPending() error {
	k := p.pending
	if k == nil {
		return nil
	}
	p.pending = nil
	return p.enqueue(*k)
}

// Flush writes all waiting records.
func (p *Printer) Flush() error {
	if err := p.printPending(); err != nil {
		return err
	}
	return p.writeLinesExcept(0)
}

// NewPage makes the Printer write the day again before the next line.
func (p *Printer) NewPage() { p.lastDay = "" }

// enqueue writes a record as an object at once, and as a line as soon as no line with an earlier
// time can follow. Records about the recorder itself keep their place, because the clock may
// start anew there.
func (p *Printer) enqueue(k StoredRecord) error {
	if p.JSON {
		return p.deliver(&k)
	}
	if k.Start != nil || k.Clock != nil || k.Lost != nil || len(p.lines) > 0 && p.lines[0].BootID != k.BootID {
		if err := p.writeLinesExcept(0); err != nil {
			return err
		}
	}
	at, _ := slices.BinarySearchFunc(p.lines, k.Time.Add(1), func(have StoredRecord, t time.Time) int { return have.Time.Compare(t) })
	p.lines = slices.Insert(p.lines, at, k)
	if k.Start != nil || k.Clock != nil || k.Lost != nil {
		return p.writeLinesExcept(0)
	}
	wait := len(p.lines)
	newest := p.lines[wait-1].Time
	for _, one := range p.lines {
		if wait <= orderedLines && newest.Sub(one.Time) <= orderedSpan {
			break
		}
		wait--
	}
	return p.writeLinesExcept(wait)
}

// writeLinesExcept writes all waiting lines except the last remaining ones.
func (p *Printer) writeLinesExcept(remaining int) error {
	n := len(p.lines) - remaining
	for i := range p.lines[:n] {
		if err := p.deliver(&p.lines[i]); err != nil {
			return err
		}
	}
	p.lines = slices.Delete(p.lines, 0, n)
	return nil
}

// deliver passes a record to yield, or writes it.
func (p *Printer) deliver(k *StoredRecord) error {
	if p.yield != nil {
		return p.yield(k)
	}
	if err := p.write(k); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

func (p *Printer) write(k *StoredRecord) error {
	if p.JSON {
		e := json.NewEncoder(p.Out)
		e.SetEscapeHTML(false)
		return e.Encode(k)
	}
	if k.Alive != nil {
		return nil // not a line: nothing happened
	}
	if day := k.Time.Local().Format("2006-01-02"); day != p.lastDay {
		p.lastDay = day
		if _, err := fmt.Fprintln(p.Out, day); err != nil {
			return err
		}
	}
	line := p.Style.StoredLine(k)
	if at, rest, ok := strings.Cut(line, "  "); ok && p.Hosts > 0 {
		line = fmt.Sprintf("%s  %-*s  %s", at, p.Hosts, k.Host, rest)
	}
	_, err := fmt.Fprintln(p.Out, line)
	return err
}
