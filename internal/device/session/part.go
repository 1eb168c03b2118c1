package session

import (
	"context"

	"rdma_events/internal/device/verbs"
)

// Part uses an open device beside the goroutines that every session has.
type Part interface {
	// Tasks returns what the part does.
	Tasks() []Task

	// PortChanged is called when Session.Port may return something new for a port. It must not block. Several goroutines
	// call it, also before the tasks run and after Stop.
	PortChanged(port int)

	// Stop is called once when the session has ended, before the device is closed. It must not block. It reports whether it
	// sent something, which the host then gets before the device is closed.
	Stop() (sent bool)
}

// Task is one goroutine of a session. It begins once every port has its baseline.
type Task struct {
	// Run returns when ctx ends or when the device is closed. An error other than verbs.ErrClosed ends the session.
	Run func(ctx context.Context) error

	// MayHang marks a task whose calls Device.Close does not wait for, and so the session does not either.
	MayHang bool
}

// NewPart returns a part of a session whose device is open, or nil if the options of the session do not ask for it.
type NewPart func(Session) Part

// Session is an open device as its parts use it. All methods may be called concurrently, and none blocks.
type Session interface {
	Device() verbs.Device
	Options() verbs.Options

	// Port returns what the session knows of a port that it watches.
	Port(number int) PortInfo

	// Answers reports whether the device answers its commands. While it does not, a part begins no command: the worker
	// could not end before it is answered.
	Answers() bool

	// Refused reports whether the firmware refuses a read of a port.
	Refused(port int, read verbs.Read) bool

	// Send sends an item to the host, and reports whether there was room for it.
	Send(verbs.Item) bool

	// SendFacts sends a copy of what a Fabric saw, and reports whether there was room for it.
	SendFacts(facts verbs.FabricFacts) bool

	// Full reports whether SendFacts has no room.
	Full() bool
}

// PortInfo is what a session knows of a port.
type PortInfo struct {
	State      verbs.PortState // by the last query that succeeded; verbs.PortNop: none has
	LID        int             // likewise
	PKeyEvents uint64          // the number of events of its P_Keys
	GIDs       *[]verbs.GID    // the last reading of its GID table; nil: none
}

func (s *session) Device() verbs.Device   { return s.dev }
func (s *session) Options() verbs.Options { return s.o }

func (s *session) Port(number int) PortInfo {
	for _, p := range s.ports {
		if p.number == number {
			return PortInfo{
				State: verbs.PortState(p.state.Load()), LID: int(p.lid.Load()), PKeyEvents: p.pkeys.Load(), GIDs: p.gids.Load(),
			}
		}
	}
	return PortInfo{}
}

func (s *session) Answers() bool                          { return s.asks.Answers() }
func (s *session) Refused(port int, read verbs.Read) bool { return s.asks.refusals.Refused(port, read) }
func (s *session) Send(i verbs.Item) bool                 { return s.out.add(i) }
func (s *session) SendFacts(f verbs.FabricFacts) bool     { return s.out.addFacts(f) }
func (s *session) Full() bool                             { return s.out.isFull() }

// portChanged tells the parts that Port may return something new for p.
func (s *session) portChanged(p *port) {
	for _, part := range s.parts {
		part.PortChanged(p.number)
	}
}
