package timeline

import (
	"fmt"
	"strings"

	"rdma_events/internal/recorder"
	"rdma_events/internal/verbs"
)

// Style is how records are written as text.
type Style struct {
	Colours bool
	ASCII   bool // without block characters
}

// Colours (console_codes(4)).
const (
	Dim    = "2"
	plain  = ""
	Red    = "31"
	green  = "32"
	yellow = "33"
)

// Line returns a record as a line of text, without its end.
func (s Style) Line(r *Record) string {
	name, detail, colour := s.words(r)
	return s.compose(r, name, detail, colour)
}

// Kept is Line for a record that was read from a recorder.
func (s Style) Kept(k *Kept) string {
	name, detail, colour := s.words(&k.Record)
	if k.Kind == recorder.KindEnd || k.Start != nil || k.Lost != nil || k.Clock != nil {
		name, detail, colour = k.own()
	}
	return s.compose(&k.Record, name, detail, colour)
}

func (s Style) compose(r *Record, name, detail, colour string) string {
	at := s.Paint(Dim, r.Time.Local().Format("15:04:05.000000"))
	where := fmt.Sprintf("%-10s", r.Where())
	if detail != "" {
		name = fmt.Sprintf("%-20s", name)
		detail = " " + detail
	}
	return strings.TrimRight(at+"  "+where+"  "+s.Paint(colour, name)+detail, " ")
}

// words returns what happened, and details of it.
func (s Style) words(r *Record) (name, detail, colour string) {
	name, detail, colour = r.Event, "", plain
	switch r.Kind {
	case KindEvent:
		colour = colourOf(r.Event)
		detail = s.transition(r)
	case KindState:
		name, detail = "("+string(r.Witness)+")", s.transition(r)
	case KindGID:
		name, detail = "gid", r.GID.line()
		if r.GID.Action == verbs.GIDMoved {
			colour = yellow
		}
	case KindAttr:
		name, detail = r.Attr.Name, r.Attr.From+" > "+r.Attr.To
	case KindCommand:
		name, detail, colour = "command", r.Command.line(), green
		if r.Command.Stuck {
			colour = Red
		}
	case KindEvidence:
		name, detail = "why "+string(r.Evidence.Trigger), r.Evidence.line()
	case KindPort:
		name, detail = "(first look)", s.state(r.StateTo)+", "+r.Link.line()
	case KindDevice:
		name, detail, colour = "not watched: "+string(r.Reason), r.Why, Red
		if r.Opened != nil {
			name, colour = r.Opened.line(), Dim
		}
	case KindProbe:
		name, detail = r.Probe.Line(s.ASCII), ""
	case KindPlugin:
		name = fmt.Sprintf("rdma-events %s on %s, Linux %s", r.Plugin.Version, r.Plugin.Host, r.Plugin.Kernel)
	case KindAppEvent, KindAppUnread, KindAppHang:
		name, detail = s.appWords(r)
	case KindAppHolds:
		name, detail, colour = heldWords(r), "", Dim
	case KindFabricPeer, KindFabricPair:
		name = s.Word(r.Peer, 0) + "  " + r.Peer.Line() // it stands behind names, and not in a column
	case KindFabricPort:
		name, detail, colour = string(r.Fabric.Verdict), r.Fabric.line(), r.Fabric.colour()
	case KindTracer:
		name, detail, colour = r.Tracer.line(r.Reason), r.Why, Red
		if r.Tracer.Attached {
			colour = Dim
		}
	case KindLog:
		name = r.Level + ": " + r.Text
		if r.Level == "warning" {
			colour = yellow
		}
	}
	if name == "" {
		name = "(" + r.Kind + ")"
	}
	return name, detail, colour
}

// transition returns the change of state that an event or a query caused, how long the
// state before lasted, and the number of events if there are several.
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

// Paint puts text into a colour, if there are any.
func (s Style) Paint(colour, text string) string {
	if !s.Colours || colour == plain {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
