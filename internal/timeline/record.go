package timeline

import (
	"fmt"
	"strings"
	"time"

	"rdma_events/internal/measure"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// The kinds of a record.
const (
	KindEvent    = "event"    // an asynchronous event, with the change of state that it caused
	KindState    = "state"    // a change of state without an event
	KindGID      = "gid"      // a GID came, went or moved
	KindAttr     = "attr"     // an attribute has another value
	KindCommand  = "command"  // a call is stuck, or no longer: it was answered, or the device is gone
	KindEvidence = "evidence" // what was read after something happened, and its cause
	KindPort     = "port"     // a port became known
	KindDevice   = "device"   // a device came, went, or cannot be watched
	KindProbe    = "probe"    // completion events of the interval just ended
	KindLog      = "log"
	KindPlugin   = "plugin" // the plugin began

	KindAppEvent  = "app_event"  // an asynchronous event of an application
	KindAppUnread = "app_unread" // an application does not read its errors, or no longer so
	KindAppHang   = "app_hang"   // an application hangs in the destruction of an object, or no longer
	KindAppHolds  = "app_holds"  // a unit holds objects of a device, or no longer; in records that are kept alone
	KindTracer    = "tracer"     // the events of applications are seen, or not

	KindFabricPeer = "fabric_peer" // what is said of a pair with another host
	KindFabricPort = "fabric_port" // what is said of a port that probes other hosts
	KindFabricPair = "fabric_pair" // a pair as it is now
)

// Yielding returns the kinds whose records displace no others in a recorder: any user can cause as many as he likes, and so can
// the network.
func Yielding() []string {
	return []string{KindAppEvent, KindAppUnread, KindAppHang, KindAppHolds, KindFabricPeer}
}

// Record is one thing that happened: by its tags a JSON object, by Style.Line a line. Fields
// that do not apply are left out.
type Record struct {
	Schema int       `json:"schema,omitempty"` // set when it is written
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind,omitempty"`
	Device string    `json:"device,omitempty"`
	Port   int       `json:"port,omitempty"`

	Event     string        `json:"event,omitempty"`
	Count     uint64        `json:"count,omitempty"`
	StateFrom string        `json:"state_from,omitempty"` // equal to StateTo when the event changed nothing
	StateTo   string        `json:"state_to,omitempty"`
	LastedNS  int64         `json:"lasted_ns,omitempty"` // in StateFrom
	Witness   verbs.Witness `json:"witness,omitempty"`
	Expected  string        `json:"expected,omitempty"` // "down": the port is in expected_down

	GID      *GID      `json:"gid,omitempty"`
	Attr     *Attr     `json:"attr,omitempty"`
	Command  *Command  `json:"command,omitempty"`
	Evidence *Evidence `json:"evidence,omitempty"`

	Reason status.Reason `json:"reason,omitempty"`
	Why    string        `json:"why,omitempty"` // the worker's or tracer's end in words; in records that are kept alone
	Opened *Opened       `json:"opened,omitempty"`
	Link   *Link         `json:"link,omitempty"`

	// Of KindLog alone: nothing else has prose.
	Text  string `json:"text,omitempty"`
	Level string `json:"level,omitempty"`

	Probe  *Probe  `json:"probe,omitempty"`
	Plugin *Plugin `json:"plugin,omitempty"`

	App    *App    `json:"app,omitempty"`
	Unread *Unread `json:"unread,omitempty"`
	Hang   *Hang   `json:"hang,omitempty"`
	Held   *Held   `json:"held,omitempty"`
	Tracer *Tracer `json:"tracer,omitempty"`

	Peer   *Peer   `json:"peer,omitempty"`
	Pair   *Pair   `json:"pair,omitempty"`
	Fabric *Fabric `json:"fabric,omitempty"`
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

// line returns the change in words, as in "moved from index 3 to 5, away 412ms".
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

// Schema changes when a field of a record changes its meaning or goes.
const Schema = 1

// Opened holds what a device says of itself when it is opened.
type Opened struct {
	Driver   string `json:"driver"`
	Firmware string `json:"fw_ver,omitempty"`
	Ports    int    `json:"ports"`
	Events   bool   `json:"events_supported"`
}

// Link holds the attributes of a port that became known.
type Link struct {
	RateGbps  float64 `json:"rate_gbps,omitempty"`
	Width     string  `json:"width,omitempty"`
	LinkLayer string  `json:"link_layer"`
	NetDev    string  `json:"netdev,omitempty"`
}

// Plugin holds what a recording begins with.
type Plugin struct {
	Version string `json:"version"`
	Host    string `json:"host"`
	Kernel  string `json:"kernel"`
}

// Attr holds a change of an attribute.
type Attr struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Command holds what is known of a call when its stuck changes.
type Command struct {
	Call   string `json:"call"`
	Stuck  bool   `json:"stuck"`
	Status string `json:"status,omitempty"`  // of the last one that ended: ok, or the name of the errno
	BusyNS int64  `json:"busy_ns,omitempty"` // how long the one under way has lasted
	// LastedNS is how long the calls were stuck, with the one that was. At their end alone.
	LastedNS int64  `json:"lasted_ns,omitempty"`
	Calls    uint64 `json:"calls"` // since the start, as are errors
	Errors   uint64 `json:"errors"`
}

// line returns the change in words, as in "hw_counters not answered for 5s".
func (c *Command) line() string {
	switch {
	case !c.Stuck:
		return c.Call + " no longer stuck, after " + Duration(c.LastedNS)
	case c.BusyNS > 0:
		return c.Call + " not answered for " + Duration(c.BusyNS)
	}
	return c.Call + " stuck: " + c.Status
}

// merge adds a change of state to r, if r is the event that caused it and came right
// before it. It reports whether it did.
func (r *Record) merge(c *measure.Change) bool {
	next := Record{Kind: KindState, Device: c.Device, Port: c.Port, Witness: c.Witness}
	if !r.causes(&next) {
		return false
	}
	r.change(c)
	return true
}

// causes reports whether r is the event that caused the change of state in next.
func (r *Record) causes(next *Record) bool {
	return r.Kind == KindEvent && next.Kind == KindState && r.Device == next.Device && r.Port == next.Port &&
		(r.Event == verbs.EventPortErr.String() || r.Event == verbs.EventPortActive.String()) &&
		r.Witness == "" && next.Witness == verbs.WitnessEvent
}

func (r *Record) change(c *measure.Change) {
	r.StateFrom, r.StateTo, r.Witness = c.From.String(), c.To.String(), c.Witness
	if c.HasLasted {
		r.LastedNS = c.LastedNS
	}
}

// Where returns the device with its port and the other end of a pair, as in "mlx5_0:1" and "mlx5_0:1 > gpu042 mlx5_0".
func (r *Record) Where() string {
	if r.Port == 0 {
		return r.Device
	}
	where := fmt.Sprintf("%s:%d", r.Device, r.Port)
	if r.Peer != nil {
		where += " > " + r.Peer.Name()
	}
	return where
}

// line returns the text about the device.
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

// line returns the text about the port.
func (l *Link) line() string {
	text := fmt.Sprintf("%g Gb/s (%s), %s", l.RateGbps, l.Width, l.LinkLayer)
	if l.NetDev != "" {
		text += " on " + l.NetDev
	}
	return text
}
