package verbstest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// foreignDatagrams has the peer await another session, and then this one from another queue pair.
func foreignDatagrams(s *session) {
	const expected, session = 20, 21
	m := s.ends(fabricOptions(once, 1))
	m.start()
	rc, err := m.fab.Offer(0, verbs.FabricProbes)
	require.NoError(s.t, err)
	peer := m.offerFar(0, session)
	m.joinFar(0, expected, rc)
	require.NoError(s.t, m.fab.Join(0, peer))
	m.untilCount(session, verbs.FabricMissing, 1)
	foreign := func(n uint64) func() bool { return func() bool { return m.far.counted().Foreign == n } }
	require.Eventually(s.t, foreign(1), patience, time.Millisecond)
	require.Zero(s.t, m.far.counted().Echoed)

	rc, err = m.fab.Offer(1, verbs.FabricProbes)
	require.NoError(s.t, err)
	peer = m.offerFar(1, session)
	stranger := *address(s.t, m.far.port, m.port)
	stranger.Role, stranger.Session, stranger.RC, stranger.UD = verbs.FabricAnswers, session, rc, []uint32{m.port.UD[0] + 1}
	require.NoError(s.t, m.far.fab.Join(1, &stranger))
	require.NoError(s.t, m.fab.Join(1, peer))
	require.Eventually(s.t, foreign(2), patience, time.Millisecond)
	require.Zero(s.t, m.far.counted().Echoed)
	facts := m.seen(session)
	require.Empty(s.t, of(facts, verbs.FabricEcho))
}

// tooManyProbes sends 100 probes a second. Twenty of them are answered, and the peer says that the others have arrived.
func tooManyProbes(s *session) {
	const session, limit = 22, 20
	m := s.ends(fabricOptions(10*time.Millisecond, 1))
	m.start()
	m.meet(0, session)
	facts := m.until("an echo after refused probes", session, func(facts []verbs.FabricFact) bool {
		echoes := of(facts, verbs.FabricEcho)
		return len(echoes) > 0 && echoes[len(echoes)-1].Received > echoes[len(echoes)-1].Posted
	})
	m.halt()
	m.far.after(session, 2*quiet)
	m.far.halt()
	echoes, sent := of(facts, verbs.FabricEcho), of(facts, verbs.FabricSent)
	seconds := (sent[len(sent)-1].At-sent[0].At)/int64(time.Second) + 2
	require.LessOrEqual(s.t, len(echoes), int(limit*seconds))
	for _, f := range echoes {
		require.LessOrEqual(s.t, f.Posted, f.Received)
		require.LessOrEqual(s.t, f.Received, f.Seq)
	}
	last := echoes[len(echoes)-1]
	c := m.far.counted()
	require.GreaterOrEqual(s.t, c.Refused, last.Received-last.Posted)
	require.GreaterOrEqual(s.t, c.Echoed, last.Posted)
}

// dryReceives sends more probes than the peer has receives while its process does not run.
func dryReceives(s *session) {
	const session, receives = 23, 64
	m := s.ends(fabricOptions(5*time.Millisecond, 1))
	m.end.start()
	m.meet(0, session)
	m.untilCount(session, verbs.FabricSent, receives+10)
	m.far.start()
	facts := m.until("an echo that says so", session, func(facts []verbs.FabricFact) bool {
		return slices.ContainsFunc(facts, func(f verbs.FabricFact) bool { return f.Dry })
	})
	echoes := of(facts, verbs.FabricEcho)
	next := slices.IndexFunc(echoes, func(f verbs.FabricFact) bool { return f.Seq > receives })
	for _, f := range echoes[:next] {
		require.False(s.t, f.Dry, "probe %d found a receive, as all before it did", f.Seq)
	}
	require.True(s.t, echoes[next].Dry, "probe %d", echoes[next].Seq)
	for _, f := range echoes[next:] {
		require.Less(s.t, f.Received, f.Seq, "some before it were dropped")
	}
	require.NotZero(s.t, m.far.counted().Dry)
	require.Zero(s.t, m.counted().Dry)

	require.NoError(s.t, m.fab.Leave(0))
	m.meet(1, session+1)
	first := of(m.untilCount(session+1, verbs.FabricEcho, 1), verbs.FabricEcho)[0]
	require.False(s.t, first.Dry, "that was before this session")
}

// repeatedProbes sends the first probes of a session a second time, from another place that begins the session again, and then
// goes on with new ones.
func repeatedProbes(s *session) {
	const session, repeated = 26, 4
	m := s.ends(fabricOptions(100*time.Millisecond, 1)) // ten probes a second: the peer refuses none
	m.start()
	m.meet(0, session)
	m.untilCount(session, verbs.FabricEcho, repeated)
	require.NoError(s.t, m.fab.Leave(0))
	sent := uint64(len(of(m.after(session, quiet), verbs.FabricSent)))

	_, err := m.fab.Offer(1, verbs.FabricProbes)
	require.NoError(s.t, err)
	require.NoError(s.t, m.fab.Join(1, m.offerFar(1, session)))
	facts := m.until("the echo of a new probe", session, func(facts []verbs.FabricFact) bool {
		return slices.ContainsFunc(facts, func(f verbs.FabricFact) bool { return f.Kind == verbs.FabricEcho && f.Pair == 1 })
	})
	for _, f := range of(facts, verbs.FabricEcho) {
		require.Equal(s.t, f.Seq, f.Received)
		require.Equal(s.t, f.Seq, f.Posted)
		require.True(s.t, f.Pair == 0 || f.Seq > sent, "probe %d is echoed again", f.Seq)
	}
	m.halt()
	m.far.halt()
	c := m.far.counted()
	require.Equal(s.t, sent, c.Foreign)
	i := slices.IndexFunc(c.Pairs, func(p ledger.FabricPair) bool { return p.Session == session })
	require.GreaterOrEqual(s.t, i, 0)
	require.Equal(s.t, c.Echoed, c.Pairs[i].Answered, "the side that answers counts what it has echoed")
}

func probeEachOther(s *session) {
	const there, back = 24, 25
	m := s.ends(fabricOptions(often, 4))
	m.start()
	m.meet(0, there)
	other := &meeting{end: m.far, far: m.end, peer: m.peer, t: m.t}
	other.meet(1, back)
	m.untilCount(there, verbs.FabricEcho, 5)
	other.untilCount(back, verbs.FabricEcho, 5)
	m.untilCount(there, verbs.FabricWriteDone, 1)
	other.untilCount(back, verbs.FabricWriteDone, 1)
	require.Zero(s.t, m.counted().Foreign+m.far.counted().Foreign)
}
