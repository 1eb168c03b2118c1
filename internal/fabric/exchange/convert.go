package exchange

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange/proto"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/sys/sanitize"
)

func portToProto(p Port) *proto.Port {
	m := &proto.Port{
		Device: sanitize.UTF8(p.Device), Position: uint32(p.Position), Port: uint32(p.Port), Epoch: p.Epoch,
		LinkLayer: uint32(p.LinkLayer), Lid: uint32(p.LID), Mtu: uint32(p.MTU), Pkey: uint32(p.PKey), NeedsGrh: p.NeedsGRH,
		Ud: p.UD, Qkey: p.QKey,
	}
	for _, g := range p.GIDs {
		m.Gids = append(m.Gids, &proto.Gid{Index: uint32(g.Index), Raw: g.Raw[:]})
	}
	return m
}

// portFromProto converts a port that has a Fabric. Its error wraps ErrMalformed.
func portFromProto(m *proto.Port) (Port, error) {
	if err := checkPort(m); err != nil {
		return Port{}, err
	}
	p := Port{Device: m.GetDevice(), Position: int(m.GetPosition()), FabricPort: verbs.FabricPort{
		Port: int(m.GetPort()), Epoch: m.GetEpoch(), LinkLayer: verbs.LinkLayer(m.GetLinkLayer()), LID: int(m.GetLid()),
		MTU: int(m.GetMtu()), PKey: uint16(m.GetPkey()), NeedsGRH: m.GetNeedsGrh(), UD: m.GetUd(), QKey: m.GetQkey(),
	}}
	for _, g := range m.GetGids() {
		raw, err := parseGID(g.GetRaw())
		if err = errors.Join(err, checkRange("the index of a GID", uint64(g.GetIndex()), 0, maxGIDIndex)); err != nil {
			return Port{}, err
		}
		p.GIDs = append(p.GIDs, verbs.FabricGID{Index: int(g.GetIndex()), Raw: raw})
	}
	return p, nil
}

func checkPort(m *proto.Port) error {
	if m.GetEpoch() == 0 {
		return fmt.Errorf("%w: no epoch", ErrMalformed)
	}
	return errors.Join(
		checkPlace(m.GetDevice(), m.GetPort()),
		checkRange("the position", uint64(m.GetPosition()), 0, maxPosition),
		checkLinkLayer(m.GetLinkLayer()),
		checkRange("the LID", uint64(m.GetLid()), 0, maxLID),
		checkMTU(m.GetMtu()),
		checkRange("the P_Key", uint64(m.GetPkey()), 0, 0xffff),
		checkRange("the number of GIDs", uint64(len(m.GetGids())), 0, maxGIDs),
		checkUD(m.GetUd()),
		checkRange("the Q_Key", uint64(m.GetQkey()), 0, maxQKey),
	)
}

func offerToProto(o Offer) *proto.Offer {
	m := &proto.Offer{Session: o.Session, Port: portToProto(o.Port), Rc: o.RC, Psn: o.PSN}
	for _, d := range o.Devices[:min(len(o.Devices), maxDevices)] {
		m.Devices = append(m.Devices, sanitize.UTF8(d))
	}
	return m
}

// offerFromProto converts an offer. Its error wraps ErrMalformed.
func offerFromProto(m *proto.Offer) (Offer, error) {
	port, err := portFromProto(m.GetPort())
	if err = errors.Join(err, checkPair(m.GetSession(), m.GetRc(), m.GetPsn())); err != nil {
		return Offer{}, err
	}
	if err := checkDevices(m.GetDevices()); err != nil {
		return Offer{}, err
	}
	return Offer{Session: m.GetSession(), Port: port, RC: m.GetRc(), PSN: m.GetPsn(), Devices: m.GetDevices()}, nil
}

func checkDevices(names []string) error {
	for _, name := range names {
		if !isDevice(name) {
			return fmt.Errorf("%w: an impossible device name", ErrMalformed)
		}
	}
	return checkRange("the number of devices", uint64(len(names)), 0, maxDevices)
}

// heldFromProto converts the sessions that a host continues. Its error wraps ErrMalformed.
func heldFromProto(m *proto.Held) (*Held, error) {
	err := errors.Join(checkSessions(m.GetSessions()), checkRange("the number of epochs", uint64(len(m.GetEpochs())), 0, maxEpochs))
	if err != nil {
		return nil, err
	}
	return &Held{Sessions: m.GetSessions(), Epochs: m.GetEpochs()}, nil
}

func checkSessions(sessions []uint64) error {
	return checkRange("the number of sessions", uint64(len(sessions)), 0, maxSessions)
}

// lackingSessions returns the sessions that are not in kept.
func lackingSessions(sessions, kept []uint64) (lacking []uint64) {
	for _, s := range sessions {
		if !slices.Contains(kept, s) {
			lacking = append(lacking, s)
		}
	}
	return lacking
}

// answerToProto converts the answer to an offer. A refusal contains only the session and the reason.
func answerToProto(session uint64, a Answer) *proto.Answer {
	if a.Reason != verdict.ReasonNone {
		return &proto.Answer{Session: session, Reason: sanitize.UTF8(string(a.Reason))}
	}
	return &proto.Answer{Session: session, Port: portToProto(a.Port), Rc: a.RC, Psn: a.PSN}
}

// answerFromProto converts an answer. It replaces an unknown reason by ReasonFailed. Its error wraps ErrMalformed.
func answerFromProto(m *proto.Answer) (Answer, error) {
	if m.GetFault() != proto.Fault_FAULT_NONE {
		return Answer{}, fmt.Errorf("%w: the host says so of the offer", ErrMalformed)
	}
	switch reason := verdict.Reason(m.GetReason()); {
	case !isReason(reason):
		return Answer{Reason: verdict.ReasonFailed}, nil
	case reason != verdict.ReasonNone:
		return Answer{Reason: reason}, nil
	}
	port, err := portFromProto(m.GetPort())
	if err = errors.Join(err, checkPair(m.GetSession(), m.GetRc(), m.GetPsn())); err != nil {
		return Answer{}, err
	}
	return Answer{Port: port, RC: m.GetRc(), PSN: m.GetPsn()}, nil
}

func changeToProto(c Change) *proto.Change {
	return &proto.Change{Device: sanitize.UTF8(c.Device), Port: uint32(c.Port), Epoch: c.Epoch}
}

// changeFromProto converts a change. Its error wraps ErrMalformed.
func changeFromProto(m *proto.Change) (Change, error) {
	if err := checkPlace(m.GetDevice(), m.GetPort()); err != nil {
		return Change{}, err
	}
	return Change{Device: m.GetDevice(), Port: int(m.GetPort()), Epoch: m.GetEpoch()}, nil
}

func statesToProto(states []PortState, lacking []uint64) *proto.StateReply {
	m := &proto.StateReply{Features: features, Lacking: lacking}
	for _, s := range states {
		m.Ports = append(m.Ports, &proto.PortState{
			Device: sanitize.UTF8(s.Device), Port: uint32(s.Port), Epoch: s.Epoch, State: int32(s.State),
		})
	}
	return m
}

// stateFromProto converts the state of a host. Its error wraps ErrMalformed.
func stateFromProto(m *proto.StateReply) (State, error) {
	err := errors.Join(checkRange("the number of ports", uint64(len(m.GetPorts())), 0, maxPorts), checkSessions(m.GetLacking()))
	if err != nil {
		return State{}, err
	}
	s := State{Lacking: m.GetLacking(), LackingKnown: m.GetFeatures()&featureSessions != 0}
	for _, p := range m.GetPorts() {
		if err := checkPlace(p.GetDevice(), p.GetPort()); err != nil {
			return State{}, err
		}
		s.Ports = append(s.Ports, PortState{
			Device: p.GetDevice(), Port: int(p.GetPort()), Epoch: p.GetEpoch(), State: verbs.PortState(p.GetState()),
		})
	}
	return s, nil
}

// hasUnknown reports whether a message has a field that this version does not know, at any depth.
func hasUnknown(m protoreflect.Message) bool {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	found := false
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && !found; i++ {
				found = hasUnknown(v.List().Get(i).Message())
			}
		default:
			found = hasUnknown(v.Message())
		}
		return !found
	})
	return found
}
