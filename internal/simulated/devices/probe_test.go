package devices

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func TestFaultsDecideTheOutcomeOfARound(t *testing.T) {
	const timeout = int64(500 * time.Millisecond)
	for _, row := range []struct {
		fault   string
		want    verbs.Outcome
		status  string
		usable  bool
		elapsed int64
		counts  ledger.ProbeCounts // of the first round
	}{
		{`kind = "lost_event"`, verbs.OutcomeLostEvent, "lost_event", true, timeout,
			ledger.ProbeCounts{Rounds: 1, LostEvents: 1}},
		{`kind = "lost_completion"`, verbs.OutcomeLostCompletion, "lost_completion", true, timeout,
			ledger.ProbeCounts{Rounds: 1, LostCompletions: 1}},
		{`kind = "disturbed"`, verbs.OutcomeDisturbed, "", true, timeout, ledger.ProbeCounts{Rounds: 1, Disturbed: 1}},
		{`kind = "late"`, verbs.OutcomeLostEvent, "lost_event", true, timeout,
			ledger.ProbeCounts{Rounds: 1, LostEvents: 1}},
		{`kind = "completion_error"`, verbs.OutcomeError, "wr_flush_err", false, 0,
			ledger.ProbeCounts{Rounds: 1, Errors: 1, Events: 1, Acked: 1}},
		{"kind = \"completion_error\"\nstatus = \"retry_exc_err\"", verbs.OutcomeError, "retry_exc_err", false, 0,
			ledger.ProbeCounts{Rounds: 1, Errors: 1, Events: 1, Acked: 1}},
		{`kind = "spurious"`, verbs.OutcomeSuccess, "", true, 0,
			ledger.ProbeCounts{Rounds: 1, Successes: 1, Events: 2, Acked: 2, Spurious: 1}},
		{"kind = \"slow\"\nfactor = 1000000", verbs.OutcomeLostEvent, "lost_event", true, timeout,
			ledger.ProbeCounts{Rounds: 1, LostEvents: 1}},
		{"kind = \"lost_event\"\nvector = 1", verbs.OutcomeSuccess, "", true, 0,
			ledger.ProbeCounts{Rounds: 1, Successes: 1, Events: 1, Acked: 1}},
	} {
		t.Run(row.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, "roce2", "[[fault]]\n"+row.fault+"\nfor = \"10s\"\n")
				p := s.probe(verbs.MethodRCWrite, 1)
				start := fakeTime()
				r := s.round(p)
				require.Equal(t, row.want, r.Outcome)
				require.Equal(t, row.status, r.Status)
				require.Equal(t, row.usable, p.Usable())
				require.Equal(t, row.elapsed, fakeTime()-start)
				require.Equal(t, row.counts, s.counts())
				require.Equal(t, row.counts.Events > 0, r.Wake > 0)
			})
		})
	}
}

func TestALateEventIsCountedByTheNextRoundAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"late\"\nfor = \"100ms\"\n")
		p := s.probe(verbs.MethodUDSend, 1)
		require.Equal(t, verbs.OutcomeLostEvent, s.round(p).Outcome)
		for range 2 {
			require.Equal(t, verbs.OutcomeSuccess, s.round(p).Outcome)
		}
		require.Equal(t, ledger.ProbeCounts{
			Rounds: 3, Successes: 2, LostEvents: 1, Events: 3, Acked: 3, Late: 1,
		}, s.counts())
	})
}

func TestASlowWakeTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"slow\"\nfactor = 5000\nfor = \"1ms\"\n")
		p := s.probe(verbs.MethodRCWrite, 1)
		start := fakeTime()
		slow := s.round(p)
		require.Equal(t, verbs.OutcomeSuccess, slow.Outcome)
		require.Equal(t, slow.Wake, fakeTime()-start)
		require.Greater(t, slow.Wake, int64(5*time.Millisecond))
		require.Less(t, s.round(p).Wake, int64(time.Millisecond))
	})
}

func TestAFlushProbeOutlivesACompletionError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"completion_error\"\nstatus = \"general_err\"\nfor = \"1s\"\n")
		p := s.probe(verbs.MethodFlush, 1)
		require.Equal(t, "general_err", s.round(p).Status)
		require.True(t, p.Usable(), "the next round has a fresh queue pair")
		time.Sleep(time.Second)
		require.Equal(t, verbs.OutcomeSuccess, s.round(p).Outcome)
	})
}

func TestALinkThatWasLostAndCameBackBreaksTheQueuePair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[link]]\nat = \"1s\"\ndown_for = \"40ms\"\n")
		p := s.probe(verbs.MethodRCWrite, 1)
		time.Sleep(2 * time.Second)
		r := s.round(p)
		require.Equal(t, verbs.OutcomeError, r.Outcome)
		require.Equal(t, "wr_flush_err", r.Status)
		require.False(t, p.Usable())
		require.Equal(t, verbs.OutcomeSuccess, s.round(s.probe(verbs.MethodRCWrite, 1)).Outcome)
	})
}

func TestEqualSeedsDrawEqualDurations(t *testing.T) {
	draw := func(seed int64, device string, vector int) []int64 {
		w := mustLoad(t, Options{Profile: "roce2", Seed: seed})
		dev, err := New(w).Open(device, newLedger(t))
		require.NoError(t, err)
		p, err := dev.NewProbe(verbs.ProbeConfig{
			ProbeKey: verbs.ProbeKey{Port: 1, Vector: vector, Method: verbs.MethodRCWrite}, Timeout: time.Second, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
		})
		require.NoError(t, err)
		var all []int64
		for range 50 {
			r, err := p.Round(0)
			require.NoError(t, err)
			all = append(all, r.Wake, r.Get, r.Arm, r.Drain, r.Hold, r.Ack, r.Total)
		}
		require.NoError(t, dev.Close(time.Second))
		return all
	}
	first := draw(7, "sim0", 3)
	require.Equal(t, first, draw(7, "sim0", 3))
	require.NotEqual(t, first, draw(8, "sim0", 3))
	require.NotEqual(t, first, draw(7, "sim1", 3))
	require.NotEqual(t, first, draw(7, "sim0", 4))
}

func TestDrawnLatenciesArePlausibleForHardware(t *testing.T) {
	s := &scene{T: t, w: mustLoad(t, Options{Profile: "roce2", Seed: 1})}
	s.dev, s.led = s.open("sim0")
	p := s.probe(verbs.MethodRCWrite, 1)
	var wakes, acks []int64
	for range 5000 {
		r := s.round(p)
		wakes, acks = append(wakes, r.Wake), append(acks, r.Ack)
	}
	slices.Sort(wakes)
	slices.Sort(acks)
	median := len(wakes) / 2
	require.InDelta(t, 6350, wakes[median], 400)
	require.InDelta(t, 50, acks[median], 5)
	require.Greater(t, wakes[len(wakes)*999/1000], 4*wakes[median], "there is a tail")
}

func TestAHungRoundHoldsCloseUntilItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"hang_round\"\n")
		p := s.probe(verbs.MethodRCWrite, 1)
		ended := make(chan error)
		go func() {
			_, err := p.Round(0)
			ended <- err
		}()
		synctest.Wait()
		require.Equal(t, ledger.CallReqNotifyCQ, s.snapshot().LongestCall(nil).Call)
		start := fakeTime()
		require.ErrorIs(t, s.dev.Close(2*time.Second), verbs.ErrStuck)
		require.Equal(t, 2*second, fakeTime()-start)
		require.ErrorIs(t, <-ended, verbs.ErrClosed)
		require.Zero(t, s.counts().Rounds, "a round that was given up is not counted")
		require.Equal(t, ledger.CallReqNotifyCQ, s.snapshot().LongestCall(nil).Call)
	})
}

func TestAHungRoundEndsLongAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"hang_round\"\nfor = \"3s\"\n")
		r := s.round(s.probe(verbs.MethodRCWrite, 1))
		require.Equal(t, verbs.OutcomeSuccess, r.Outcome)
		require.Greater(t, r.Total, 3*second)
	})
}

func TestCloseCancelsARoundThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", "[[fault]]\nkind = \"lost_event\"\n")
		p := s.probe(verbs.MethodRCWrite, 1)
		type result struct {
			r   verbs.Round
			err error
		}
		ended := make(chan result)
		go func() {
			r, err := p.Round(0)
			ended <- result{r, err}
		}()
		synctest.Wait()
		start := fakeTime()
		require.NoError(t, s.dev.Close(time.Minute))
		got := <-ended
		require.ErrorIs(t, got.err, verbs.ErrClosed)
		require.Equal(t, verbs.OutcomeCanceled, got.r.Outcome)
		require.Equal(t, start, fakeTime())
		require.Zero(t, s.counts().Rounds)
	})
}

func TestAProbeNeedsWhatThePortHas(t *testing.T) {
	w := mustLoad(t, Options{Profile: "iwarp"})
	dev, err := New(w).Open("sim0", newLedger(t))
	require.NoError(t, err)
	good := verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodFlush}, Timeout: time.Second, GIDIndex: -1, PKeyIndex: -1}
	for name, change := range map[string]func(*verbs.ProbeConfig){
		"method rc_write": func(c *verbs.ProbeConfig) { c.Method = verbs.MethodRCWrite },
		"P_Key index":     func(c *verbs.ProbeConfig) { c.PKeyIndex = 7 },
	} {
		c := good
		change(&c)
		_, err := dev.NewProbe(c)
		require.ErrorIs(t, err, verbs.ErrUnsupported, name)
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, dev.Close(time.Second))
}

func TestMoreProbesThanTheLedgerHoldsIsALimit(t *testing.T) {
	led := newLedger(t)
	for i := range ledger.ProbeSlots {
		_, err := led.AddProbe(9, i, 1)
		require.NoError(t, err)
	}
	dev, err := New(mustLoad(t, Options{Profile: "roce2"})).Open("sim0", led)
	require.NoError(t, err)
	_, err = dev.NewProbe(verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodFlush}})
	require.ErrorIs(t, err, verbs.ErrLimit)
	require.NoError(t, dev.Close(time.Second))
}

func TestAProbeThatIsMadeWhileItsDeviceClosesIsErrClosed(t *testing.T) {
	s := &scene{T: t, w: mustLoad(t, Options{Profile: "roce2"})}
	s.dev, s.led = s.open("sim0")
	d := s.dev.(*device)
	require.Empty(t, d.takeParts()) // Close does this while NewProbe is under way
	_, err := d.NewProbe(verbs.ProbeConfig{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodFlush}, GIDIndex: -1, PKeyIndex: -1})
	require.ErrorIs(t, err, verbs.ErrClosed)
}
