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

// endpoint is the FabricEndpoint of a port, with the goroutine that runs it.
type endpoint struct {
	*session
	fab  verbs.FabricEndpoint
	port verbs.FabricPort

	stop, ended chan struct{} // nil while the endpoint does not run

	mu    sync.Mutex
	facts []verbs.FabricFact
	upTo  int64
	more  chan struct{} // closed when there are more facts
	err   error         // the error that ended Run
}

// connection is the port that probes, and its peer.
type connection struct {
	*endpoint           // the requester
	remote    *endpoint // the responder; nil if the backend itself answers for the peer
	peer      *Peer     // of the fixture
	t         *testing.T
}

// fabricOptions returns the options of the suite's endpoints, with an interval and a number of paths.
func fabricOptions(interval time.Duration, paths int) verbs.FabricOptions {
	return verbs.FabricOptions{Paths: paths, Interval: interval, GIDIndex: -1, PKeyIndex: -1}
}

// newConnection creates an endpoint for the fixture's port, and one for its peer if the suite runs both. Neither runs yet.
func (s *session) newConnection(o verbs.FabricOptions) *connection {
	s.t.Helper()
	m := &connection{endpoint: s.newEndpoint(o), peer: s.f.Peer, t: s.t}
	if m.peer.Alone == nil {
		m.remote = s.peerSession().newEndpoint(o)
	}
	return m
}

// peerSession returns a session on the fixture's peer.
func (s *session) peerSession() *session {
	s.t.Helper()
	f := *s.f
	f.Device, f.Port = s.f.Peer.Device, s.f.Peer.Port
	if f.Device != s.f.Device {
		return openSession(s.t, &f)
	}
	remote := *s
	remote.f = &f
	return &remote
}

func (s *session) newEndpoint(o verbs.FabricOptions) *endpoint {
	s.t.Helper()
	fab, port, err := s.dev.NewFabricEndpoint(verbs.FabricConfig{Port: s.f.Port, FabricOptions: o})
	require.NoError(s.t, err)
	e := &endpoint{session: s, fab: fab, port: port, more: make(chan struct{})}
	s.t.Cleanup(func() {
		e.stopRunning()
		if err := e.close(); !errors.Is(err, verbs.ErrClosed) {
			require.NoError(s.t, err)
		}
	})
	return e
}

// start runs the endpoint until stopRunning, or until it fails.
func (e *endpoint) start() {
	e.stop, e.ended = make(chan struct{}), make(chan struct{})
	go e.run(e.stop, e.ended)
}

func (e *endpoint) run(stop, ended chan struct{}) {
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

// stopRunning stops the endpoint, and returns when it no longer runs.
func (e *endpoint) stopRunning() {
	if e.stop == nil {
		return
	}
	close(e.stop)
	e.fab.Nudge()
	<-e.ended
	e.stop = nil
}

func (e *endpoint) close() error {
	return callInTime(e.t, "FabricEndpoint.Close", func() error { return e.fab.Close(patience) })
}

// factsOf returns the facts of a session so far.
func (e *endpoint) factsOf(session uint64) []verbs.FabricFact {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.facts), func(f verbs.FabricFact) bool { return f.Session != session })
}

// progress returns the time up to which the facts are complete, a channel that is closed when there are more facts, and the error
// that ended Run.
func (e *endpoint) progress() (upTo int64, more <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.upTo, e.more, e.err
}

// until waits until the facts of a session satisfy done, and returns them.
func (e *endpoint) until(what string, session uint64, done func([]verbs.FabricFact) bool) []verbs.FabricFact {
	e.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		_, more, err := e.progress()
		facts := e.factsOf(session)
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

// untilCount waits for n facts of a kind, and returns all facts of the session.
func (e *endpoint) untilCount(session uint64, kind verbs.FabricKind, n int) []verbs.FabricFact {
	e.t.Helper()
	return e.until(kindNames[kind], session, func(facts []verbs.FabricFact) bool { return len(ofKind(facts, kind)) >= n })
}

// factsAfter waits until the endpoint has run for another period lasting, in which something must not happen, and returns the
// session's facts.
func (e *endpoint) factsAfter(session uint64, lasting time.Duration) []verbs.FabricFact {
	e.t.Helper()
	begin, _, _ := e.progress()
	e.until("the endpoint to continue", session, func([]verbs.FabricFact) bool {
		upTo, _, _ := e.progress()
		return upTo >= begin+int64(lasting)
	})
	return e.factsOf(session)
}

var kindNames = map[verbs.FabricKind]string{
	verbs.FabricSent: "probes", verbs.FabricEcho: "echoes", verbs.FabricWrite: "writes", verbs.FabricWriteDone: "writes that are done",
	verbs.FabricWriteFailed: "a write that failed", verbs.FabricMissing: "a missing echo",
}

func ofKind(facts []verbs.FabricFact, kind verbs.FabricKind) []verbs.FabricFact {
	return slices.DeleteFunc(slices.Clone(facts), func(f verbs.FabricFact) bool { return f.Kind != kind })
}

// The first packet sequence numbers of the requester and of the responder.
const (
	probingPSN   = 0xfffffe // wraps soon
	answeringPSN = 0x4711
)

// offerRemote makes the peer offer a slot, and returns the description of the peer for the requester. The peer does not join.
func (m *connection) offerRemote(place int, session uint64) *verbs.FabricPeer {
	m.t.Helper()
	if m.remote == nil {
		p := *m.peer.Alone
		p.UD = p.UD[:len(m.port.UD)]
		p.Role, p.Session, p.PSN, p.OwnPSN = verbs.FabricProbes, session, answeringPSN, probingPSN
		return &p
	}
	rc, err := m.remote.fab.Offer(place, verbs.FabricAnswers)
	require.NoError(m.t, err)
	p := peerAddress(m.t, m.port, m.remote.port)
	p.Role, p.Session, p.RC, p.PSN, p.OwnPSN = verbs.FabricProbes, session, rc, answeringPSN, probingPSN
	return p
}

// joinRemote makes the peer join a pair that the requester has offered.
func (m *connection) joinRemote(place int, session uint64, rc uint32) {
	m.t.Helper()
	if m.remote == nil {
		return
	}
	p := peerAddress(m.t, m.remote.port, m.port)
	p.Role, p.Session, p.RC, p.PSN, p.OwnPSN = verbs.FabricAnswers, session, rc, probingPSN, answeringPSN
	require.NoError(m.t, m.remote.fab.Join(place, p))
}

// joinBoth joins both sides of a pair.
func (m *connection) joinBoth(place int, session uint64) {
	m.t.Helper()
	rc, err := m.fab.Offer(place, verbs.FabricProbes)
	require.NoError(m.t, err)
	peer := m.offerRemote(place, session)
	m.joinRemote(place, session, rc)
	require.NoError(m.t, m.fab.Join(place, peer))
}

// start runs both sides.
func (m *connection) start() {
	m.endpoint.start()
	if m.remote != nil {
		m.remote.start()
	}
}

// silenceEchoes makes the peer's process send no echoes, while its device still acknowledges writes. silenceAll also stops the
// acknowledgements, provided that the peer has not joined the pair.
func (m *connection) silenceEchoes() {
	m.t.Helper()
	if m.remote == nil {
		m.peer.Silence(m.t, true, false)
		return
	}
	m.remote.stopRunning()
}

func (m *connection) silenceAll() {
	m.t.Helper()
	if m.remote == nil {
		m.peer.Silence(m.t, true, true)
	}
}

// peerAddress describes how one port reaches another.
func peerAddress(t *testing.T, from, to verbs.FabricPort) *verbs.FabricPeer {
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

// counted returns the ledger's counts of the endpoint.
func (e *endpoint) counted() ledger.FabricState {
	e.t.Helper()
	for _, f := range e.snapshot().Fabrics {
		if f.Port == e.f.Port {
			slices.SortFunc(f.Pairs, func(a, b ledger.FabricPair) int { return cmp.Compare(a.Session, b.Session) })
			return f
		}
	}
	require.Fail(e.t, "the ledger has no such endpoint")
	return ledger.FabricState{}
}
