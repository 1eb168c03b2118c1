package tracer

import (
	"regexp"
	"strings"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer/proto"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/sys/status"
)

// The limits of the host for a tracer's messages, in addition to the limits of an Update.
const (
	maxHooks        = 64
	maxFunctionName = 128
	maxFunctions    = 64
	maxDeviceName   = 63      // IB_DEVICE_NAME_MAX with its final NUL is 64
	maxPID          = 4 << 20 // PID_MAX_LIMIT
)

func requestToProto(r trace.Request) *proto.Request {
	return &proto.Request{
		Version:     contractVersion,
		Backend:     sanitize.UTF8(r.Backend),
		HangAfterNs: int64(r.HangAfter),
		Sim: &proto.Sim{
			Profile: sanitize.UTF8(r.Sim.Profile), Scenario: sanitize.UTF8(r.Sim.Scenario), Seed: r.Sim.Seed, Epoch: r.Sim.Epoch,
		},
	}
}

func requestFromProto(m *proto.Request) trace.Request {
	s := m.GetSim()
	return trace.Request{
		Backend:   m.GetBackend(),
		HangAfter: time.Duration(m.GetHangAfterNs()),
		Sim: verbs.Simulation{
			Profile: s.GetProfile(), Scenario: s.GetScenario(), Seed: s.GetSeed(), Epoch: s.GetEpoch(),
		},
	}
}

// messageFromProto converts and sanitizes a message. It returns an empty message for an unknown kind.
func messageFromProto(m *proto.Message) message {
	switch w := m.GetWhat().(type) {
	case *proto.Message_Attached:
		return message{attached: attachedFromProto(w.Attached)}
	case *proto.Message_Snapshot:
		return message{update: updateFromProto(w.Snapshot)}
	case *proto.Message_Ended:
		e := cleanEnd(status.End{Reason: status.Reason(w.Ended.GetReason()), Message: w.Ended.GetMessage()})
		return message{end: &e}
	}
	return message{}
}

func endToProto(e status.End) *proto.Message {
	return &proto.Message{What: &proto.Message_Ended{Ended: &proto.Ended{Reason: sanitize.UTF8(string(e.Reason)), Message: sanitize.UTF8(e.Message)}}}
}

func attachedToProto(a trace.Attached) *proto.Message {
	m := &proto.Attached{Hooks: sanitize.UTF8(a.Hooks), LoadNs: int64(a.Load)}
	for _, function := range a.Missing {
		m.Missing = append(m.Missing, sanitize.UTF8(function))
	}
	return &proto.Message{What: &proto.Message_Attached{Attached: m}}
}

func attachedFromProto(m *proto.Attached) *trace.Attached {
	a := &trace.Attached{Hooks: sanitize.Text(m.GetHooks(), maxHooks, ' '), Load: max(0, time.Duration(m.GetLoadNs()))}
	for _, function := range firstN(m.GetMissing(), maxFunctions) {
		a.Missing = append(a.Missing, sanitize.Text(function, maxFunctionName, ' '))
	}
	return a
}

func updateToProto(s *trace.Update) *proto.Message {
	m := &proto.Snapshot{Mono: s.Mono, Lost: s.Lost, Full: s.Full, Processes: int64(s.Processes)}
	for i := range s.Apps {
		m.Apps = append(m.Apps, appToProto(&s.Apps[i]))
	}
	for i := range s.Events {
		m.Events = append(m.Events, eventToProto(&s.Events[i]))
	}
	for i := range s.Hangs {
		m.Hangs = append(m.Hangs, hangToProto(&s.Hangs[i]))
	}
	return &proto.Message{What: &proto.Message_Snapshot{Snapshot: m}}
}

// updateFromProto converts an Update. It omits invalid entries and entries above the limits.
func updateFromProto(m *proto.Snapshot) *trace.Update {
	s := &trace.Update{
		Mono: m.GetMono(), Lost: m.GetLost(), Full: m.GetFull(), Processes: int(min(max(0, m.GetProcesses()), maxPID)),
	}
	for _, a := range firstN(m.GetApps(), trace.MaxApps) {
		if one, ok := appFromProto(a); ok {
			s.Apps = append(s.Apps, one)
		}
	}
	for _, e := range firstN(m.GetEvents(), trace.MaxEvents) {
		if one, ok := eventFromProto(e); ok {
			s.Events = append(s.Events, one)
		}
	}
	for _, h := range firstN(m.GetHangs(), trace.MaxHangs) {
		if one, ok := hangFromProto(h); ok {
			s.Hangs = append(s.Hangs, one)
		}
	}
	return s
}

func firstN[T any](all []T, most int) []T { return all[:min(len(all), most)] }

// isDevice reports whether name is a valid device name, which must also be a valid directory name.
func isDevice(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxDeviceName &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' })
}

func processToProto(p *identity.Process) *proto.Process {
	return &proto.Process{Pid: int64(p.PID), Start: p.Start, Comm: sanitize.UTF8(p.Comm), Unit: sanitize.UTF8(p.Unit)}
}

// isUnit matches units as identity.Unit returns them. A component of a cgroup's path has at most 255 bytes.
var isUnit = regexp.MustCompile(`^[A-Za-z0-9_.:@-]{1,255}$`)

// processFromProto converts a process. It omits an invalid unit, and returns false for an invalid process.
func processFromProto(m *proto.Process) (identity.Process, bool) {
	switch pid := m.GetPid(); {
	case pid < 0 || pid > maxPID:
		return identity.Process{}, false
	case pid == 0:
		return identity.Process{}, true
	}
	p := identity.Process{PID: int(m.GetPid()), Start: m.GetStart(), Comm: identity.CleanComm(m.GetComm())}
	if isUnit.MatchString(m.GetUnit()) {
		p.Unit = m.GetUnit()
	}
	return p, true
}

func appToProto(a *trace.App) *proto.App {
	return &proto.App{
		Device: sanitize.UTF8(a.Device), Process: processToProto(&a.Process),
		Queued: a.Queued[:], Found: a.Found[:], Read: a.Read, Discarded: a.Discarded, Skipped: a.Skipped,
		Unread: a.Unread, UnreadErrors: a.UnreadErrors, UnreadSince: a.UnreadSince,
		DestroyedUnacked: a.DestroyedUnacked,
		Delays:           a.Delays, DelaySum: a.DelaySum, DelayMax: a.DelayMax, Ended: a.Ended,
	}
}

func appFromProto(m *proto.App) (trace.App, bool) {
	p, ok := processFromProto(m.GetProcess())
	a := trace.App{
		Device: m.GetDevice(), Process: p,
		Read: m.GetRead(), Discarded: m.GetDiscarded(), Skipped: m.GetSkipped(),
		Unread: m.GetUnread(), UnreadErrors: m.GetUnreadErrors(), UnreadSince: m.GetUnreadSince(),
		DestroyedUnacked: m.GetDestroyedUnacked(),
		Delays:           m.GetDelays(), DelaySum: m.GetDelaySum(), DelayMax: m.GetDelayMax(), Ended: m.GetEnded(),
	}
	copy(a.Queued[:], m.GetQueued())
	copy(a.Found[:], m.GetFound())
	return a, ok && isDevice(a.Device)
}

func eventToProto(e *trace.Event) *proto.Event {
	return &proto.Event{
		Device: sanitize.UTF8(e.Device), Process: processToProto(&e.Process), Type: int32(e.Type), Number: e.Number, At: e.At,
	}
}

func eventFromProto(m *proto.Event) (trace.Event, bool) {
	p, ok := processFromProto(m.GetProcess())
	e := trace.Event{
		Device: m.GetDevice(), Process: p, Type: verbs.EventType(m.GetType()), Number: m.GetNumber(), At: m.GetAt(),
	}
	return e, ok && isDevice(e.Device) && e.Type.Known()
}

func hangToProto(h *trace.Hang) *proto.Hang {
	return &proto.Hang{
		Device: sanitize.UTF8(h.Device), Process: processToProto(&h.Process), Thread: int64(h.Thread),
		Object: int32(h.Object), Number: h.Number, Since: h.Since, Missing: h.Missing, Proof: sanitize.UTF8(string(h.Proof)),
	}
}

// hangFromProto converts a hang. It replaces an unknown proof by the weaker one.
func hangFromProto(m *proto.Hang) (trace.Hang, bool) {
	p, ok := processFromProto(m.GetProcess())
	h := trace.Hang{
		Device: m.GetDevice(), Process: p, Thread: int(min(max(0, m.GetThread()), maxPID)),
		Object: verbs.Scope(m.GetObject()), Number: m.GetNumber(), Since: m.GetSince(), Missing: m.GetMissing(),
		Proof: trace.ProofWaiting,
	}
	if m.GetProof() == string(trace.ProofAsleep) {
		h.Proof = trace.ProofAsleep
	}
	return h, ok && isDevice(h.Device) && canHang(m.GetObject())
}

// canHang reports whether the destruction of this kind of object waits for acknowledgements.
func canHang(object int32) bool {
	switch verbs.Scope(object) {
	case verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ:
		return object == int32(verbs.Scope(object))
	}
	return false
}
