package worker

import (
	"slices"
	"strings"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/sanitize"
)

// maxCounters is the largest number of counters of one source that the host accepts from a
// worker, whose library it does not trust. Drivers have up to some hundreds.
const maxCounters = 4096

// maxSources is the largest number of counter sources that the host accepts, a few more than exist.
const maxSources = 8

func snapshotToProto(s *verbs.Snapshot) *proto.Snapshot {
	m := &proto.Snapshot{
		Port: int64(s.Port), Trigger: sanitize.UTF8(string(s.Trigger)), At: s.At, Merged: s.Merged,
		Mono: s.Mono, Took: s.Took, Done: s.Done, CountersAt: s.CountersAt, LinkAt: s.LinkAt, Answered: s.Answered,
	}
	if n := s.NetDev; n != nil {
		m.NetDev = &proto.NetDev{
			Name: sanitize.UTF8(n.Name), AdminUp: n.AdminUp, Carrier: n.Carrier, HasCarrier: n.HasCarrier,
			CarrierChanges: n.CarrierChanges, HasCarrierChanges: n.HasCarrierChanges, Virtual: n.Virtual,
		}
	}
	for source, values := range s.Counters {
		c := &proto.Counters{Source: sanitize.UTF8(string(source)), Values: map[string]uint64{}}
		for name, n := range values {
			c.Values[sanitize.UTF8(name)] = n
		}
		m.Counters = append(m.Counters, c)
	}
	slices.SortFunc(m.Counters, func(a, b *proto.Counters) int { return strings.Compare(a.Source, b.Source) })
	if l := s.Link; l != nil {
		m.Link = &proto.Link{ExtState: sanitize.UTF8(l.ExtState), ExtSubstate: sanitize.UTF8(l.ExtSubstate)}
	}
	for _, what := range s.LeftOut {
		m.LeftOut = append(m.LeftOut, sanitize.UTF8(what))
	}
	return m
}

func snapshotFromProto(m *proto.Snapshot) *verbs.Snapshot {
	s := &verbs.Snapshot{
		Port: int(m.GetPort()), Trigger: verbs.Trigger(cleanText(m.GetTrigger())), At: m.GetAt(), Merged: m.GetMerged(),
		Mono: m.GetMono(), Took: m.GetTook(), Done: m.GetDone(), CountersAt: m.GetCountersAt(), LinkAt: m.GetLinkAt(),
		LeftOut: cleanTexts(m.GetLeftOut()), Answered: m.GetAnswered(),
	}
	if n := m.GetNetDev(); n != nil {
		s.NetDev = &verbs.NetDev{
			Name: cleanText(n.GetName()), AdminUp: n.GetAdminUp(), Carrier: n.GetCarrier(), HasCarrier: n.GetHasCarrier(),
			CarrierChanges: n.GetCarrierChanges(), HasCarrierChanges: n.GetHasCarrierChanges(), Virtual: n.GetVirtual(),
		}
	}
	for _, c := range m.GetCounters() {
		if len(c.GetValues()) > maxCounters || len(s.Counters) >= maxSources {
			continue
		}
		if s.Counters == nil {
			s.Counters = verbs.Counters{}
		}
		values := make(map[string]uint64, len(c.GetValues()))
		for name, n := range c.GetValues() {
			values[cleanText(name)] = n
		}
		s.Counters[verbs.CounterSource(cleanText(c.GetSource()))] = values
	}
	if l := m.GetLink(); l != nil {
		s.Link = &verbs.Link{ExtState: cleanText(l.GetExtState()), ExtSubstate: cleanText(l.GetExtSubstate())}
	}
	return s
}
