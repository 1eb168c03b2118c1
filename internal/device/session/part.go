package session

import (
	"context"

	"rdma_events/internal/device/verbs"
)

// Part is an additional user of a session's open device.
type Part interface {
	// Tasks returns the goroutines that the session starts for the part.
	Tasks() []Task

	// PortChanged is called when Session.Port may return a new value for a port. It must not block. Several goroutines call
	// it, also before the tasks run and after Stop.
	PortChanged(port int)

	// Stop is called once when the session has ended, before the device is closed. It must not block. It reports whether it
	// sent items; the session then passes them to the host before it closes the device.
	Stop() (sent bool)
}

// Task is one goroutine of a session. It starts once every port has its baseline.
type Task struct {
	// Run returns when ctx ends or when the device is closed. An error other than verbs.ErrClosed ends the session.
	Run func(ctx context.Context) error

	// MayHang marks a task with calls for which neither Device.Close nor the session waits.
	MayHang bool
}

// NewPart returns a part of a session whose device is open, or nil if the session's options do not request the part.
type NewPart func(Session) Part

// Session is the interface of an open device for its parts. All methods may be called concurrently, and none blocks.
type Session interface {
	Device() verbs.Device
	Options() verbs.Options

	// Port returns the state of a port that the session watches.
	Port(number int) PortInfo

	// Answers reports whether the device answers its commands. While it does not, a part must not start a command: the
	// worker could not end until the command is answered.
	Answers() bool

	// Refused reports whether the firmware refuses a read of a port.
	Refused(port int, read verbs.Read) bool

	// Send queues an item for the host, and reports whether there was room for it.
	Send(verbs.Item) bool

	// SendFacts queues a copy of the facts for the host, and reports whether there was room for it.
	SendFacts(facts verbs.FabricFacts) bool

	// Full reports whether SendFacts has no room.
	Full() bool
}

// PortInfo is the state of a port for the parts of a session.
type PortInfo struct {
	State      verbs.PortState // by the last successful query; verbs.PortNop before the first
	LID        int             // by the last successful query
	PKeyEvents uint64          // number of the port's P_Key events
	GIDs       *[]verbs.GID    // the last reading of the GID table; nil: none yet
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

func (s *session) Answers() bool { return s.asker.Answers() }
func (s *session) Refused(port int, read verbs.Read) bool {
	return s.asker.refusals.Refused(port, read)
}
func (s *session) Send(i verbs.Item) bool             { return s.out.add(i) }
func (s *session) SendFacts(f verbs.FabricFacts) bool { return s.out.addFacts(f) }
func (s *session) Full() bool                         { return s.out.isFull() }

// portChanged calls PortChanged of all parts for p.
func (s *session) portChanged(p *port) {
	for _, part := range s.parts {
		part.PortChanged(p.number)
	}
}
