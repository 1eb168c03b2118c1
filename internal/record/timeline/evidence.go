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

// Evidence holds the state of a port shortly after a trigger.
type Evidence struct {
	Trigger        verbs.Trigger `json:"trigger"`
	Cause          cause.Cause   `json:"cause,omitempty"`    // only if it is certain
	Triggers       uint64        `json:"triggers"`           // triggers that this evidence covers, 1 or more
	AgeNS          int64         `json:"age_ns,omitempty"`   // from the trigger to the first reading
	TookNS         int64         `json:"took_ns,omitempty"`  // from the first reading to the last one
	NetDev         string        `json:"netdev,omitempty"`   // network device that the next three fields describe
	AdminUp        *bool         `json:"admin_up,omitempty"` // nil: not known
	Carrier        *bool         `json:"carrier,omitempty"`
	CarrierChanges *int64        `json:"carrier_changes,omitempty"`
	ExtState       string        `json:"ext_state,omitempty"`
	ExtSubstate    string        `json:"ext_substate,omitempty"`
	BaseAgeNS      int64         `json:"base_age_ns,omitempty"` // between the two counter readings
	Deltas         []Delta       `json:"deltas,omitempty"`      // all counters that changed between the readings
	LeftOut        string        `json:"left_out,omitempty"`    // readings that were skipped or not answered, and why
}

// Delta is the change of a counter.
type Delta struct {
	Source verbs.CounterSource `json:"source"`
	Name   string              `json:"name"`
	By     uint64              `json:"by"`
	Reset  bool                `json:"reset,omitempty"` // the counter went back, so that its growth is unknown
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
	makePrintable(reflect.ValueOf(e)) // names and reasons come from a worker, and must not control a terminal
	return e
}

// shownCounters is the number of counters in a line.
const shownCounters = 4

// line returns the evidence in words, such as "cause no_carrier; eth0 admin_up=1 carrier=0; in
// 41s: rx_prio3_pause +48213".
func (e *Evidence) line() string {
	var parts []string
	if e.Cause != "" {
		parts = append(parts, "cause "+string(e.Cause))
	}
	if state := e.netDevState(); state != "" {
		parts = append(parts, state)
	}
	if top := e.topCounters(); top != "" {
		parts = append(parts, fmt.Sprintf("in %s: %s", time.Duration(e.BaseAgeNS).Round(time.Second/10), top))
	}
	if e.LeftOut != "" {
		parts = append(parts, "left out: "+e.LeftOut)
	}
	return strings.Join(parts, "; ")
}

// topCounters returns the counters that changed most.
func (e *Evidence) topCounters() string {
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

// netDevState returns the state of the network device in words.
func (e *Evidence) netDevState() string {
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
