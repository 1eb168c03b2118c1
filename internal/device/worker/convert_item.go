package worker

import (
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/sanitize"
)

func deviceToProto(d *verbs.DeviceAttr) *proto.DeviceAttr {
	return &proto.DeviceAttr{
		Name:            sanitize.UTF8(d.Name),
		Ports:           int64(d.Ports),
		Vectors:         int64(d.Vectors),
		EventsSupported: d.EventsSupported,
		AlwaysActive:    d.AlwaysActive,
		NodeGuid:        sanitize.UTF8(d.NodeGUID),
		SysImageGuid:    sanitize.UTF8(d.SysImageGUID),
		PciAddress:      sanitize.UTF8(d.PCIAddress),
		NumaNode:        int64(d.NUMANode),
		BoardId:         sanitize.UTF8(d.BoardID),
		Driver:          sanitize.UTF8(d.Driver),
		Transport:       sanitize.UTF8(d.Transport),
		Firmware:        sanitize.UTF8(d.Firmware),
		VirtualFunction: d.VirtualFunction,
		CountsFlushes:   d.CountsFlushes,
		Uplink:          int64(d.Uplink),
	}
}

func deviceFromProto(m *proto.DeviceAttr) *verbs.DeviceAttr {
	return &verbs.DeviceAttr{
		Name:            m.GetName(),
		Ports:           int(m.GetPorts()),
		Vectors:         int(m.GetVectors()),
		EventsSupported: m.GetEventsSupported(),
		AlwaysActive:    m.GetAlwaysActive(),
		NodeGUID:        cleanText(m.GetNodeGuid()),
		SysImageGUID:    cleanText(m.GetSysImageGuid()),
		PCIAddress:      cleanText(m.GetPciAddress()),
		NUMANode:        int(m.GetNumaNode()),
		BoardID:         cleanText(m.GetBoardId()),
		Driver:          cleanText(m.GetDriver()),
		Transport:       cleanText(m.GetTransport()),
		Firmware:        cleanText(m.GetFirmware()),
		VirtualFunction: m.GetVirtualFunction(),
		CountsFlushes:   m.GetCountsFlushes(),
		Uplink:          int(m.GetUplink()),
	}
}

func readingToProto(r *verbs.Reading) *proto.Reading {
	a := r.Attr
	return &proto.Reading{
		Port: int64(r.Port), Mono: r.Mono, Took: r.Took, Err: sanitize.UTF8(r.Err), RateOnly: r.RateOnly, Refused: sanitize.UTF8(r.Refused),
		Restricted: r.Restricted,
		Attr: &proto.PortAttr{
			State:         int32(a.State),
			Phys:          uint32(a.Phys),
			LinkLayer:     uint32(a.LinkLayer),
			Mtu:           int64(a.MTU),
			Lid:           int64(a.LID),
			SmLid:         int64(a.SMLID),
			Width:         sanitize.UTF8(a.Width),
			RateGbps:      a.RateGbps,
			EffectiveGbps: a.EffectiveGbps,
			NetDev:        sanitize.UTF8(a.NetDev),
			LinkDowned:    a.LinkDowned,
			HasLinkDowned: a.HasLinkDowned,
		},
	}
}

func readingFromProto(m *proto.Reading) *verbs.Reading {
	a := m.GetAttr()
	return &verbs.Reading{
		Port: int(m.GetPort()), Mono: m.GetMono(), Took: m.GetTook(), Err: cleanText(m.GetErr()), RateOnly: m.GetRateOnly(), Refused: cleanText(m.GetRefused()),
		Restricted: m.GetRestricted(),
		Attr: verbs.PortAttr{
			State:         verbs.PortState(a.GetState()),
			Phys:          verbs.PhysState(a.GetPhys()),
			LinkLayer:     verbs.LinkLayer(a.GetLinkLayer()),
			MTU:           int(a.GetMtu()),
			LID:           int(a.GetLid()),
			SMLID:         int(a.GetSmLid()),
			Width:         cleanText(a.GetWidth()),
			RateGbps:      cleanRate(a.GetRateGbps()),
			EffectiveGbps: cleanRate(a.GetEffectiveGbps()),
			NetDev:        cleanText(a.GetNetDev()),
			LinkDowned:    a.GetLinkDowned(),
			HasLinkDowned: a.GetHasLinkDowned(),
		},
	}
}

func commandToProto(c *verbs.Command) *proto.Command {
	return &proto.Command{Call: uint32(c.Call), Port: int64(c.Port), Mono: c.Mono, Took: c.Took, Status: sanitize.UTF8(c.Status)}
}

func commandFromProto(m *proto.Command) *verbs.Command {
	return &verbs.Command{
		Call: verbs.CommandCall(m.GetCall()), Port: int(m.GetPort()), Mono: m.GetMono(), Took: m.GetTook(), Status: cleanText(m.GetStatus()),
	}
}

func gidsToProto(t *verbs.GIDTable) *proto.GidTable {
	m := &proto.GidTable{Port: int64(t.Port), Mono: t.Mono, Probed: toInt64s(t.Probed)}
	for i := range t.Entries {
		g := &t.Entries[i]
		m.Entries = append(m.Entries, &proto.Gid{
			Index: int64(g.Index), Raw: g.Raw[:], Type: uint32(g.Type), NetDev: sanitize.UTF8(g.NetDev), OtherNetns: g.OtherNetns,
		})
	}
	return m
}

// gidsFromProto converts a GID table, without entries whose GID does not have 16 bytes, and with at most maxGIDs entries.
func gidsFromProto(m *proto.GidTable) *verbs.GIDTable {
	probed := m.GetProbed()
	t := &verbs.GIDTable{Port: int(m.GetPort()), Mono: m.GetMono(), Probed: toInts(probed[:min(len(probed), maxGIDs)])}
	for _, g := range m.GetEntries()[:min(len(m.GetEntries()), maxGIDs)] {
		if b := g.GetRaw(); len(b) == 16 {
			t.Entries = append(t.Entries, verbs.GID{
				Index: int(g.GetIndex()), Raw: [16]byte(b), Type: verbs.GIDType(g.GetType()), NetDev: cleanText(g.GetNetDev()),
				OtherNetns: g.GetOtherNetns(),
			})
		}
	}
	return t
}

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

// objectsFromProto converts Objects, without excess holders and without unknown kinds and states.
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
