package session

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func TestTheProbeFollowsTheLinkAndNeverMixesMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Start(nil)
		items := r.After(5600 * time.Millisecond)
		require.Equal(t, []verbs.ProbeItem{{ProbeKey: verbs.ProbeKey{Port: 1, Vector: 0, Method: verbs.MethodUDSend}, Reason: "as preferred"}}, probeItems(items))
		require.Len(t, roundItems(items), 6)

		down := time.Now()
		require.NoError(t, r.World.SetLink("sim0", 1, false))
		items = r.After(5 * time.Second)
		require.Equal(t, verbs.MethodFlush, probeItems(items)[0].Method)
		require.Contains(t, probeItems(items)[0].Reason, "down")
		require.NotEmpty(t, begunSince(down, items))
		for _, got := range begunSince(down, items) {
			require.Equal(t, verbs.MethodFlush, got.Method)
			require.Equal(t, verbs.OutcomeSuccess, got.Outcome)
		}

		require.NoError(t, r.World.SetLink("sim0", 1, true))
		items = r.After(5 * time.Second)
		require.Equal(t, verbs.MethodUDSend, roundItems(items)[len(roundItems(items))-1].Method)
	})
}

// begunSince returns the rounds that began at or after at. A batch may contain earlier rounds.
func begunSince(at time.Time, items []verbs.Item) []verbs.RoundItem {
	return slices.DeleteFunc(roundItems(items), func(r verbs.RoundItem) bool { return r.Start < at.UnixNano() })
}

func TestBadRoundIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "[[fault]]\nkind = \"completion_error\"\nat = \"1500ms\"\nfor = \"1s\"\n")
		r.Start(nil)
		r.After(1999 * time.Millisecond)
		items := roundItems(r.After(100 * time.Millisecond))
		require.Equal(t, verbs.OutcomeError, items[len(items)-1].Outcome)
	})
}

func TestAllVectorsAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.Probe.Vectors = []int{-1}
		r.Start(nil)
		items := r.After(2 * time.Second)
		vectors := map[int]bool{}
		for _, got := range roundItems(items) {
			vectors[got.Vector] = true
		}
		require.Len(t, vectors, items[0].Opened.Vectors)
	})
}

func TestSessionWithoutProbesSendsNoRounds(t *testing.T) {
	for _, change := range []func(*verbs.ProbeOptions){
		func(p *verbs.ProbeOptions) { p.Interval = 0 }, func(p *verbs.ProbeOptions) { p.Method = verbs.MethodNone },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "roce2", "")
			change(&r.Options.Probe)
			r.Start(nil)
			items := r.After(10 * time.Second)
			require.Empty(t, roundItems(items))
			require.Empty(t, probeItems(items))
		})
	}
}

// failing is a backend that replaces the outcome of the successful rounds of one method.
type failing struct {
	verbs.Backend
	method  verbs.Method
	outcome verbs.Outcome
	before  func()       // if set, called before each round
	well    *atomic.Bool // if set and true, outcomes stay as they are
}

func (f failing) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	return probes{f.Backend, func(c verbs.ProbeConfig, p verbs.Probe) verbs.Probe {
		if c.Method != f.method {
			return p
		}
		slot, err := led.AddProbe(c.Port, c.Vector, int(c.Method))
		if err != nil {
			panic(err)
		}
		return &failingProbe{Probe: p, f: f, led: led, slot: slot, trial: c.Trial}
	}, f.method}.Open(name, led)
}

// probes is a backend that replaces each probe by the result of wrap.
type probes struct {
	verbs.Backend
	wrap func(verbs.ProbeConfig, verbs.Probe) verbs.Probe
	// uncounted is the method whose rounds the result of wrap counts and writes into the ring itself.
	uncounted verbs.Method
}

func (b probes) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := b.Backend.Open(name, led)
	return probesDevice{d, b}, err
}

type probesDevice struct {
	verbs.Device
	b probes
}

func (d probesDevice) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	inner := c
	inner.Trial = c.Trial || c.Method == d.b.uncounted
	p, err := d.Device.NewProbe(inner)
	if err != nil {
		return nil, err
	}
	return d.b.wrap(c, p), nil
}

// failingProbe counts its rounds and writes them into the ring itself, with the outcomes that it gives them.
type failingProbe struct {
	verbs.Probe
	f     failing
	led   *ledger.Ledger
	slot  int
	trial bool
	last  *verbs.Round // of a trial
}

func (p *failingProbe) Keep() {
	if p.last != nil {
		p.list(p.last)
	}
	p.trial, p.last = false, nil
}

func (p *failingProbe) list(r *verbs.Round) {
	c := ledger.ProbeCounts{Rounds: 1}
	switch r.Outcome {
	case verbs.OutcomeSuccess:
		c.Successes = 1
	case verbs.OutcomeError:
		c.Errors = 1
	case verbs.OutcomeLostEvent:
		c.LostEvents = 1
	case verbs.OutcomeLostCompletion:
		c.LostCompletions = 1
	}
	p.led.AddProbeCounts(p.slot, c)
	p.led.WriteRound(p.slot, ledger.Round{Outcome: int32(r.Outcome), Start: r.Start}, true)
}

func (p *failingProbe) Round(pause time.Duration) (verbs.Round, error) {
	r, _, err := p.Rounds(verbs.Pace{Pause: pause})
	return r, err
}

func (p *failingProbe) Rounds(pace verbs.Pace) (verbs.Round, int, error) {
	if p.f.before != nil {
		p.f.before()
	}
	r, n, err := p.Probe.Rounds(verbs.Pace{Pause: pace.Pause})
	if r.Outcome == verbs.OutcomeSuccess && (p.f.well == nil || !p.f.well.Load()) {
		r.Outcome, r.Status = p.f.outcome, p.f.outcome.String()
	}
	switch {
	case err != nil || r.Outcome == verbs.OutcomeCanceled:
	case p.trial:
		p.last = &r
	default:
		p.list(&r)
	}
	return r, n, err
}

func TestAProberKeepsItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.Ports = []int{1}
		threads := map[int]int{}
		r.Wrap = func(b verbs.Backend) verbs.Backend {
			return failing{b, verbs.MethodUDSend, verbs.OutcomeSuccess, func() { threads[unix.Gettid()]++ }, nil}
		}
		r.Start(nil)
		require.NotEmpty(t, roundItems(r.After(1000*time.Second)))
		require.Len(t, threads, 1, "rounds of each thread: %v", threads)
	})
}

func TestAnAutomaticChoiceTriesEachMethodOnce(t *testing.T) {
	for _, row := range []struct {
		outcome verbs.Outcome
		want    verbs.Method
	}{
		{verbs.OutcomeError, verbs.MethodFlush},
		{verbs.OutcomeLostCompletion, verbs.MethodFlush},
		{verbs.OutcomeLostEvent, verbs.MethodRCWrite},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "dual", "")
			r.Options.Ports = []int{1} // InfiniBand, where rc_write and flush are tried
			r.Wrap = func(b verbs.Backend) verbs.Backend { return failing{b, verbs.MethodRCWrite, row.outcome, nil, nil} }
			r.Start(nil)
			items := r.After(5600 * time.Millisecond)
			got := probeItems(items)
			require.Len(t, got, 1, "one choice, and it is kept")
			require.Equal(t, row.want, got[0].Method)
			if row.want == verbs.MethodFlush {
				require.Contains(t, got[0].Reason, "rc_write ended as "+row.outcome.String())
				require.Equal(t, verbs.OutcomeSuccess, roundItems(items)[0].Outcome, "a trial that is not kept is no round")
			} else {
				require.Equal(t, row.outcome, roundItems(items)[0].Outcome, "the trial that is kept is a round like any other")
			}
			require.Equal(t, row.want, roundItems(items)[5].Method)
			for _, p := range r.Counters().Probes {
				require.Equal(t, p.Method == int(row.want), p.Rounds == 6, "%+v", p)
				require.True(t, p.Method == int(row.want) || p.Rounds+p.Errors+p.LostCompletions == 0, "%+v", p)
			}
		})
	}
}

func TestAMethodThatIsNamedIsKeptEvenIfItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.Probe.Method = verbs.MethodRCWrite
		r.Wrap = func(b verbs.Backend) verbs.Backend {
			return failing{b, verbs.MethodRCWrite, verbs.OutcomeError, nil, nil}
		}
		r.Start(nil)
		items := r.After(3500 * time.Millisecond)
		require.Len(t, roundItems(items), 4)
		for _, got := range roundItems(items) {
			require.Equal(t, verbs.MethodRCWrite, got.Method)
		}
	})
}

func TestAnAutomaticChoiceDoesNotFlushWhereFlushesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "ib8", "")
		r.Start(nil)
		r.After(1500 * time.Millisecond)
		down := time.Now()
		require.NoError(t, r.World.SetLink("sim0", 1, false))
		items := r.After(5 * time.Second)
		require.Equal(t, verbs.MethodNone, probeItems(items)[0].Method)
		require.Contains(t, probeItems(items)[0].Reason, "counts flushed work requests")
		require.Empty(t, begunSince(down, items))
	})
}

// A link that goes down and up fifty times a second must not cause a hundred new queue pairs
// a second.
func TestAFlutterMakesNoMoreProbesThanRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		r := newRig(t, "roce2", "")
		r.Wrap = func(b verbs.Backend) verbs.Backend { return counting{b, &made} }
		r.Start(nil)
		r.After(time.Second)
		made.Store(0)
		for i := range 500 {
			require.NoError(t, r.World.SetLink("sim0", 1, i%2 == 1))
			r.After(10 * time.Millisecond)
		}
		require.LessOrEqual(t, made.Load(), int32(12), "in five seconds")
		require.Positive(t, made.Load())
	})
}

type counting struct {
	verbs.Backend
	made *atomic.Int32
}

func (c counting) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := c.Backend.Open(name, led)
	return countingDevice{d, c.made}, err
}

type countingDevice struct {
	verbs.Device
	made *atomic.Int32
}

func (d countingDevice) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	d.made.Add(1)
	return d.Device.NewProbe(c)
}

func TestRoundsAtAShortIntervalKeepTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.Probe.Interval, r.Options.Probe.Timeout = 4*time.Millisecond, 3*time.Millisecond
		r.Start(nil)
		r.After(time.Second)
		items := roundItems(r.After(4 * ledger.RoundRing / 2 * time.Millisecond))
		require.InDelta(t, ledger.RoundRing/2, len(items), 2, "vector 0 alone is probed, and its ring has space for them")
		for i := 1; i < len(items); i++ {
			require.EqualValues(t, 4*time.Millisecond, items[i].Start-items[i-1].Start)
		}
	})
}

// Rounds that fail at once must not move the next round hours ahead: the port is probed again
// as soon as its rounds succeed.
func TestPlanStaysWithinAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "roce2", "")
		r.Options.Ports = []int{1}
		var hasty atomic.Int32
		r.Wrap = func(b verbs.Backend) verbs.Backend { return hastyProbes(b, &hasty) }
		r.Start(nil)
		r.After(10 * time.Second)
		hasty.Store(1000)
		r.After(2 * time.Second)
		require.Zero(t, hasty.Load())
		items := roundItems(r.After(10 * time.Second))
		require.Len(t, items, 10)
	})
}

// hastyProbes makes probes fail at once, for as many rounds as are left.
func hastyProbes(b verbs.Backend, left *atomic.Int32) verbs.Backend {
	return probes{b, func(_ verbs.ProbeConfig, p verbs.Probe) verbs.Probe { return hastyProbe{p, left} }, verbs.MethodNone}
}

type hastyProbe struct {
	verbs.Probe
	left *atomic.Int32
}

func (p hastyProbe) Rounds(pace verbs.Pace) (verbs.Round, int, error) {
	if p.left.Load() == 0 {
		return p.Probe.Rounds(verbs.Pace{Pause: pace.Pause})
	}
	p.left.Add(-1)
	return verbs.Round{Outcome: verbs.OutcomeError, Status: "ibv_create_qp: cannot allocate memory"}, 1, nil
}
