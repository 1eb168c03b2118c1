package timeline

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// Evidence holds the state of a port soon after something happened to it.
type Evidence struct {
	Trigger        verbs.Trigger `json:"trigger"`
	Cause          cause.Cause   `json:"cause,omitempty"`    // only where it is certain
	Triggers       uint64        `json:"triggers"`           // 1, and further ones that this one is for
	AgeNS          int64         `json:"age_ns,omitempty"`   // from the trigger to the first reading
	TookNS         int64         `json:"took_ns,omitempty"`  // from the first reading to the last
	NetDev         string        `json:"netdev,omitempty"`   // whose state the next three are
	AdminUp        *bool         `json:"admin_up,omitempty"` // those that are not known are left out
	Carrier        *bool         `json:"carrier,omitempty"`
	CarrierChanges *int64        `json:"carrier_changes,omitempty"`
	ExtState       string        `json:"ext_state,omitempty"`
	ExtSubstate    string        `json:"ext_substate,omitempty"`
	BaseAgeNS      int64         `json:"base_age_ns,omitempty"` // between the two readings of the counters
	Deltas         []Delta       `json:"deltas,omitempty"`      // all counters that moved between them
	LeftOut        string        `json:"left_out,omitempty"`    // what was not asked or not answered, and why
}

// Delta is a counter that moved.
type Delta struct {
	Source verbs.CounterSource `json:"source"`
	Name   string              `json:"name"`
	By     uint64              `json:"by"`
	Reset  bool                `json:"reset,omitempty"` // it went back, by an unknown number
}

func newEvidence(p *measure.Evidence) *Evidence {
	e := &Evidence{
		Trigger: p.Trigger, Cause: p.Cause, Triggers: p.Triggers, AgeNS: p.AgeNS, TookNS: p.TookNS,
		ExtState: p.ExtState, ExtSubstate: p.ExtSubstate, BaseAgeNS: p.BaseAgeNS, LeftOut: p.LeftOut,
	}
	if n := p.NetDev; n != nil {
		e.NetDev, e.AdminUp = n.Name, &n.AdminUp
		if n.HasCarrier {
			e.Carrier = &n.Carrier
		}
		if n.HasCarrierChanges {
			e.CarrierChanges = &n.CarrierChanges
		}
	}
	for _, d := range p.Deltas {
		e.Deltas = append(e.Deltas, Delta(d))
	}
	makePrintable(reflect.ValueOf(e)) // names and reasons are a worker's, and a terminal must not obey them
	return e
}

// shownCounters is how many counters a line has.
const shownCounters = 4

// line returns what is known in words, as in "cause no_carrier; eth0 admin_up=1 carrier=0; in
// 41s: rx_prio3_pause +48213".
func (e *Evidence) line() string {
	var parts []string
	if e.Cause != "" {
		parts = append(parts, "cause "+string(e.Cause))
	}
	if state := e.state(); state != "" {
		parts = append(parts, state)
	}
	if top := e.moved(); top != "" {
		parts = append(parts, fmt.Sprintf("in %s: %s", time.Duration(e.BaseAgeNS).Round(time.Second/10), top))
	}
	if e.LeftOut != "" {
		parts = append(parts, "left out: "+e.LeftOut)
	}
	return strings.Join(parts, "; ")
}

// moved returns the counters that moved most.
func (e *Evidence) moved() string {
	var all cause.Deltas
	for _, d := range e.Deltas {
		all = append(all, cause.Delta(d))
	}
	top := all.Top(shownCounters)
	if more := len(all) - shownCounters; more > 0 {
		top += fmt.Sprintf(" and %d more", more)
	}
	return top
}

func (e *Evidence) state() string {
	var words []string
	flag := func(name string, v *bool) {
		if v != nil {
			words = append(words, fmt.Sprintf("%s=%d", name, map[bool]int{true: 1}[*v]))
		}
	}
	if e.NetDev != "" {
		words = append(words, e.NetDev)
	}
	flag("admin_up", e.AdminUp)
	flag("carrier", e.Carrier)
	if e.ExtState != "" {
		words = append(words, "ext_state="+e.ExtState)
	}
	if e.ExtSubstate != "" {
		words = append(words, "ext_substate="+e.ExtSubstate)
	}
	return strings.Join(words, " ")
}
