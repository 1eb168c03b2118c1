package timeline

import (
	"fmt"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// Schema changes when a field of a record changes its meaning or goes.
const Schema = 1

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

// join adds to r, which is an event, the change of state that it caused, if next is that. It reports whether it did.
func (r *Record) join(next *Record) bool {
	if !r.causes(next) {
		return false
	}
	r.StateFrom, r.StateTo, r.Witness, r.LastedNS = next.StateFrom, next.StateTo, next.Witness, next.LastedNS
	return true
}

// causes reports whether r is the event that caused the change of state in next.
func (r *Record) causes(next *Record) bool {
	return r.Kind == KindEvent && next.Kind == KindState && r.Device == next.Device && r.Port == next.Port &&
		(r.Event == verbs.EventPortErr.String() || r.Event == verbs.EventPortActive.String()) &&
		r.Witness == "" && next.Witness == verbs.WitnessEvent
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
