package verbstest

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// end is the Fabric of a port, with the goroutine that runs it.
type end struct {
	*session
	fab  verbs.FabricEndpoint
	port verbs.FabricPort

	stop, ended chan struct{} // nil while it does not run

	mu    sync.Mutex
	facts []verbs.FabricFact
	upTo  int64
	more  chan struct{} // closed when there are more facts
	err   error         // with which Run has ended
}

// meeting is the port that probes, and its peer.
type meeting struct {
	*end       // that probes
	far  *end  // nil if the backend answers for it by itself
	peer *Peer // of the fixture
	t    *testing.T
}

// fabricOptions are those of the suite's Fabrics, with another interval or number of paths.
func fabricOptions(interval time.Duration, paths int) verbs.FabricOptions {
	return verbs.FabricOptions{Paths: paths, Interval: interval, GIDIndex: -1, PKeyIndex: -1}
}

// ends makes a Fabric for the fixture's port, and one for its peer if the suite has both. Neither runs yet.
func (s *session) ends(o verbs.FabricOptions) *meeting {
	s.t.Helper()
	m := &meeting{end: s.fabric(o), peer: s.f.Peer, t: s.t}
	if m.peer.Alone == nil {
		m.far = s.farSession().fabric(o)
	}
	return m
}

// farSession is a session with the fixture's peer.
func (s *session) farSession() *session {
	s.t.Helper()
	f := *s.f
	f.Device, f.Port = s.f.Peer.Device, s.f.Peer.Port
	if f.Device != s.f.Device {
		return open(s.t, &f)
	}
	far := *s
	far.f = &f
	return &far
}

func (s *session) fabric(o verbs.FabricOptions) *end {
	s.t.Helper()
	fab, port, err := s.dev.NewFabricEndpoint(verbs.FabricConfig{Port: s.f.Port, FabricOptions: o})
	require.NoError(s.t, err)
	e := &end{session: s, fab: fab, port: port, more: make(chan struct{})}
	s.t.Cleanup(func() {
		e.halt()
		if err := e.close(); !errors.Is(err, verbs.ErrClosed) {
			require.NoError(s.t, err)
		}
	})
	return e
}

// start runs the Fabric until halt, or until it fails.
func (e *end) start() {
	e.stop, e.ended = make(chan struct{}), make(chan struct{})
	go e.run(e.stop, e.ended)
}

func (e *end) run(stop, ended chan struct{}) {
	defer close(ended)
	facts := make([]verbs.FabricFact, verbs.MinFabricFacts)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, upTo, err := e.fab.Run(facts, quiet)
		e.mu.Lock()
		e.facts = append(e.facts, facts[:n]...)
		if upTo < e.upTo && err == nil {
			err = errors.New("UpTo went back")
		}
		e.upTo = max(e.upTo, upTo)
		e.err = err
		close(e.more)
		e.more = make(chan struct{})
		e.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// halt returns when the Fabric runs no more.
func (e *end) halt() {
	if e.stop == nil {
		return
	}
	close(e.stop)
	e.fab.Nudge()
	<-e.ended
	e.stop = nil
}

func (e *end) close() error {
	return within(e.t, "Fabric.Close", func() error { return e.fab.Close(patience) })
}

// seen returns the facts of a session so far.
func (e *end) seen(session uint64) []verbs.FabricFact {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.facts), func(f verbs.FabricFact) bool { return f.Session != session })
}

// going returns up to when the facts go, a channel that is closed when there are more, and the error with which they ended.
func (e *end) going() (upTo int64, more <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.upTo, e.more, e.err
}

// until waits until the facts of a session satisfy done, and returns them.
func (e *end) until(what string, session uint64, done func([]verbs.FabricFact) bool) []verbs.FabricFact {
	e.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		_, more, err := e.going()
		facts := e.seen(session)
		if done(facts) {
			return facts
		}
		require.NoError(e.t, err)
		select {
		case <-more:
		case <-timeout.C:
			require.Fail(e.t, "not within "+patience.String(), "%s; saw %+v", what, facts)
		}
	}
}

// untilCount waits for a number of facts of a kind, and returns all of the session.
func (e *end) untilCount(session uint64, kind verbs.FabricKind, n int) []verbs.FabricFact {
	e.t.Helper()
	return e.until(kindNames[kind], session, func(facts []verbs.FabricFact) bool { return len(of(facts, kind)) >= n })
}

// after waits until the Fabric has run on for a time, in which something must not happen, and returns the session's facts.
func (e *end) after(session uint64, lasting time.Duration) []verbs.FabricFact {
	e.t.Helper()
	begin, _, _ := e.going()
	e.until("the Fabric to run on", session, func([]verbs.FabricFact) bool {
		upTo, _, _ := e.going()
		return upTo >= begin+int64(lasting)
	})
	return e.seen(session)
}

var kindNames = map[verbs.FabricKind]string{
	verbs.FabricSent: "probes", verbs.FabricEcho: "echoes", verbs.FabricWrite: "writes", verbs.FabricWriteDone: "writes that are done",
	verbs.FabricWriteFailed: "a write that failed", verbs.FabricMissing: "a missing echo",
}

func of(facts []verbs.FabricFact, kind verbs.FabricKind) []verbs.FabricFact {
	return slices.DeleteFunc(slices.Clone(facts), func(f verbs.FabricFact) bool { return f.Kind != kind })
}

// The packet numbers with which the pairs begin: of what the probing side sends, and of what its peer sends.
const (
	probingPSN   = 0xfffffe // so that they wrap
	answeringPSN = 0x4711
)

// offerFar has the peer offer a place, and returns what the probing side has to know of it. Nothing of it is joined there.
func (m *meeting) offerFar(place int, session uint64) *verbs.FabricPeer {
	m.t.Helper()
	if m.far == nil {
		p := *m.peer.Alone
		p.UD = p.UD[:len(m.port.UD)]
		p.Role, p.Session, p.PSN, p.OwnPSN = verbs.FabricProbes, session, answeringPSN, probingPSN
		return &p
	}
	rc, err := m.far.fab.Offer(place, verbs.FabricAnswers)
	require.NoError(m.t, err)
	p := address(m.t, m.port, m.far.port)
	p.Role, p.Session, p.RC, p.PSN, p.OwnPSN = verbs.FabricProbes, session, rc, answeringPSN, probingPSN
	return p
}

// joinFar has the peer answer a pair that the probing side has offered.
func (m *meeting) joinFar(place int, session uint64, rc uint32) {
	m.t.Helper()
	if m.far == nil {
		return
	}
	p := address(m.t, m.far.port, m.port)
	p.Role, p.Session, p.RC, p.PSN, p.OwnPSN = verbs.FabricAnswers, session, rc, probingPSN, answeringPSN
	require.NoError(m.t, m.far.fab.Join(place, p))
}

// meet joins both sides of a pair.
func (m *meeting) meet(place int, session uint64) {
	m.t.Helper()
	rc, err := m.fab.Offer(place, verbs.FabricProbes)
	require.NoError(m.t, err)
	peer := m.offerFar(place, session)
	m.joinFar(place, session, rc)
	require.NoError(m.t, m.fab.Join(place, peer))
}

// start runs both sides.
func (m *meeting) start() {
	m.end.start()
	if m.far != nil {
		m.far.start()
	}
}

// busy makes the peer's process send no echoes, while its device acknowledges writes; gone also ends these, if nothing was
// joined there.
func (m *meeting) busy() {
	m.t.Helper()
	if m.far == nil {
		m.peer.Silence(m.t, true, false)
		return
	}
	m.far.halt()
}

func (m *meeting) gone() {
	m.t.Helper()
	if m.far == nil {
		m.peer.Silence(m.t, true, true)
	}
}

// address returns how to reach one port from another.
func address(t *testing.T, from, to verbs.FabricPort) *verbs.FabricPeer {
	t.Helper()
	p := &verbs.FabricPeer{Host: "far", Device: "far", Port: to.Port, UD: to.UD, QKey: to.QKey, LID: to.LID}
	if from.LinkLayer == verbs.LinkInfiniBand && !from.NeedsGRH && !to.NeedsGRH {
		return p
	}
	p.Global = true
	for _, own := range from.GIDs {
		for _, other := range to.GIDs {
			if isIPv4(own) == isIPv4(other) {
				p.GIDIndex, p.GID = own.Index, other.Raw
				return p
			}
		}
	}
	require.Fail(t, "the ports have no GIDs of one family", "%+v and %+v", from.GIDs, to.GIDs)
	return nil
}

func isIPv4(g verbs.FabricGID) bool { return netip.AddrFrom16(g.Raw).Is4In6() }

// counted returns the ledger's counts of the Fabric.
func (e *end) counted() ledger.FabricState {
	e.t.Helper()
	for _, f := range e.snapshot().Fabrics {
		if f.Port == e.f.Port {
			slices.SortFunc(f.Pairs, func(a, b ledger.FabricPair) int { return cmp.Compare(a.Session, b.Session) })
			return f
		}
	}
	require.Fail(e.t, "the ledger has no such Fabric")
	return ledger.FabricState{}
}
