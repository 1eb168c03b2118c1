package verbstest

import (
	"testing"

	"rdma_events/internal/device/verbs"
)

// Fixture is a backend with one device, and the means to provoke the events
// that the suite checks. The functions act on Device and Port. They return when
// the action is done, although its events may come later, and fail t if it
// cannot be done.
type Fixture struct {
	Backend verbs.Backend
	Device  string
	Port    int // its link is up
	Methods []verbs.Method

	// LinkDown and LinkUp take the link of Port down and up; LinkUp may be
	// called with the link up. Both or neither must be set.
	LinkDown, LinkUp func(t testing.TB)
	// Inject makes the device raise count events of a type. port is 0 unless the
	// type's scope is verbs.ScopePort.
	Inject func(t testing.TB, typ verbs.EventType, port, count int)
	// AddAddress adds a network address, so that the GID table of Port changes.
	AddAddress func(t testing.TB)
	// Peer is another port, for probes between the two.
	Peer *Peer

	// Lacks has the reason for each missing capability. Its cases are skipped
	// with that reason. A missing capability without a reason is a failure.
	Lacks map[Capability]string
}

// Capability is an ability that not every fixture has.
type Capability string

// The capabilities.
const (
	Link       Capability = "link"
	Injection  Capability = "injection"
	Addresses  Capability = "addresses"
	SecondOpen Capability = "second open"
	Fabric     Capability = "fabric"
	BothEnds   Capability = "both ends of a fabric" // the suite also opens and runs the peer
)

// Peer is a port that exchanges packets with the fixture's Port.
type Peer struct {
	Device string // a device of the Backend; may be the fixture's
	Port   int

	// Alone is set if the backend itself answers for the peer. It is the peer to join, without session and packet numbers.
	// Silence then makes the peer send no echoes, or acknowledge no writes, until the end of the test.
	Alone   *verbs.FabricPeer
	Silence func(t testing.TB, echoes, writes bool)
}

func (f *Fixture) has(c Capability) bool {
	switch c {
	case Link:
		return f.LinkDown != nil && f.LinkUp != nil
	case Injection:
		return f.Inject != nil
	case Addresses:
		return f.AddAddress != nil
	case Fabric:
		return f.Peer != nil
	case BothEnds:
		return f.Peer != nil && f.Peer.Alone == nil
	}
	return f.Lacks[c] == ""
}

// requireOrSkip skips the case if the fixture lacks c for a reason, and fails it if there is no reason.
func (f *Fixture) requireOrSkip(t *testing.T, c Capability) {
	t.Helper()
	reason := f.Lacks[c]
	switch has := f.has(c); {
	case has && reason != "":
		t.Fatalf("the fixture has %q, and a reason why it lacks it: %s", c, reason)
	case !has && reason == "":
		t.Fatalf("the fixture has no %q, and no reason in Lacks", c)
	case !has:
		t.Skipf("no %s: %s", c, reason)
	}
}

// Run runs the suite. Each case opens the device anew.
func Run(t *testing.T, f Fixture) {
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"events", eventCases()},
		{"ports", portCases()},
		{"closing", closingCases()},
		{"probes", probeCases()},
		{"fabrics", fabricCases()},
	} {
		t.Run(group.name, func(t *testing.T) { runCases(t, f, group.cases) })
	}
}

// RunFabrics runs the part of the suite that is about probes between ports.
func RunFabrics(t *testing.T, f Fixture) { runCases(t, f, fabricCases()) }

func runCases(t *testing.T, f Fixture, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, f) })
	}
}

type testCase struct {
	name  string
	needs []Capability
	check func(*session)
}

func (c testCase) run(t *testing.T, f Fixture) {
	for _, n := range c.needs {
		f.requireOrSkip(t, n)
	}
	f.Backend = Track(t, f.Backend)
	c.check(openSession(t, &f))
}
