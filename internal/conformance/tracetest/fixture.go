package tracetest

import (
	"testing"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// Fixture is a source, and the means to provoke what the suite checks.
type Fixture struct {
	// New returns the host of one case. Its device is there, and no process that Start has made. What is left of it at the
	// end of the case is cleaned up.
	New func(t testing.TB) Host
	// Around runs a case, for one that has to be in a testing/synctest bubble. Nil: the case is run as it is.
	Around func(t *testing.T, check func(t *testing.T))
	// Types are those of the events that Process.Cause can make: the first is an error (trace.IsError) of an object. With
	// one type only, the reason is in Lacks.
	Types []verbs.EventType
	// Lacks has the reason for each capability that is missing. Its cases are skipped with that reason.
	Lacks map[Capability]string
}

// Capability is something that not every fixture can do.
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
	// Start starts a process that has the device open, with objects of its own. It does nothing by itself.
	Start(t testing.TB) Process
	// Remove removes the device.
	Remove(t testing.TB)
}

// Process is a process that is led by the suite. Its methods return when what they say has been done, and fail t if it cannot
// be done.
type Process interface {
	PID() int
	// Cause makes events of a type come to the process, all about the same object, and returns the number of that.
	Cause(t testing.TB, typ verbs.EventType, count int) (number uint32)
	// Read reads the first events that are unread, and acknowledges them. 0: all that are there.
	Read(t testing.TB, count int)
	// Hold reads all events that are there, and does not acknowledge them.
	Hold(t testing.TB)
	// Destroy begins to destroy, in a thread of its own, the object that events of a type are about. The kernel has
	// destroyed it when Destroy returns. The thread waits for what Hold has left.
	Destroy(t testing.TB, typ verbs.EventType)
	// Acknowledge acknowledges what Hold has left.
	Acknowledge(t testing.TB)
	// Exit ends the process, whatever it does.
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
	typ verbs.EventType // of an object, that Cause can make
}

func (s *scene) start() Process { return s.Start(s.T) }
