package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"rdma_events/internal/record/timeline"
	"rdma_events/internal/telemetry/measure"
)

// page is what there is now: on a terminal in place below all other lines, else below them as further ones.
type page struct {
	records []record
	lines   []string // for the block
	plain   []string // where there is no terminal; nil: the records
}

// present returns what there is now, nil if there is nothing to be shown. points are those of a Gather.
func (s *Screen) present(points []measure.Point, now time.Time) *page {
	if s.cfg.Pairs != nil {
		return s.pairs(now)
	}
	probes := s.probes(points, now)
	if probes == nil {
		return nil
	}
	return &page{records: probes, lines: s.lines(probes)}
}

// show writes records, and then what there is now, unless that is nil.
func (s *Screen) show(records []record, now *page) error {
	var b bytes.Buffer
	if s.cfg.Colours && !s.cfg.JSON {
		s.block.clear(&b, len(records) > 0 || now != nil)
		s.write(&b, records)
		if now != nil {
			s.block.lines = now.lines
		}
		s.block.draw(&b)
	} else {
		s.write(&b, records)
		s.writePage(&b, now)
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := s.cfg.Out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (s *Screen) writePage(b *bytes.Buffer, now *page) {
	switch {
	case now == nil:
	case s.cfg.JSON || now.plain == nil:
		s.write(b, now.records)
	default:
		for _, line := range now.plain {
			b.WriteString(line + "\n")
		}
	}
}

func (s *Screen) write(b *bytes.Buffer, records []record) {
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

// histogramText is the line above the probes of the block.
const histogramText = "wake: of the last second; p50, p99: of the window; [rounds by wake-up] from..to"

// lines returns the lines of the block. They have no time: the block shows the present.
func (s *Screen) lines(records []record) []string {
	if len(records) == 0 {
		return nil
	}
	lines := []string{s.style.Paint(timeline.Dim, histogramText)}
	for i := range records {
		lines = append(lines, fmt.Sprintf("%-10s  %s", records[i].Where(), records[i].Probe.Line(s.cfg.ASCII)))
	}
	return lines
}
