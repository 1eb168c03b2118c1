package verbstest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// foreignDatagrams makes the peer expect another session, and then this session from another queue pair.
func foreignDatagrams(s *session) {
	const expected, session = 20, 21
	m := s.newConnection(fabricOptions(once, 1))
	m.start()
	rc, err := m.fab.Offer(0, verbs.FabricProbes)
	require.NoError(s.t, err)
	peer := m.offerRemote(0, session)
	m.joinRemote(0, expected, rc)
	require.NoError(s.t, m.fab.Join(0, peer))
	m.untilCount(session, verbs.FabricMissing, 1)
	foreign := func(n uint64) func() bool { return func() bool { return m.remote.counted().Foreign == n } }
	require.Eventually(s.t, foreign(1), patience, time.Millisecond)
	require.Zero(s.t, m.remote.counted().Echoed)

	rc, err = m.fab.Offer(1, verbs.FabricProbes)
	require.NoError(s.t, err)
	peer = m.offerRemote(1, session)
	stranger := *peerAddress(s.t, m.remote.port, m.port)
	stranger.Role, stranger.Session, stranger.RC, stranger.UD = verbs.FabricAnswers, session, rc, []uint32{m.port.UD[0] + 1}
	require.NoError(s.t, m.remote.fab.Join(1, &stranger))
	require.NoError(s.t, m.fab.Join(1, peer))
	require.Eventually(s.t, foreign(2), patience, time.Millisecond)
	require.Zero(s.t, m.remote.counted().Echoed)
	facts := m.factsOf(session)
	require.Empty(s.t, ofKind(facts, verbs.FabricEcho))
}

// tooManyProbes sends 100 probes a second. The peer answers twenty of them, and reports that the others have arrived.
func tooManyProbes(s *session) {
	const session, limit = 22, 20
	m := s.newConnection(fabricOptions(10*time.Millisecond, 1))
	m.start()
	m.joinBoth(0, session)
	facts := m.until("an echo after refused probes", session, func(facts []verbs.FabricFact) bool {
		echoes := ofKind(facts, verbs.FabricEcho)
		return len(echoes) > 0 && echoes[len(echoes)-1].Received > echoes[len(echoes)-1].Posted
	})
	m.stopRunning()
	m.remote.factsAfter(session, 2*quiet)
	m.remote.stopRunning()
	echoes, sent := ofKind(facts, verbs.FabricEcho), ofKind(facts, verbs.FabricSent)
	seconds := (sent[len(sent)-1].At-sent[0].At)/int64(time.Second) + 2
	require.LessOrEqual(s.t, len(echoes), int(limit*seconds))
	for _, f := range echoes {
		require.LessOrEqual(s.t, f.Posted, f.Received)
		require.LessOrEqual(s.t, f.Received, f.Seq)
	}
	last := echoes[len(echoes)-1]
	c := m.remote.counted()
	require.GreaterOrEqual(s.t, c.Refused, last.Received-last.Posted)
	require.GreaterOrEqual(s.t, c.Echoed, last.Posted)
}

// dryReceives sends more probes than the peer has receives, while the peer's process does not run.
func dryReceives(s *session) {
	const session, receives = 23, 64
	m := s.newConnection(fabricOptions(5*time.Millisecond, 1))
	m.endpoint.start()
	m.joinBoth(0, session)
	m.untilCount(session, verbs.FabricSent, receives+10)
	m.remote.start()
	facts := m.until("an echo that says so", session, func(facts []verbs.FabricFact) bool {
		return slices.ContainsFunc(facts, func(f verbs.FabricFact) bool { return f.Dry })
	})
	echoes := ofKind(facts, verbs.FabricEcho)
	next := slices.IndexFunc(echoes, func(f verbs.FabricFact) bool { return f.Seq > receives })
	for _, f := range echoes[:next] {
		require.False(s.t, f.Dry, "probe %d found a receive, as all before it did", f.Seq)
	}
	require.True(s.t, echoes[next].Dry, "probe %d", echoes[next].Seq)
	for _, f := range echoes[next:] {
		require.Less(s.t, f.Received, f.Seq, "some before it were dropped")
	}
	require.NotZero(s.t, m.remote.counted().Dry)
	require.Zero(s.t, m.counted().Dry)

	require.NoError(s.t, m.fab.Leave(0))
	m.joinBoth(1, session+1)
	first := ofKind(m.untilCount(session+1, verbs.FabricEcho, 1), verbs.FabricEcho)[0]
	require.False(s.t, first.Dry, "that was before this session")
}

// repeatedProbes sends the first probes of a session a second time, from another slot that starts the session again, and then
// continues with new probes.
func repeatedProbes(s *session) {
	const session, repeated = 26, 4
	m := s.newConnection(fabricOptions(100*time.Millisecond, 1)) // ten probes a second: the peer refuses none
	m.start()
	m.joinBoth(0, session)
	m.untilCount(session, verbs.FabricEcho, repeated)
	require.NoError(s.t, m.fab.Leave(0))
	sent := uint64(len(ofKind(m.factsAfter(session, quiet), verbs.FabricSent)))

	_, err := m.fab.Offer(1, verbs.FabricProbes)
	require.NoError(s.t, err)
	require.NoError(s.t, m.fab.Join(1, m.offerRemote(1, session)))
	facts := m.until("the echo of a new probe", session, func(facts []verbs.FabricFact) bool {
		return slices.ContainsFunc(facts, func(f verbs.FabricFact) bool { return f.Kind == verbs.FabricEcho && f.Pair == 1 })
	})
	for _, f := range ofKind(facts, verbs.FabricEcho) {
		require.Equal(s.t, f.Seq, f.Received)
		require.Equal(s.t, f.Seq, f.Posted)
		require.True(s.t, f.Pair == 0 || f.Seq > sent, "probe %d is echoed again", f.Seq)
	}
	m.stopRunning()
	m.remote.stopRunning()
	c := m.remote.counted()
	require.Equal(s.t, sent, c.Foreign)
	i := slices.IndexFunc(c.Pairs, func(p ledger.FabricPair) bool { return p.Session == session })
	require.GreaterOrEqual(s.t, i, 0)
	require.Equal(s.t, c.Echoed, c.Pairs[i].Answered, "the side that answers counts what it has echoed")
}

func probeEachOther(s *session) {
	const there, back = 24, 25
	m := s.newConnection(fabricOptions(often, 4))
	m.start()
	m.joinBoth(0, there)
	other := &connection{endpoint: m.remote, remote: m.endpoint, peer: m.peer, t: m.t}
	other.joinBoth(1, back)
	m.untilCount(there, verbs.FabricEcho, 5)
	other.untilCount(back, verbs.FabricEcho, 5)
	m.untilCount(there, verbs.FabricWriteDone, 1)
	other.untilCount(back, verbs.FabricWriteDone, 1)
	require.Zero(s.t, m.counted().Foreign+m.remote.counted().Foreign)
}
