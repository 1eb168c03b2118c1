package hardware

import (
	"cmp"
	"slices"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/verbs"
)

// addObservation adds the events and changes of state that a worker reported, sorted by time.
func (f *Flap) addObservation(seen *inspect.Observation, begin int64, ports int) {
	for _, r := range seen.Runs {
		f.Seen = append(f.Seen, FlapObservation{AtNS: r.First - begin, Port: r.Port, Event: r.Type.String(), Count: r.Count})
	}
	for n := 1; n <= ports; n++ {
		f.addStates(seen.Readings, begin, n)
	}
	slices.SortStableFunc(f.Seen, func(a, b FlapObservation) int { return cmp.Compare(a.AtNS, b.AtNS) })
}

// addStates adds each state of a port that differs from the previous one, and the port's count of link drops.
func (f *Flap) addStates(readings []verbs.Reading, begin int64, port int) {
	last := ""
	var links *LinkCount
	for _, r := range readings {
		if r.Port != port || r.Err != "" {
			continue
		}
		if state := r.Attr.State.String(); state != last {
			f.Seen = append(f.Seen, FlapObservation{AtNS: r.Mono - begin, Port: port, State: state})
			last = state
		}
		if !r.Attr.HasLinkDowned {
			continue
		}
		if links == nil {
			links = &LinkCount{Port: port, Before: r.Attr.LinkDowned}
		}
		links.After = r.Attr.LinkDowned
	}
	if links != nil {
		f.Links = append(f.Links, *links)
	}
}
