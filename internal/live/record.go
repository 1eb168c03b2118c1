package live

import (
	"fmt"
	"strings"
	"time"

	"rdma_events/internal/measure"
	"rdma_events/internal/verbs"
)

// The kinds of a record.
const (
	kindEvent   = "event"   // an asynchronous event, with the change of state that it caused
	kindState   = "state"   // a change of state without an event
	kindGID     = "gid"     // a GID came, went or moved
	kindAttr    = "attr"    // an attribute has another value
	kindCommand = "command" // the firmware stopped to answer a call, or answers it again
	kindPort    = "port"    // a port became known
	kindDevice  = "device"  // a device came, went, or cannot be watched
	kindProbe   = "probe"   // completion events of the interval just ended
	kindLog     = "log"
)

// record is one line, or by its tags one JSON object. Fields that do not apply are left
// out.
type record struct {
	queued time.Time // when it came; Time is when it happened

	Schema int       `json:"schema"` // set when it is written
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	Device string    `json:"device,omitempty"`
	Port   int       `json:"port,omitempty"`

	Event     string `json:"event,omitempty"`
	Count     uint64 `json:"count,omitempty"`
	StateFrom string `json:"state_from,omitempty"` // equal to StateTo when the event changed nothing
	StateTo   string `json:"state_to,omitempty"`
	LastedNS  int64  `json:"lasted_ns,omitempty"` // in StateFrom
	Witness   string `json:"witness,omitempty"`

	GID     *gid     `json:"gid,omitempty"`
	Attr    *attr    `json:"attr,omitempty"`
	Command *command `json:"command,omitempty"`

	Reason string  `json:"reason,omitempty"`
	Opened *opened `json:"opened,omitempty"`
	Link   *link   `json:"link,omitempty"`

	// Of kindLog alone: nothing else has prose.
	Text  string `json:"text,omitempty"`
	Level string `json:"level,omitempty"`

	Probe *probe `json:"probe,omitempty"`
}

// gid holds a change of the GID table.
type gid struct {
	GID      string `json:"gid"`
	Type     string `json:"type"`
	NetDev   string `json:"netdev,omitempty"`
	Action   string `json:"action"`
	From     *int   `json:"index_from,omitempty"`
	To       *int   `json:"index_to,omitempty"`
	AwayNS   int64  `json:"away_ns,omitempty"`
	OwnProbe bool   `json:"own_probe"`
}

// line returns the change in words, as in "moved 3 > 5, away 412ms".
func (g *gid) line() string {
	text := g.Action
	switch {
	case g.From != nil && g.To != nil && *g.From != *g.To:
		text += fmt.Sprintf(" %d > %d", *g.From, *g.To)
	case g.To != nil:
		text += fmt.Sprintf(" at %d", *g.To)
	case g.From != nil:
		text += fmt.Sprintf(" from %d", *g.From)
	}
	if g.AwayNS > 0 {
		text += ", away " + duration(g.AwayNS)
	}
	return fmt.Sprintf("%s %s %s", g.GID, g.Type, text)
}

// schema changes when a field of a record changes its meaning or goes.
const schema = 1

// opened holds what a device says of itself when it is opened.
type opened struct {
	Driver   string `json:"driver"`
	Firmware string `json:"fw_ver,omitempty"`
	Ports    int    `json:"ports"`
	Events   bool   `json:"events_supported"`
}

// link holds the attributes of a port that became known.
type link struct {
	RateGbps  float64 `json:"rate_gbps,omitempty"`
	Width     string  `json:"width,omitempty"`
	LinkLayer string  `json:"link_layer"`
	NetDev    string  `json:"netdev,omitempty"`
}

// attr holds a change of an attribute.
type attr struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// command holds what is known of a call when its stuck changes.
type command struct {
	Call   string `json:"call"`
	Stuck  bool   `json:"stuck"`
	Status string `json:"status,omitempty"`  // of the last one that ended: ok, or the name of the errno
	BusyNS int64  `json:"busy_ns,omitempty"` // how long the one under way has lasted
	Calls  uint64 `json:"calls"`             // since the start, as are errors
	Errors uint64 `json:"errors"`
}

// line returns the change in words, as in "hw_counters not answered for 5s".
func (c *command) line() string {
	switch {
	case !c.Stuck:
		return c.Call + " answered again"
	case c.BusyNS > 0:
		return c.Call + " not answered for " + duration(c.BusyNS)
	}
	return c.Call + " stuck: " + c.Status
}

// probe holds the measurements of a probe.
type probe struct {
	Vector    int      `json:"vector"`
	Method    string   `json:"method"`
	Rounds    uint64   `json:"rounds"` // since the start, as are the next two
	Successes uint64   `json:"successes"`
	Buckets   []bucket `json:"wake_buckets"` // not cumulative, and from the first to the last that is not empty
	OK        bool     `json:"ok"`           // the last round
	Status    string   `json:"status,omitempty"`
	WakeNS    int64    `json:"wake_ns_mean"` // of the interval; 0: no round ended in it
	P50NS     int64    `json:"wake_ns_p50"`  // of the window
	P99NS     int64    `json:"wake_ns_p99"`
}

// bucket counts the wake-ups up to a bound and above the bound before.
type bucket struct {
	Le    string `json:"le"` // as in "50us" and "+Inf"
	Count uint64 `json:"count"`
}

// merge adds a change of state to r, if r is the event that caused it and came right
// before it. It reports whether it did.
func (r *record) merge(c *measure.Change) bool {
	isOf := r.Kind == kindEvent && r.Device == c.Device && r.Port == c.Port &&
		(r.Event == "port_err" || r.Event == "port_active") && r.Witness == ""
	if !isOf || c.Witness != verbs.WitnessEvent {
		return false
	}
	r.change(c)
	return true
}

func (r *record) change(c *measure.Change) {
	r.StateFrom, r.StateTo, r.Witness = c.From.String(), c.To.String(), string(c.Witness)
	if c.HasLasted {
		r.LastedNS = c.LastedNS
	}
}

// where returns the device with its port, as in "mlx5_0:1".
func (r *record) where() string {
	if r.Port == 0 {
		return r.Device
	}
	return fmt.Sprintf("%s:%d", r.Device, r.Port)
}

// line returns the text about the device.
func (o *opened) line() string {
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

// line returns the text about the port.
func (l *link) line() string {
	text := fmt.Sprintf("%g Gb/s (%s), %s", l.RateGbps, l.Width, l.LinkLayer)
	if l.NetDev != "" {
		text += " on " + l.NetDev
	}
	return text
}
