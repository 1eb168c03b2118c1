package applications_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/conformance/tracetest"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/applications"
	"rdma_events/internal/simulated/devices"
)

func TestTheSimulatedSourceKeepsTheContract(t *testing.T) {
	tracetest.Run(t, tracetest.Fixture{
		New:    func(t testing.TB) tracetest.Host { return newHost(t, "fleet1") },
		Around: synctest.Test,
		Types:  []verbs.EventType{verbs.EventQPFatal, verbs.EventSRQLimitReached},
	})
}

func TestTheSimulatedSourceKeepsTheContractWithADriverThatCannotTakeADeviceAway(t *testing.T) {
	tracetest.Run(t, tracetest.Fixture{
		New:    func(t testing.TB) tracetest.Host { return newHost(t, "iwarp") },
		Around: synctest.Test,
		Types:  []verbs.EventType{verbs.EventCQErr, verbs.EventSQDrained},
		Lacks:  map[tracetest.Capability]string{tracetest.Fatal: "the driver cannot take a device away"},
	})
}

// host is a simulated host whose only device, sim0, is removed after an hour.
type host struct {
	w       *devices.World
	removal time.Time
}

func newHost(t testing.TB, profile string) *host {
	const age = time.Hour
	w, err := devices.Load(devices.Options{
		Profile: profile, Clock: fakeTime, Timeline: "[[fault]]\nkind = 'removed'\nat = '" + age.String() + "'\n",
	})
	require.NoError(t, err)
	return &host{w, time.Now().Add(age)}
}

// fakeTime is the clock of a testing/synctest bubble.
func fakeTime() int64 { return time.Now().UnixNano() }

func (h *host) Device() string { return "sim0" }

func (h *host) Now() int64 { return h.w.Now() }

func (h *host) Open(hangAfter time.Duration) (trace.Source, error) {
	return applications.Open(h.w, hangAfter)
}

func (h *host) Remove(testing.TB) { time.Sleep(time.Until(h.removal)) }

func (h *host) Start(t testing.TB) tracetest.Process {
	a, err := h.w.Act(h.Device(), "python3", "job_7")
	require.NoError(t, err)
	return &process{Actor: a, numbers: map[verbs.EventType]uint32{}}
}

// process controls an actor. Each of its actions has a distinct time.
type process struct {
	*devices.Actor
	numbers map[verbs.EventType]uint32 // numbers of the objects
	unread  []verbs.EventType
	held    uint32
}

func (p *process) PID() int { return p.Process().PID }

func (p *process) Cause(_ testing.TB, typ verbs.EventType, count int) uint32 {
	passTime()
	if p.numbers[typ] == 0 {
		p.numbers[typ] = 0x100 + uint32(len(p.numbers))
	}
	p.QueueEvents(typ, p.numbers[typ], count)
	p.unread = append(p.unread, make([]verbs.EventType, count)...)
	return p.numbers[typ]
}

func (p *process) Read(_ testing.TB, count int) {
	passTime()
	p.Actor.Read(count)
	if count == 0 {
		count = len(p.unread)
	}
	p.unread = p.unread[count:]
}

func (p *process) Hold(t testing.TB) {
	p.held = uint32(len(p.unread))
	p.Read(t, 0)
}

func (p *process) Destroy(_ testing.TB, typ verbs.EventType) {
	passTime()
	p.Actor.Destroy(typ.Scope(), p.numbers[typ], p.held)
}

func (p *process) Acknowledge(testing.TB) {
	passTime()
	p.Actor.Acknowledge()
}

func (p *process) Exit(testing.TB) {
	passTime()
	p.Actor.Exit()
}

// passTime lets some time pass, so that the next action is later than all previous actions and reports.
func passTime() { time.Sleep(time.Millisecond) }
