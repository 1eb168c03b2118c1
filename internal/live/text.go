package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"rdma_events/internal/verbs"
)

// Colours (console_codes(4)).
const (
	plain  = ""
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
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
			b.WriteString(s.line(&records[i]) + "\n")
			continue
		}
		records[i].Schema = schema
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		_ = e.Encode(&records[i]) // cannot fail: strings and numbers go into a buffer
	}
}

// histogramText is the line above the probes of the block.
const histogramText = "wake: of the last second; p50, p99: of the window; [rounds by wake-up] from..to"

// lines returns the lines of the block. They have no time: the block shows the present.
func (s *Screen) lines(records []record) []string {
	if len(records) == 0 {
		return nil
	}
	lines := []string{s.paint(dim, histogramText)}
	for i := range records {
		lines = append(lines, fmt.Sprintf("%-10s  %s", records[i].where(), records[i].Probe.line(s.cfg.ASCII)))
	}
	return lines
}

func (s *Screen) line(r *record) string {
	at := s.paint(dim, r.Time.Local().Format("15:04:05.000000"))
	where := fmt.Sprintf("%-10s", r.where())
	name, detail, colour := r.Event, "", plain
	switch r.Kind {
	case kindEvent:
		colour = colourOf(r.Event)
		detail = s.transition(r)
	case kindState:
		name, detail = "("+r.Witness+")", s.transition(r)
	case kindGID:
		name, detail = "gid", r.GID.line()
		if r.GID.Action == string(verbs.GIDMoved) {
			colour = yellow
		}
	case kindAttr:
		name, detail = r.Attr.Name, r.Attr.From+" > "+r.Attr.To
	case kindCommand:
		name, detail, colour = "command", r.Command.line(), green
		if r.Command.Stuck {
			colour = red
		}
	case kindPort:
		name, detail = "(first look)", s.state(r.StateTo)+", "+r.Link.line()
	case kindDevice:
		name, detail, colour = "not watched: "+r.Reason, "", red
		if r.Opened != nil {
			name, colour = r.Opened.line(), dim
		}
	case kindProbe:
		name, detail = r.Probe.line(s.cfg.ASCII), ""
	case kindLog:
		name = r.Level + ": " + r.Text
		if r.Level == "warning" {
			colour = yellow
		}
	}
	if detail != "" {
		name = fmt.Sprintf("%-20s", name)
		detail = " " + detail
	}
	return strings.TrimRight(at+"  "+where+"  "+s.paint(colour, name)+detail, " ")
}

// transition returns the change of state that an event or a query caused, how long the
// state before lasted, and the number of events if there are several.
func (s *Screen) transition(r *record) string {
	text := s.state(r.StateTo)
	if r.StateFrom != r.StateTo {
		text = s.state(r.StateFrom) + " > " + text
	}
	if r.LastedNS > 0 {
		text += " after " + duration(r.LastedNS)
	}
	if r.Count > 1 {
		text += fmt.Sprintf("  (%d times)", r.Count)
	}
	return strings.TrimSpace(text)
}

func (s *Screen) state(name string) string {
	switch name {
	case verbs.PortActive.String():
		return s.paint(green, name)
	case verbs.PortDown.String(), verbs.PortAbsent.String():
		return s.paint(red, name)
	}
	return name
}

func colourOf(event string) string {
	switch {
	case event == "port_active":
		return green
	case strings.HasSuffix(event, "_err") || strings.HasSuffix(event, "_fatal"):
		return red
	}
	return plain
}

func (s *Screen) paint(colour, text string) string {
	if !s.cfg.Colours || colour == plain {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
