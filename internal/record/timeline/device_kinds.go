package timeline

import (
	"fmt"
	"strings"

	"rdma_events/internal/device/verbs"
)

// Kinds of records about devices and their ports.
const (
	KindEvent    = "event"    // an asynchronous event, with the state change that it caused
	KindState    = "state"    // a state change without an event
	KindGID      = "gid"      // a GID was added, removed or moved
	KindAttr     = "attr"     // an attribute changed
	KindCommand  = "command"  // a call becomes stuck, or no longer is: it was answered, or the device was removed
	KindEvidence = "evidence" // the readings after a trigger, and the cause
	KindPort     = "port"     // the state of a port became known
	KindDevice   = "device"   // a device was opened or removed, or cannot be watched
	KindProbe    = "probe"    // results of a probe in the last interval
)

func deviceKinds() []kind {
	return []kind{
		{
			name:  KindEvent,
			words: func(s Style, r *Record) wording { return wording{r.Event, s.transition(r), colourOf(r.Event)} },
			isUrgent: func(r *Record) bool {
				return r.Event == verbs.EventPortErr.String() || r.Event == verbs.EventDeviceFatal.String()
			},
		},
		{
			name: KindState,
			words: func(s Style, r *Record) wording {
				return wording{"(" + string(r.Witness) + ")", s.transition(r), plain}
			},
		},
		{
			name:    KindGID,
			isWhole: func(r *Record) bool { return r.GID != nil },
			words: func(_ Style, r *Record) wording {
				return wording{"gid", r.GID.line(), colourIf(r.GID.Action == verbs.GIDMoved, yellow, plain)}
			},
		},
		{
			name:    KindAttr,
			isWhole: func(r *Record) bool { return r.Attr != nil },
			words:   func(_ Style, r *Record) wording { return wording{r.Attr.Name, r.Attr.From + " > " + r.Attr.To, plain} },
		},
		{
			name:    KindCommand,
			isWhole: func(r *Record) bool { return r.Command != nil },
			words: func(_ Style, r *Record) wording {
				return wording{"command", r.Command.line(), colourIf(r.Command.Stuck, Red, green)}
			},
			isUrgent: func(r *Record) bool { return r.Command.Stuck },
		},
		{
			name:    KindEvidence,
			isWhole: func(r *Record) bool { return r.Evidence != nil },
			words: func(_ Style, r *Record) wording {
				return wording{"why " + string(r.Evidence.Trigger), r.Evidence.line(), plain}
			},
		},
		{
			name:    KindPort,
			isWhole: func(r *Record) bool { return r.Link != nil },
			words: func(s Style, r *Record) wording {
				return wording{"(first look)", s.state(r.StateTo) + ", " + r.Link.line(), plain}
			},
		},
		{
			name: KindDevice,
			words: func(_ Style, r *Record) wording {
				if r.Opened != nil {
					return wording{r.Opened.line(), r.Why, Dim}
				}
				return wording{"not watched: " + string(r.Reason), r.Why, Red}
			},
			isUrgent: func(r *Record) bool { return r.Opened == nil },
		},
		{
			name:    KindProbe,
			isWhole: func(r *Record) bool { return r.Probe != nil },
			words:   func(s Style, r *Record) wording { return wording{name: r.Probe.Line(s.ASCII)} },
		},
	}
}

// GID holds a change of the GID table.
type GID struct {
	GID      string          `json:"gid"`
	Type     string          `json:"type"`
	NetDev   string          `json:"netdev,omitempty"`
	Action   verbs.GIDAction `json:"action"`
	From     *int            `json:"index_from,omitempty"`
	To       *int            `json:"index_to,omitempty"`
	AwayNS   int64           `json:"away_ns,omitempty"`
	OwnProbe bool            `json:"own_probe"`
}

// line returns the change in words, such as "moved from index 3 to 5, away 412ms".
func (g *GID) line() string {
	text := string(g.Action)
	switch {
	case g.From != nil && g.To != nil && *g.From != *g.To:
		text += fmt.Sprintf(" from index %d to %d", *g.From, *g.To)
	case g.To != nil:
		text += fmt.Sprintf(" at index %d", *g.To)
	case g.From != nil:
		text += fmt.Sprintf(" from index %d", *g.From)
	}
	if g.AwayNS > 0 {
		text += ", away " + Duration(g.AwayNS)
	}
	return fmt.Sprintf("%s %s %s", g.GID, g.Type, text)
}

// Attr holds a change of an attribute.
type Attr struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Command describes a call when it becomes stuck, or no longer is.
type Command struct {
	Call   string `json:"call"`
	Stuck  bool   `json:"stuck"`
	Status string `json:"status,omitempty"`  // of the last call that ended: ok, or the name of the errno
	BusyNS int64  `json:"busy_ns,omitempty"` // duration of the call in progress so far
	// LastedNS is the time for which the calls were stuck. It is set only when they no longer are.
	LastedNS int64  `json:"lasted_ns,omitempty"`
	Calls    uint64 `json:"calls"` // since the plugin started, like Errors
	Errors   uint64 `json:"errors"`
}

// line returns the change in words, such as "hw_counters not answered for 5s".
func (c *Command) line() string {
	switch {
	case !c.Stuck:
		return c.Call + " no longer stuck, after " + Duration(c.LastedNS)
	case c.BusyNS > 0:
		return c.Call + " not answered for " + Duration(c.BusyNS)
	}
	return c.Call + " stuck: " + c.Status
}

// Opened holds the attributes that a device reports when it is opened.
type Opened struct {
	Driver   string `json:"driver"`
	Firmware string `json:"fw_ver,omitempty"`
	Ports    int    `json:"ports"`
	Events   bool   `json:"events_supported"`
}

// line returns the attributes in words.
func (o *Opened) line() string {
	text := fmt.Sprintf("opened: %s, %d ports", o.Driver, o.Ports)
	if o.Ports == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if o.Firmware != "" {
		text += ", firmware " + o.Firmware
	}
	if !o.Events {
		text += "; its driver raises no events"
	}
	return text
}

// Link holds the attributes of a port whose state became known.
type Link struct {
	RateGbps  float64 `json:"rate_gbps,omitempty"`
	Width     string  `json:"width,omitempty"`
	LinkLayer string  `json:"link_layer"`
	NetDev    string  `json:"netdev,omitempty"`
}

// line returns the attributes in words.
func (l *Link) line() string {
	text := fmt.Sprintf("%g Gb/s (%s), %s", l.RateGbps, l.Width, l.LinkLayer)
	if l.NetDev != "" {
		text += " on " + l.NetDev
	}
	return text
}
