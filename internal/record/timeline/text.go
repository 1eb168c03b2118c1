package timeline

import (
	"fmt"
	"strings"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/recorder"
)

// Style selects how records are written as text.
type Style struct {
	Colours bool
	ASCII   bool // no block characters
}

// Colours, as parameters of the escape sequence (console_codes(4)).
const (
	Dim    = "2"
	plain  = ""
	Red    = "31"
	green  = "32"
	yellow = "33"
)

// Line returns a record as a line of text, without the line feed.
func (s Style) Line(r *Record) string {
	return s.compose(r, s.words(r))
}

// StoredLine returns a stored record as a line of text, without the line feed.
func (s Style) StoredLine(k *StoredRecord) string {
	w := s.words(&k.Record)
	if k.Kind == recorder.KindEnd || k.Start != nil || k.Lost != nil || k.Clock != nil {
		w = k.recorderWording()
	}
	return s.compose(&k.Record, w)
}

// compose returns the line of a record with its time, its device and a wording.
func (s Style) compose(r *Record, w wording) string {
	at := s.Paint(Dim, r.Time.Local().Format("15:04:05.000000"))
	where := fmt.Sprintf("%-10s", r.Where())
	if w.detail != "" {
		w.name = fmt.Sprintf("%-20s", w.name)
		w.detail = " " + w.detail
	}
	return strings.TrimRight(at+"  "+where+"  "+s.Paint(w.colour, w.name)+w.detail, " ")
}

// transition returns the state change that an event or a query caused, the time spent in
// the previous state, and the number of events if there are several.
func (s Style) transition(r *Record) string {
	text := ""
	switch {
	case r.StateFrom != r.StateTo:
		text = s.state(r.StateFrom) + " > " + s.state(r.StateTo)
	case r.Event == verbs.EventPortErr.String() || r.Event == verbs.EventPortActive.String():
		text = s.state(r.StateTo)
	}
	if r.LastedNS > 0 {
		text += fmt.Sprintf(", %s for %s", r.StateFrom, Duration(r.LastedNS))
	}
	if r.Count > 1 {
		text += fmt.Sprintf("  (%d times)", r.Count)
	}
	return strings.TrimSpace(text)
}

func (s Style) state(name string) string {
	switch name {
	case verbs.PortActive.String():
		return s.Paint(green, name)
	case verbs.PortDown.String(), verbs.PortAbsent.String():
		return s.Paint(Red, name)
	}
	return name
}

func colourOf(event string) string {
	switch {
	case event == "port_active":
		return green
	case strings.HasSuffix(event, "_err") || strings.HasSuffix(event, "_fatal"):
		return Red
	}
	return plain
}

// colourIf returns colour if is is set, and otherwise the other colour.
func colourIf(is bool, colour, otherwise string) string {
	if is {
		return colour
	}
	return otherwise
}

// Paint returns text in a colour, if the Style uses colours.
func (s Style) Paint(colour, text string) string {
	if !s.Colours || colour == plain {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
