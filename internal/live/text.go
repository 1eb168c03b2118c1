package live

import (
	"bytes"
	"encoding/json"
	"fmt"

	"rdma_events/internal/timeline"
)

// show writes records, and then those of probes: on a terminal in place below all other
// lines, else as further lines.
func (s *Screen) show(records, probes []record) error {
	var b bytes.Buffer
	if s.cfg.Colours && !s.cfg.JSON {
		s.block.clear(&b, len(records) > 0 || probes != nil)
		s.write(&b, records)
		if probes != nil {
			s.block.lines = s.lines(probes)
		}
		s.block.draw(&b)
	} else {
		s.write(&b, records)
		s.write(&b, probes)
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := s.cfg.Out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
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
