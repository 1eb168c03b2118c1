package worker

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/sanitize"
)

func fabricOptionsToProto(o verbs.FabricOptions) *proto.FabricOptions {
	return &proto.FabricOptions{
		Paths: int64(o.Paths), IntervalNs: int64(o.Interval), GidIndex: int64(o.GIDIndex), PkeyIndex: int64(o.PKeyIndex),
		TrafficClass: int64(o.TrafficClass), ServiceLevel: int64(o.ServiceLevel),
	}
}

func fabricOptionsFromProto(m *proto.FabricOptions) verbs.FabricOptions {
	return verbs.FabricOptions{
		Paths: int(m.GetPaths()), Interval: time.Duration(m.GetIntervalNs()), GIDIndex: int(m.GetGidIndex()), PKeyIndex: int(m.GetPkeyIndex()),
		TrafficClass: int(m.GetTrafficClass()), ServiceLevel: int(m.GetServiceLevel()),
	}
}

func fabricPortToProto(p *verbs.FabricPort) *proto.FabricPort {
	m := &proto.FabricPort{
		Port: int64(p.Port), Epoch: p.Epoch, Reason: sanitize.UTF8(p.Reason), Unable: p.Unable,
		LinkLayer: uint32(p.LinkLayer), Lid: int64(p.LID), Mtu: int64(p.MTU), Pkey: uint32(p.PKey), NeedsGrh: p.NeedsGRH,
		Ud: p.UD, Qkey: p.QKey,
	}
	for i := range p.GIDs {
		m.Gids = append(m.Gids, &proto.FabricGid{Index: int64(p.GIDs[i].Index), Raw: p.GIDs[i].Raw[:]})
	}
	return m
}

// fabricPortFromProto converts a FabricPort, without GIDs that do not have 16 bytes and without excess queue pairs.
func fabricPortFromProto(m *proto.FabricPort) *verbs.FabricPort {
	p := &verbs.FabricPort{
		Port: int(m.GetPort()), Epoch: m.GetEpoch(), Reason: cleanText(m.GetReason()), Unable: m.GetUnable(),
		LinkLayer: verbs.LinkLayer(m.GetLinkLayer()), LID: int(m.GetLid()), MTU: int(m.GetMtu()), PKey: uint16(m.GetPkey()),
		NeedsGRH: m.GetNeedsGrh(), UD: fabricPaths(m.GetUd()), QKey: m.GetQkey(),
	}
	for _, g := range m.GetGids()[:min(len(m.GetGids()), maxGIDs)] {
		if b := g.GetRaw(); len(b) == 16 {
			p.GIDs = append(p.GIDs, verbs.FabricGID{Index: int(g.GetIndex()), Raw: [16]byte(b)})
		}
	}
	return p
}

func fabricPaths(ud []uint32) []uint32 { return ud[:min(len(ud), verbs.MaxFabricPaths)] }

func fabricFactsToProto(f *verbs.FabricFacts) *proto.FabricFacts {
	m := &proto.FabricFacts{Port: int64(f.Port), Epoch: f.Epoch, UpTo: f.UpTo}
	for i := range f.Facts {
		one := &f.Facts[i]
		m.Facts = append(m.Facts, &proto.FabricFact{
			Kind: int32(one.Kind), Pair: int64(one.Pair), Session: one.Session, Path: int64(one.Path), Seq: one.Seq,
			Received: one.Received, Posted: one.Posted, Dry: one.Dry,
			At: one.At, Took: one.Took, Delay: one.Delay, Status: sanitize.UTF8(one.Status),
		})
	}
	return m
}

func fabricFactsFromProto(m *proto.FabricFacts) *verbs.FabricFacts {
	f := &verbs.FabricFacts{Port: int(m.GetPort()), Epoch: m.GetEpoch(), UpTo: m.GetUpTo()}
	for _, one := range m.GetFacts() {
		f.Facts = append(f.Facts, verbs.FabricFact{
			Kind: verbs.FabricKind(one.GetKind()), Pair: int(one.GetPair()), Session: one.GetSession(), Path: int(one.GetPath()), Seq: one.GetSeq(),
			Received: one.GetReceived(), Posted: one.GetPosted(), Dry: one.GetDry(),
			At: one.GetAt(), Took: one.GetTook(), Delay: one.GetDelay(), Status: cleanText(one.GetStatus()),
		})
	}
	return f
}

func orderToProto(o *verbs.FabricOrder) *proto.FabricOrder {
	m := &proto.FabricOrder{Port: int64(o.Port), Epoch: o.Epoch, Pair: int64(o.Pair), Offer: o.Offer, Role: int32(o.Role)}
	if p := o.Peer; p != nil {
		m.Peer = &proto.FabricPeer{
			Host: sanitize.UTF8(p.Host), Device: sanitize.UTF8(p.Device), Port: int64(p.Port), Role: int32(p.Role), Session: p.Session,
			Ud: p.UD, Qkey: p.QKey, Rc: p.RC, Psn: p.PSN, OwnPsn: p.OwnPSN,
			Global: p.Global, GidIndex: int64(p.GIDIndex), Gid: p.GID[:], Lid: int64(p.LID), FirstNs: int64(p.First),
		}
	}
	return m
}

// orderFromProto converts an order. It returns false if the peer's GID does not have 16 bytes.
func orderFromProto(m *proto.FabricOrder) (o verbs.FabricOrder, ok bool) {
	o = verbs.FabricOrder{
		Port: int(m.GetPort()), Epoch: m.GetEpoch(), Pair: int(m.GetPair()), Offer: m.GetOffer(), Role: verbs.FabricRole(m.GetRole()),
	}
	p := m.GetPeer()
	if p == nil {
		return o, true
	}
	if len(p.GetGid()) != 16 {
		return o, false
	}
	o.Peer = &verbs.FabricPeer{
		Host: p.GetHost(), Device: p.GetDevice(), Port: int(p.GetPort()), Role: verbs.FabricRole(p.GetRole()), Session: p.GetSession(),
		UD: p.GetUd(), QKey: p.GetQkey(), RC: p.GetRc(), PSN: p.GetPsn(), OwnPSN: p.GetOwnPsn(),
		Global: p.GetGlobal(), GIDIndex: int(p.GetGidIndex()), GID: [16]byte(p.GetGid()), LID: int(p.GetLid()), First: time.Duration(p.GetFirstNs()),
	}
	return o, true
}
