package verbstest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func probeCases() []testCase {
	return []testCase{
		{"rounds succeed and every event is acknowledged", nil, eachMethod(roundsSucceed)},
		{"with ack_batch 4 fewer than 4 events wait and none after Close", nil, eachMethod(batchesAreBounded)},
		{"the durations of a round fit together", nil, eachMethod(durationsFit)},
		{"rounds of a trial count once it is kept, and never else", nil, eachMethod(trialsCountWhenKept)},
		{"a vector, port or method that does not exist is ErrUnsupported", nil, impossibleProbes},
		{"rounds of one call keep to their pace", nil, roundsKeepPace},
		{"a nudge ends the rounds of one call", nil, nudgeEndsRounds},
		{"probes of several vectors run side by side", nil, vectorsSideBySide},
		{"rc_write cannot be made while the link is down", []Capability{Link}, rcWriteNeedsLink},
		{"rc_write ends in an error when the link is lost", []Capability{Link}, rcWriteLosesLink},
		{"flush succeeds while the link is down", []Capability{Link}, flushWithoutLink},
	}
}

func eachMethod(check func(*session, verbs.Method)) func(*session) {
	return func(s *session) {
		require.NotEmpty(s.t, s.f.Methods)
		for _, m := range s.f.Methods {
			s.t.Run(m.String(), func(t *testing.T) {
				sub := *s
				sub.t = t
				check(&sub, m)
			})
		}
	}
}

// needMethod skips the case if the device does not support a method. The fixture's
// Methods lists the supported methods, and the device has to agree.
func (s *session) needMethod(m verbs.Method) {
	s.t.Helper()
	if slices.Contains(s.f.Methods, m) {
		return
	}
	_, err := s.dev.NewProbe(s.config(m, 1))
	require.ErrorIs(s.t, err, verbs.ErrUnsupported, "%v is not among the fixture's methods", m)
	s.t.Skipf("the device cannot do %v: %v", m, err)
}

func (s *session) config(m verbs.Method, ackBatch int) verbs.ProbeConfig {
	return verbs.ProbeConfig{
		ProbeKey: verbs.ProbeKey{Port: s.f.Port, Method: m}, Timeout: patience / 2, AckBatch: ackBatch, GIDIndex: -1, PKeyIndex: -1,
	}
}

func (s *session) probe(m verbs.Method, ackBatch int) verbs.Probe {
	s.t.Helper()
	p, err := s.dev.NewProbe(s.config(m, ackBatch))
	require.NoError(s.t, err)
	return p
}

func (s *session) closeProbe(p verbs.Probe) {
	s.t.Helper()
	require.NoError(s.t, callInTime(s.t, "Probe.Close", func() error { return p.Close(patience) }))
}

// anyRound runs a round that may have any outcome.
func (s *session) anyRound(p verbs.Probe) verbs.Round {
	s.t.Helper()
	type result struct {
		r   verbs.Round
		err error
	}
	got := callInTime(s.t, "Round", func() result {
		r, err := p.Round(0)
		return result{r, err}
	})
	require.NoError(s.t, got.err)
	return got.r
}

// round runs a round that must succeed.
func (s *session) round(p verbs.Probe) verbs.Round {
	s.t.Helper()
	r := s.anyRound(p)
	require.Equal(s.t, verbs.OutcomeSuccess, r.Outcome, "status %q", r.Status)
	require.Empty(s.t, r.Status)
	require.True(s.t, p.Usable())
	return r
}

// counts returns the ledger's counts of a method on vector 0.
func (s *session) counts(m verbs.Method) ledger.ProbeCounts {
	s.t.Helper()
	for _, p := range s.snapshot().Probes {
		if p.Port == s.f.Port && p.Vector == 0 && p.Method == int(m) {
			return p.ProbeCounts
		}
	}
	require.Fail(s.t, "the ledger has no such probe", "%v", m)
	return ledger.ProbeCounts{}
}

func (s *session) requireAllAcked() {
	s.t.Helper()
	for _, p := range s.snapshot().Probes {
		require.Equal(s.t, p.Events, p.Acked, "events and acknowledgements of %v", verbs.Method(p.Method))
		require.NotZero(s.t, p.Events)
	}
}

func roundsSucceed(s *session, m verbs.Method) {
	const rounds = 20
	p := s.probe(m, 1)
	for i := range uint64(rounds) {
		r := s.round(p)
		require.Positive(s.t, r.Ack)
		c := s.counts(m)
		require.Equal(s.t, i+1, c.Rounds)
		require.Equal(s.t, c.Events, c.Acked)
	}
	s.closeProbe(p)
	c := s.counts(m)
	require.EqualValues(s.t, rounds, c.Successes)
	require.GreaterOrEqual(s.t, c.Events, uint64(rounds))
	require.Equal(s.t, c.Events, c.Acked)
	require.Zero(s.t, c.Errors+c.LostEvents+c.LostCompletions+c.Late)
}

func batchesAreBounded(s *session, m verbs.Method) {
	const batch, rounds = 4, 10
	p := s.probe(m, batch)
	waited := false
	for range rounds {
		r := s.round(p)
		c := s.counts(m)
		require.Less(s.t, c.Events-c.Acked, uint64(batch))
		if c.Events > c.Acked {
			waited = true
			require.Zero(s.t, r.Ack, "the round acknowledged nothing")
			require.Zero(s.t, r.Hold, "the round acknowledged nothing")
		}
	}
	require.True(s.t, waited, "events are acknowledged together")
	s.closeProbe(p)
	c := s.counts(m)
	require.GreaterOrEqual(s.t, c.Events, uint64(rounds))
	require.Equal(s.t, c.Events, c.Acked)
}

func trialsCountWhenKept(s *session, m verbs.Method) {
	c := s.config(m, 1)
	c.Trial = true
	for range 2 {
		p, err := s.dev.NewProbe(c)
		require.NoError(s.t, err)
		s.round(p)
		s.closeProbe(p)
	}
	got := s.counts(m)
	require.Zero(s.t, got.Rounds+got.Successes)
	require.GreaterOrEqual(s.t, got.Events, uint64(2), "events were read")
	require.Equal(s.t, got.Events, got.Acked)

	p, err := s.dev.NewProbe(c)
	require.NoError(s.t, err)
	s.round(p)
	p.Keep()
	require.EqualValues(s.t, 1, s.counts(m).Rounds)
	s.round(p)
	s.closeProbe(p)
	p.Keep()
	got = s.counts(m)
	require.EqualValues(s.t, 2, got.Rounds)
	require.EqualValues(s.t, 2, got.Successes)
}

func durationsFit(s *session, m verbs.Method) {
	p := s.probe(m, 1)
	last := int64(0)
	for range 20 {
		r := s.round(p)
		require.Greater(s.t, r.Start, last)
		last = r.Start
		for name, ns := range map[string]int64{
			"wake": r.Wake, "get": r.Get, "arm": r.Arm, "drain": r.Drain, "hold": r.Hold, "ack": r.Ack, "total": r.Total,
		} {
			require.GreaterOrEqual(s.t, ns, int64(0), name)
		}
		require.Positive(s.t, r.Wake)
		require.LessOrEqual(s.t, r.Get, r.Wake)
		require.LessOrEqual(s.t, r.Ack, r.Hold)
		require.LessOrEqual(s.t, r.Wake+r.Arm+r.Drain+r.Ack, r.Total)
		require.LessOrEqual(s.t, r.Hold, r.Total)
		require.Less(s.t, r.Total, int64(patience))
	}
	s.closeProbe(p)
}

func impossibleProbes(s *session) {
	attr := s.dev.Attr()
	for name, change := range map[string]func(*verbs.ProbeConfig){
		"vector beyond":   func(c *verbs.ProbeConfig) { c.Vector = attr.Vectors },
		"negative vector": func(c *verbs.ProbeConfig) { c.Vector = -1 },
		"port beyond":     func(c *verbs.ProbeConfig) { c.Port = attr.Ports + 1 },
		"port 0":          func(c *verbs.ProbeConfig) { c.Port = 0 },
		"no method":       func(c *verbs.ProbeConfig) { c.Method = verbs.MethodNone },
	} {
		c := s.config(s.f.Methods[0], 1)
		change(&c)
		p, err := s.dev.NewProbe(c)
		if err == nil {
			s.closeProbe(p)
		}
		require.ErrorIs(s.t, err, verbs.ErrUnsupported, name)
	}
}

func vectorsSideBySide(s *session) {
	n := min(s.dev.Attr().Vectors, 4)
	done := make(chan error, n)
	probes := make([]verbs.Probe, n)
	for v := range n {
		c := s.config(s.f.Methods[0], 1)
		c.Vector = v
		p, err := s.dev.NewProbe(c)
		require.NoError(s.t, err)
		probes[v] = p
	}
	for _, p := range probes {
		go func() { done <- tenRounds(p) }()
	}
	for range n {
		require.NoError(s.t, receiveInTime(s.t, "ten rounds", done))
	}
	for _, p := range probes {
		s.closeProbe(p)
	}
	for _, p := range s.snapshot().Probes {
		require.EqualValues(s.t, 10, p.Successes, "vector %d", p.Vector)
		require.Equal(s.t, p.Events, p.Acked, "vector %d", p.Vector)
	}
	require.Len(s.t, s.snapshot().Probes, n)
}

func tenRounds(p verbs.Probe) error {
	for range 10 {
		if _, err := p.Round(0); err != nil {
			return err
		}
	}
	return nil
}

func rcWriteNeedsLink(s *session) {
	s.needMethod(verbs.MethodRCWrite)
	s.linkDown()
	s.awaitState("down", func(a verbs.PortAttr) bool { return a.State == verbs.PortDown })
	p, err := s.dev.NewProbe(s.config(verbs.MethodRCWrite, 1))
	if err != nil {
		require.ErrorIs(s.t, err, verbs.ErrUnsupported)
		return
	}
	require.Equal(s.t, verbs.OutcomeError, s.anyRound(p).Outcome)
	require.False(s.t, p.Usable())
	s.closeProbe(p)
}

func rcWriteLosesLink(s *session) {
	s.needMethod(verbs.MethodRCWrite)
	p := s.probe(verbs.MethodRCWrite, 1)
	s.round(p)
	s.linkDown()
	s.awaitState("down", func(a verbs.PortAttr) bool { return a.State == verbs.PortDown })
	r := s.anyRound(p)
	require.Equal(s.t, verbs.OutcomeError, r.Outcome)
	require.NotEmpty(s.t, r.Status)
	require.False(s.t, p.Usable())
	s.closeProbe(p)
	s.linkUp()
	s.awaitState("active", func(a verbs.PortAttr) bool { return a.State == verbs.PortActive })
	p = s.probe(verbs.MethodRCWrite, 1)
	s.round(p)
	s.closeProbe(p)
	c := s.counts(verbs.MethodRCWrite)
	require.EqualValues(s.t, 1, c.Errors)
	require.Equal(s.t, c.Events, c.Acked)
}

func flushWithoutLink(s *session) {
	s.needMethod(verbs.MethodFlush)
	s.linkDown()
	s.awaitState("down", func(a verbs.PortAttr) bool { return a.State == verbs.PortDown })
	p := s.probe(verbs.MethodFlush, 1)
	s.round(p)
	s.closeProbe(p)
}

func roundsKeepPace(s *session) {
	const interval = 10 * time.Millisecond
	p := s.probe(s.f.Methods[0], 1)
	s.readRounds()
	last, n, err := p.Rounds(verbs.Pace{Pause: interval, Interval: interval, For: 4*interval + interval/2})
	require.NoError(s.t, err)
	require.Positive(s.t, n)
	require.LessOrEqual(s.t, n, 5, "the last one begins four and a half intervals after the first")
	rounds := s.readRounds()
	require.Len(s.t, rounds, n)
	require.Equal(s.t, last, rounds[n-1].Round)
	for i := 1; i < n; i++ {
		require.Equal(s.t, verbs.OutcomeSuccess, rounds[i].Outcome)
		// A round may begin late and the next one still on time.
		require.Greater(s.t, rounds[i].Start, rounds[i-1].Start)
	}
	s.closeProbe(p)
	require.EqualValues(s.t, n, s.counts(s.f.Methods[0]).Rounds)
}

func nudgeEndsRounds(s *session) {
	p := s.probe(s.f.Methods[0], 1)
	ended := make(chan verbs.Round, 1)
	go func() {
		last, _, err := p.Rounds(verbs.Pace{Interval: time.Hour, For: 10 * time.Hour})
		if err == nil {
			ended <- last
		}
	}()
	p.Nudge()
	require.Equal(s.t, verbs.OutcomeCanceled, receiveInTime(s.t, "Rounds", ended).Outcome)
	s.closeProbe(p)
}
