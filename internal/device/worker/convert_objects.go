package worker

import (
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/sanitize"
)

func objectsToProto(o *verbs.Objects) *proto.Objects {
	m := &proto.Objects{Mono: o.Mono, Problem: sanitize.UTF8(o.Problem)}
	for _, l := range o.Lists {
		m.Lists = append(m.Lists, &proto.ObjectList{State: uint32(l.State), Count: l.Count})
	}
	for i := range o.Holders {
		h := &o.Holders[i]
		m.Holders = append(m.Holders, &proto.Holder{
			Thread: int64(h.Thread), Kernel: h.Kernel, Counts: h.Counts[:], States: h.States[:],
		})
	}
	return m
}

// objectsFromProto takes no more holders, and no other kinds and states, than there can be.
func objectsFromProto(m *proto.Objects) *verbs.Objects {
	o := &verbs.Objects{Mono: m.GetMono(), Problem: cleanText(m.GetProblem())}
	for kind, l := range m.GetLists()[:min(len(m.GetLists()), len(o.Lists))] {
		o.Lists[kind] = verbs.ObjectList{State: verbs.ListState(l.GetState()), Count: l.GetCount()}
	}
	for _, h := range m.GetHolders()[:min(len(m.GetHolders()), verbs.MaxHolders)] {
		one := verbs.Holder{Thread: int(h.GetThread()), Kernel: h.GetKernel()}
		copy(one.Counts[:], h.GetCounts())
		copy(one.States[:], h.GetStates())
		o.Holders = append(o.Holders, one)
	}
	return o
}
