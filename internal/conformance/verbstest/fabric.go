package verbstest

import (
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// often is the interval of pairs that make many rounds; once is the interval of pairs that make only one round.
const (
	often = 20 * time.Millisecond
	once  = time.Hour
)

func fabricCases() []testCase {
	peer, both := []Capability{Fabric}, []Capability{Fabric, BothEnds}
	return []testCase{
		{"a Fabric says how its port is reached", peer, fabricIsDescribed},
		{"a port has one Fabric at a time", peer, oneFabric},
		{"a Fabric that cannot be is ErrUnsupported", peer, impossibleFabrics},
		{"probes are echoed on all paths in turn, and writes are done", peer, probesAreEchoed},
		{"a pair that has left is probed no more", peer, leftPair},
		{"an offer leaves the pair of its place alone, and a join replaces it", peer, joinReplaces},
		{"a silent peer is asked three times more", peer, silentPeer},
		{"a busy peer is not asked more", peer, busyPeer},
		{"a write without an acknowledgement fails once", peer, writeFailsOnce},
		{"a nudge ends Run", peer, nudgeEndsRun},
		{"orders that make no sense are errors", peer, senselessOrders},
		{"Close ends pairs and Run, and acknowledges every event", peer, closeFabric},
		{"closing the device closes its Fabrics", peer, closeClosesFabrics},
		{"what is not of the pair is foreign and not echoed", both, foreignDatagrams},
		{"a peer that asks too often is refused, and knows it", both, tooManyProbes},
		{"probes that found no receive are known from the next echo on", both, dryReceives},
		{"a probe that arrives twice is counted and echoed once", both, repeatedProbes},
		{"both sides of a port probe and answer", both, probeEachOther},
	}
}

func fabricIsDescribed(s *session) {
	const paths = 3
	e := s.newEndpoint(fabricOptions(often, paths))
	attr, err := s.dev.QueryPort(s.f.Port)
	require.NoError(s.t, err)
	p := e.port
	require.Equal(s.t, s.f.Port, p.Port)
	require.Equal(s.t, attr.LinkLayer, p.LinkLayer)
	require.Equal(s.t, attr.LID, p.LID)
	require.Equal(s.t, attr.MTU, p.MTU)
	require.NotZero(s.t, p.PKey&0x7fff)
	require.Len(s.t, p.UD, paths)
	require.Zero(s.t, p.QKey>>31)
	numbers, qkey := e.fab.UD()
	require.Equal(s.t, p.UD, numbers)
	require.Equal(s.t, p.QKey, qkey)
	require.Zero(s.t, p.Epoch)
	require.Empty(s.t, p.Reason)
	if p.LinkLayer == verbs.LinkEthernet {
		require.NotEmpty(s.t, p.GIDs)
	}
	table, err := s.dev.ReadGIDs(s.f.Port)
	require.NoError(s.t, err)
	for _, g := range p.GIDs {
		requireFabricGID(s, table, g, p.LinkLayer)
	}
}

func requireFabricGID(s *session, table verbs.GIDTable, g verbs.FabricGID, layer verbs.LinkLayer) {
	s.t.Helper()
	for _, e := range table.Entries {
		if e.Index == g.Index {
			require.Equal(s.t, e.Raw, g.Raw)
			require.Equal(s.t, layer == verbs.LinkEthernet, e.Type == verbs.GIDRoCEv2)
			return
		}
	}
	require.Fail(s.t, "no such GID", "%+v in %+v", g, table.Entries)
}

func oneFabric(s *session) {
	first := s.newEndpoint(fabricOptions(often, 4))
	_, _, err := s.dev.NewFabricEndpoint(verbs.FabricConfig{Port: s.f.Port, FabricOptions: fabricOptions(often, 4)})
	require.ErrorIs(s.t, err, verbs.ErrLimit)
	require.NoError(s.t, first.close())
	second := s.newEndpoint(fabricOptions(often, 4))
	require.NotEqual(s.t, first.port.UD, second.port.UD, "numbers of queue pairs")
	require.Len(s.t, s.snapshot().Fabrics, 1, "it goes on in the slot of its predecessor")
}

func impossibleFabrics(s *session) {
	for name, change := range map[string]func(*verbs.FabricConfig){
		"port beyond":    func(c *verbs.FabricConfig) { c.Port = s.dev.Attr().Ports + 1 },
		"port 0":         func(c *verbs.FabricConfig) { c.Port = 0 },
		"no paths":       func(c *verbs.FabricConfig) { c.Paths = 0 },
		"too many paths": func(c *verbs.FabricConfig) { c.Paths = verbs.MaxFabricPaths + 1 },
		"no interval":    func(c *verbs.FabricConfig) { c.Interval = 0 },
		"no such GID":    func(c *verbs.FabricConfig) { c.GIDIndex = 200 },
	} {
		c := verbs.FabricConfig{Port: s.f.Port, FabricOptions: fabricOptions(often, 4)}
		change(&c)
		f, _, err := s.dev.NewFabricEndpoint(c)
		if err == nil {
			require.NoError(s.t, f.Close(patience))
		}
		require.ErrorIs(s.t, err, verbs.ErrUnsupported, name)
		require.NotErrorIs(s.t, err, verbs.ErrNeverFabric, name)
	}
}

func probesAreEchoed(s *session) {
	const session, place, paths, rounds = 0xfedcba9876543210, 63, 4, 5
	m := s.newConnection(fabricOptions(often, paths))
	m.start()
	m.joinBoth(place, session)
	m.untilCount(session, verbs.FabricWriteDone, 3)
	facts := m.untilCount(session, verbs.FabricEcho, rounds*paths)
	for i, f := range ofKind(facts, verbs.FabricSent) {
		require.EqualValues(s.t, i+1, f.Seq)
		require.Equal(s.t, i%paths, f.Path)
		require.Equal(s.t, place, f.Pair)
		require.Positive(s.t, f.At)
	}
	answered := map[int]uint64{}
	for _, f := range ofKind(facts, verbs.FabricEcho)[:rounds*paths] { // no more are echoed in a second
		answered[f.Path]++
		require.EqualValues(s.t, f.Path, (f.Seq-1)%paths)
		require.Equal(s.t, answered[f.Path], f.Received, "probes of path %d that have arrived", f.Path)
		require.Equal(s.t, answered[f.Path], f.Posted, "echoes of path %d", f.Path)
		require.False(s.t, f.Dry)
		require.Positive(s.t, f.Took)
		require.GreaterOrEqual(s.t, f.Delay, int64(0))
		require.LessOrEqual(s.t, f.Delay, f.Took)
		require.Empty(s.t, f.Status)
	}
	require.Len(s.t, answered, paths)
	requireOneWriteAtATime(s, facts)
	require.Empty(s.t, ofKind(facts, verbs.FabricUnsent))

	require.NoError(s.t, m.fab.Leave(place))
	m.stopRunning()
	requirePairCounts(m, session)
}

func requireOneWriteAtATime(s *session, facts []verbs.FabricFact) {
	s.t.Helper()
	outstanding := 0
	for _, f := range facts {
		switch f.Kind {
		case verbs.FabricWrite:
			outstanding++
		case verbs.FabricWriteDone:
			outstanding--
			require.Positive(s.t, f.Took)
		case verbs.FabricWriteFailed:
			require.Fail(s.t, "a write failed", f.Status)
		}
		require.Contains(s.t, []int{0, 1}, outstanding, "outstanding writes")
	}
}

// requirePairCounts checks that the ledger's counts agree with the facts of the only session. The endpoint must not be running.
func requirePairCounts(m *connection, session uint64) {
	m.t.Helper()
	facts := m.factsOf(session)
	n := func(kind verbs.FabricKind) uint64 { return uint64(len(ofKind(facts, kind))) }
	require.Equal(m.t, []ledger.FabricPair{{Session: session, FabricPairCounts: ledger.FabricPairCounts{
		Sent: n(verbs.FabricSent), Answered: n(verbs.FabricEcho),
		Writes: n(verbs.FabricWrite), WritesOK: n(verbs.FabricWriteDone), WriteErrors: n(verbs.FabricWriteFailed),
	}}}, m.counted().Pairs)
}

func leftPair(s *session) {
	const session, other = 1, 2
	m := s.newConnection(fabricOptions(often, 2))
	m.start()
	m.joinBoth(0, session)
	m.joinBoth(1, other)
	m.untilCount(session, verbs.FabricEcho, 1)
	require.NoError(s.t, m.fab.Leave(0))
	sent := len(ofKind(m.factsAfter(session, 1), verbs.FabricSent))
	m.untilCount(other, verbs.FabricEcho, 1)
	facts := m.factsOf(other)
	m.untilCount(other, verbs.FabricSent, len(ofKind(facts, verbs.FabricSent))+5)
	facts = m.factsOf(session)
	require.Len(s.t, ofKind(facts, verbs.FabricSent), sent)
	require.NoError(s.t, m.fab.Leave(0), "nothing is there")
}

func joinReplaces(s *session) {
	const first, second = 7, 8
	m := s.newConnection(fabricOptions(often, 4))
	m.start()
	m.joinBoth(5, first)
	m.untilCount(first, verbs.FabricEcho, 2)

	rc, err := m.fab.Offer(5, verbs.FabricProbes)
	require.NoError(s.t, err)
	peer := m.offerRemote(5, second)
	facts := m.factsOf(first)
	m.untilCount(first, verbs.FabricEcho, len(ofKind(facts, verbs.FabricEcho))+3)

	m.joinRemote(5, second, rc)
	require.NoError(s.t, m.fab.Join(5, peer))
	facts = m.untilCount(second, verbs.FabricEcho, 2)
	require.EqualValues(s.t, 1, ofKind(facts, verbs.FabricSent)[0].Seq)
	require.EqualValues(s.t, 1, ofKind(facts, verbs.FabricEcho)[0].Received)
	m.untilCount(second, verbs.FabricWriteDone, 1)

	sent := len(ofKind(m.factsAfter(first, 1), verbs.FabricSent))
	m.untilCount(second, verbs.FabricEcho, 4)
	m.stopRunning()
	facts = m.factsOf(first)
	require.Len(s.t, ofKind(facts, verbs.FabricSent), sent)
	requirePairCounts(m, second)
}

// silentPeer joins a pair that the peer does not join, so that nothing answers.
func silentPeer(s *session) {
	const session = 3
	m := s.newConnection(fabricOptions(once, 4))
	m.silenceAll()
	m.start()
	_, err := m.fab.Offer(0, verbs.FabricProbes)
	require.NoError(s.t, err)
	require.NoError(s.t, m.fab.Join(0, m.offerRemote(0, session)))
	m.untilCount(session, verbs.FabricSent, 4)
	facts := m.factsAfter(session, 5*quiet)
	sent, missing := ofKind(facts, verbs.FabricSent), ofKind(facts, verbs.FabricMissing)
	require.Len(s.t, sent, 4)
	require.Len(s.t, missing, 1)
	require.GreaterOrEqual(s.t, missing[0].At-sent[0].At, int64(100*time.Millisecond))
	for i, f := range sent {
		require.EqualValues(s.t, i+1, f.Seq)
		require.Equal(s.t, i, f.Path)
	}
	for i := 2; i < len(sent); i++ {
		require.GreaterOrEqual(s.t, sent[i].At-sent[i-1].At, int64(50*time.Millisecond), "between probe %d and the one before", i+1)
	}
	require.Empty(s.t, ofKind(facts, verbs.FabricEcho))
	require.Empty(s.t, ofKind(facts, verbs.FabricWriteDone))
	require.Len(s.t, ofKind(facts, verbs.FabricWrite), 1)
}

func busyPeer(s *session) {
	const session = 4
	m := s.newConnection(fabricOptions(once, 4))
	m.start()
	m.silenceEchoes()
	m.joinBoth(0, session)
	m.untilCount(session, verbs.FabricMissing, 1)
	facts := m.factsAfter(session, 10*quiet)
	require.Len(s.t, ofKind(facts, verbs.FabricSent), 1)
	require.Len(s.t, ofKind(facts, verbs.FabricWriteDone), 1)
	require.Len(s.t, ofKind(facts, verbs.FabricMissing), 1)
}

func writeFailsOnce(s *session) {
	const session = 5
	m := s.newConnection(fabricOptions(often, 4))
	m.silenceAll()
	m.start()
	_, err := m.fab.Offer(0, verbs.FabricProbes)
	require.NoError(s.t, err)
	require.NoError(s.t, m.fab.Join(0, m.offerRemote(0, session)))
	facts := m.untilCount(session, verbs.FabricWriteFailed, 1)
	require.NotEmpty(s.t, ofKind(facts, verbs.FabricWriteFailed)[0].Status)
	m.untilCount(session, verbs.FabricSent, len(ofKind(facts, verbs.FabricSent))+5)
	m.stopRunning()
	facts = m.factsOf(session)
	require.Len(s.t, ofKind(facts, verbs.FabricWriteFailed), 1)
	require.Len(s.t, ofKind(facts, verbs.FabricWrite), 1, "its queue pair is left alone")
	requirePairCounts(m, session)
}

func nudgeEndsRun(s *session) {
	e := s.newEndpoint(fabricOptions(often, 1))
	ended := make(chan error, 1)
	run := func() {
		_, _, err := e.fab.Run(make([]verbs.FabricFact, verbs.MinFabricFacts), time.Hour)
		ended <- err
	}
	for range 2 {
		go run()
		e.fab.Nudge()
		require.NoError(s.t, receiveInTime(s.t, "Run", ended))
	}
	n, upTo, err := e.fab.Run(make([]verbs.FabricFact, verbs.MinFabricFacts), 0)
	require.NoError(s.t, err)
	require.Zero(s.t, n)
	require.Positive(s.t, upTo)
}

func senselessOrders(s *session) {
	m := s.newConnection(fabricOptions(often, 2))
	peer := m.offerRemote(0, 6)
	require.Error(s.t, m.fab.Join(0, peer), "nothing was offered")
	for _, place := range []int{-1, verbs.MaxFabricPairs} {
		_, err := m.fab.Offer(place, verbs.FabricProbes)
		require.Error(s.t, err)
		require.Error(s.t, m.fab.Join(place, peer))
		require.Error(s.t, m.fab.Leave(place))
	}
	for _, paths := range []int{0, 3} {
		_, err := m.fab.Offer(0, verbs.FabricProbes)
		require.NoError(s.t, err)
		odd := *peer
		odd.UD = make([]uint32, paths)
		require.Error(s.t, m.fab.Join(0, &odd), "%d paths", paths)
	}
	_, err := m.fab.Offer(0, verbs.FabricProbes)
	require.NoError(s.t, err, "an offer may be repeated")
	require.NoError(s.t, m.fab.Join(0, peer))
	_, _, err = m.fab.Run(make([]verbs.FabricFact, verbs.MinFabricFacts-1), 0)
	require.Error(s.t, err)
}

func closeFabric(s *session) {
	m := s.newConnection(fabricOptions(often, 4))
	m.start()
	for place := range 3 {
		m.joinBoth(place, uint64(place)+1)
	}
	m.untilCount(3, verbs.FabricEcho, 3)
	_, err := m.fab.Offer(2, verbs.FabricProbes)
	require.NoError(s.t, err)
	_, err = m.fab.Offer(9, verbs.FabricProbes)
	require.NoError(s.t, err)
	for _, e := range []*endpoint{m.endpoint, m.remote} {
		if e == nil {
			continue
		}
		require.NoError(s.t, e.close())
		<-e.ended
		require.ErrorIs(s.t, e.err, verbs.ErrClosed)
		requireFabricClosed(s, e)
		require.NotZero(s.t, e.counted().Events)
		require.Equal(s.t, e.counted().Events, e.counted().Acked)
	}
}

func requireFabricClosed(s *session, e *endpoint) {
	s.t.Helper()
	facts := make([]verbs.FabricFact, verbs.MinFabricFacts)
	for name, call := range map[string]func() error{
		"Run":   func() error { _, _, err := e.fab.Run(facts, time.Hour); return err },
		"Offer": func() error { _, err := e.fab.Offer(0, verbs.FabricProbes); return err },
		"Join":  func() error { return e.fab.Join(0, &verbs.FabricPeer{UD: []uint32{1}}) },
		"Leave": func() error { return e.fab.Leave(0) },
		"Close": func() error { return e.fab.Close(patience) },
	} {
		require.ErrorIs(s.t, callInTime(s.t, name, call), verbs.ErrClosed, name)
	}
	e.fab.Nudge()
}

func closeClosesFabrics(s *session) {
	m := s.newConnection(fabricOptions(often, 4))
	m.start()
	m.joinBoth(0, 1)
	m.untilCount(1, verbs.FabricEcho, 1)
	require.NoError(s.t, s.close())
	<-m.ended
	require.ErrorIs(s.t, m.err, verbs.ErrClosed)
	require.Equal(s.t, m.counted().Events, m.counted().Acked)
	requireFabricClosed(s, m.endpoint)
	_, _, err := s.dev.NewFabricEndpoint(verbs.FabricConfig{Port: s.f.Port, FabricOptions: fabricOptions(often, 4)})
	require.ErrorIs(s.t, err, verbs.ErrClosed)
}
