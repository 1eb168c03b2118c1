package tracetest

import (
	"testing"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// Fixture is a source, and the means to provoke what the suite checks.
type Fixture struct {
	// New returns the host of one case, with its device and without processes. It registers a cleanup of the host for the
	// end of the case.
	New func(t testing.TB) Host
	// Around runs a case, for example in a testing/synctest bubble. Nil: the case is run directly.
	Around func(t *testing.T, check func(t *testing.T))
	// Types lists the types of events that Process.Cause supports. The first is an error (trace.IsError) of an object. If
	// there is only one type, Lacks has the reason.
	Types []verbs.EventType
	// Lacks has the reason for each missing capability. Its cases are skipped with that reason.
	Lacks map[Capability]string
}

// Capability is an ability that not every fixture has.
type Capability string

// The capabilities.
const (
	TwoTypes Capability = "events of two types"           // Types has a second one
	Hanging  Capability = "hanging in a destroy"          // Process.Hold and Acknowledge
	Removal  Capability = "removal of the device"         // Host.Remove; the device is the only one
	Fatal    Capability = "device_fatal with the removal" // the driver can take the device away
)

// Host has a device, and processes that use it.
type Host interface {
	Device() string
	// Now returns the host's CLOCK_MONOTONIC in ns.
	Now() int64
	// Open opens a source, which reports hangs after hangAfter.
	Open(hangAfter time.Duration) (trace.Source, error)
	// Start starts a process that has the device open, with objects of its own. The process acts only on request.
	Start(t testing.TB) Process
	// Remove removes the device.
	Remove(t testing.TB)
}

// Process is a process that the suite controls. Its methods return when the action is done, and fail t if it cannot be done.
type Process interface {
	PID() int
	// Cause causes count events of a type for the process, all about the same object, and returns the object's number.
	Cause(t testing.TB, typ verbs.EventType, count int) (number uint32)
	// Read reads and acknowledges the first count unread events; with 0, all unread events.
	Read(t testing.TB, count int)
	// Hold reads all unread events without acknowledging them.
	Hold(t testing.TB)
	// Destroy begins to destroy the object that events of a type are about, in a thread of its own. When Destroy returns,
	// the kernel has destroyed the object; the thread still waits for the events that Hold has not acknowledged.
	Destroy(t testing.TB, typ verbs.EventType)
	// Acknowledge acknowledges the events that Hold has read.
	Acknowledge(t testing.TB)
	// Exit ends the process, whatever it is doing.
	Exit(t testing.TB)
}

// Run runs the suite.
func Run(t *testing.T, f Fixture) {
	if f.Around == nil {
		f.Around = func(t *testing.T, check func(*testing.T)) { check(t) }
	}
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"counts", countCases()},
		{"hangs", hangCases()},
		{"ends", endCases()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) { c.run(t, &f) })
			}
		})
	}
}

type testCase struct {
	name  string
	needs []Capability
	check func(*scene)
}

func (c testCase) run(t *testing.T, f *Fixture) {
	for _, n := range c.needs {
		if reason := f.Lacks[n]; reason != "" {
			t.Skipf("no %s: %s", n, reason)
		}
	}
	f.Around(t, func(t *testing.T) { c.check(&scene{T: t, f: f, Host: f.New(t), typ: f.Types[0]}) })
}

// scene is the host of one case.
type scene struct {
	*testing.T
	Host
	f   *Fixture
	typ verbs.EventType // an event type of an object that Cause supports
}

func (s *scene) start() Process { return s.Start(s.T) }
