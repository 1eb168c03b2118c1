package timeline

import (
	"fmt"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// Schema is the version of the JSON objects. It changes when a field changes its meaning or is removed.
const Schema = 1

// Record describes one thing that happened. Its struct tags make it a JSON object, and
// Style.Line makes it a line. Fields that do not apply are left out.
type Record struct {
	Schema int       `json:"schema,omitempty"` // set when the record is written
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind,omitempty"`
	Device string    `json:"device,omitempty"`
	Port   int       `json:"port,omitempty"`

	Event     string        `json:"event,omitempty"`
	Count     uint64        `json:"count,omitempty"`
	StateFrom string        `json:"state_from,omitempty"` // equal to StateTo if the event changed nothing
	StateTo   string        `json:"state_to,omitempty"`
	LastedNS  int64         `json:"lasted_ns,omitempty"` // time spent in StateFrom
	Witness   verbs.Witness `json:"witness,omitempty"`
	Expected  string        `json:"expected,omitempty"` // "down": the port is in expected_down

	GID      *GID      `json:"gid,omitempty"`
	Attr     *Attr     `json:"attr,omitempty"`
	Command  *Command  `json:"command,omitempty"`
	Evidence *Evidence `json:"evidence,omitempty"`

	Reason status.Reason `json:"reason,omitempty"`
	Why    string        `json:"why,omitempty"` // why the worker or tracer ended, in words; only in stored records
	Opened *Opened       `json:"opened,omitempty"`
	Link   *Link         `json:"link,omitempty"`

	// Only in records of KindLog, the only kind with prose.
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

// addCausedChange adds next to r if r is an event and next is the state change that it caused. It reports whether it did.
func (r *Record) addCausedChange(next *Record) bool {
	if !r.causes(next) {
		return false
	}
	r.StateFrom, r.StateTo, r.Witness, r.LastedNS = next.StateFrom, next.StateTo, next.Witness, next.LastedNS
	return true
}

// causes reports whether r is the event that caused the state change next.
func (r *Record) causes(next *Record) bool {
	return r.Kind == KindEvent && next.Kind == KindState && r.Device == next.Device && r.Port == next.Port &&
		(r.Event == verbs.EventPortErr.String() || r.Event == verbs.EventPortActive.String()) &&
		r.Witness == "" && next.Witness == verbs.WitnessEvent
}

// Where returns the device, its port and the peer of a pair, such as "mlx5_0:1" or "mlx5_0:1 > gpu042 mlx5_0".
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
