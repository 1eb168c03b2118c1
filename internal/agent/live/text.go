package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"rdma_events/internal/record/timeline"
	"rdma_events/internal/telemetry/measure"
)

// currentView is the current state of probes or pairs. On a terminal it is shown in place below all other lines,
// otherwise as further lines.
type currentView struct {
	records []record
	lines   []string // for the block
	plain   []string // text if Out is no terminal; nil: the records are shown
}

// newView returns the view of the points of an interval, or nil if there is nothing to show.
func (s *Screen) newView(points []measure.Point, now time.Time) *currentView {
	if s.cfg.Pairs != nil {
		return s.pairView(now)
	}
	probes := s.probeRecords(points, now)
	if probes == nil {
		return nil
	}
	return &currentView{records: probes, lines: s.probeLines(probes)}
}

// writeOutput writes records, and then the view unless it is nil.
func (s *Screen) writeOutput(records []record, now *currentView) error {
	var b bytes.Buffer
	if s.cfg.Colours && !s.cfg.JSON {
		s.block.erase(&b, len(records) > 0 || now != nil)
		s.writeRecords(&b, records)
		if now != nil {
			s.block.lines = now.lines
		}
		s.block.draw(&b)
	} else {
		s.writeRecords(&b, records)
		s.writeView(&b, now)
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := s.cfg.Out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (s *Screen) writeView(b *bytes.Buffer, now *currentView) {
	switch {
	case now == nil:
	case s.cfg.JSON || now.plain == nil:
		s.writeRecords(b, now.records)
	default:
		for _, line := range now.plain {
			b.WriteString(line + "\n")
		}
	}
}

func (s *Screen) writeRecords(b *bytes.Buffer, records []record) {
	for i := range records {
		if !s.cfg.JSON {
			b.WriteString(s.style.Line(&records[i].Record) + "\n")
			continue
		}
		records[i].Schema = timeline.Schema
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		_ = e.Encode(&records[i].Record) // cannot fail: strings and numbers go into a buffer
	}
}

// probeHeading is the line above the probes of the block.
const probeHeading = "wake: of the last second; p50, p99: of the window; [rounds by wake-up] from..to"

// probeLines returns the lines of the block. They have no time, because the block shows the current state.
func (s *Screen) probeLines(records []record) []string {
	if len(records) == 0 {
		return nil
	}
	lines := []string{s.style.Paint(timeline.Dim, probeHeading)}
	for i := range records {
		lines = append(lines, fmt.Sprintf("%-10s  %s", records[i].Where(), records[i].Probe.Line(s.cfg.ASCII)))
	}
	return lines
}
