package verdict

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// wire simulates the peer of a pair. It counts and echoes the probes that arrive.
type wire struct {
	t              *testing.T
	tracker        *Tracker
	at             int64
	received, post []uint64
}

func newWire(t *testing.T) *wire {
	return &wire{t: t, tracker: NewTracker(4), received: make([]uint64, 4), post: make([]uint64, 4)}
}

// probe sends a probe 100 ms after the previous one and returns the echo that the peer posts.
func (w *wire) probe(path int) Echo {
	w.at += 100 * ms
	seq := w.tracker.AddProbe(path, w.at)
	w.received[path]++
	w.post[path]++
	return Echo{Path: path, Seq: seq, Received: w.received[path], Posted: w.post[path]}
}

// loseProbe sends a probe that does not arrive.
func (w *wire) loseProbe(path int) uint64 {
	w.at += 100 * ms
	return w.tracker.AddProbe(path, w.at)
}

func (w *wire) answer(e Echo) {
	w.t.Helper()
	require.True(w.t, w.tracker.AddEcho(e, w.at))
}

func (w *wire) requireCounts(want Counts) {
	w.t.Helper()
	want.Pending = want.Sent - want.Answered - want.ForwardLost - want.ReverseLost - want.BusyLost - want.UnknownLost
	require.Equal(w.t, want, w.tracker.Counts())
}

func TestLossIsBlamedOnItsDirection(t *testing.T) {
	w := newWire(t)
	w.answer(w.probe(0))
	w.loseProbe(0) // forward
	w.probe(0)     // in reverse: the echo is lost
	w.probe(0)
	w.loseProbe(0)
	w.requireCounts(Counts{Sent: 5, Answered: 1})
	w.answer(w.probe(0))
	w.requireCounts(Counts{Sent: 6, Answered: 2, ForwardLost: 2, ReverseLost: 2})
	w.answer(w.probe(0))
	w.requireCounts(Counts{Sent: 7, Answered: 3, ForwardLost: 2, ReverseLost: 2})
}

// Packets of different paths may overtake each other without any loss.
func TestPathsDoNotProveEachOthersLoss(t *testing.T) {
	w := newWire(t)
	first, second := w.probe(0), w.probe(1)
	w.answer(second)
	w.requireCounts(Counts{Sent: 2, Answered: 1})
	w.answer(first)
	w.requireCounts(Counts{Sent: 2, Answered: 2})
}

func TestWhatADryQueueDroppedIsNoLossOfTheNetwork(t *testing.T) {
	w := newWire(t)
	w.loseProbe(2)
	w.loseProbe(2)
	e := w.probe(2)
	e.Dry = true
	w.answer(e)
	w.requireCounts(Counts{Sent: 3, Answered: 1, BusyLost: 2})
	w.loseProbe(2)
	w.answer(w.probe(2))
	w.requireCounts(Counts{Sent: 5, Answered: 2, BusyLost: 2, ForwardLost: 1})
}

func TestWhatThePeerRefusedIsNoLossOfTheNetwork(t *testing.T) {
	w := newWire(t)
	w.loseProbe(0)
	w.received[0]++ // it arrived, and the peer posted no echo
	w.answer(w.probe(0))
	w.requireCounts(Counts{Sent: 2, Answered: 1, BusyLost: 1})
}

func TestAnEchoOfNoProbeChangesNothing(t *testing.T) {
	w := newWire(t)
	good := w.probe(1)
	for what, change := range map[string]func(*Echo){
		"no such path":                 func(e *Echo) { e.Path = 4 },
		"a negative path":              func(e *Echo) { e.Path = -1 },
		"another path":                 func(e *Echo) { e.Path = 2 },
		"no such probe":                func(e *Echo) { e.Seq++ },
		"more posted than had arrived": func(e *Echo) { e.Posted++ },
	} {
		e := good
		change(&e)
		require.False(t, w.tracker.AddEcho(e, w.at), what)
	}
	w.requireCounts(Counts{Sent: 1})
	w.answer(good)
	require.False(t, w.tracker.AddEcho(good, w.at), "a second time")
	w.requireCounts(Counts{Sent: 1, Answered: 1})
}

// A peer that runs an older release counts and echoes a datagram twice if it arrives twice.
func TestPathGoesOnAfterProbeArrivedTwice(t *testing.T) {
	w := newWire(t)
	w.answer(w.probe(0))
	first := w.probe(0)
	w.received[0]++
	w.post[0]++
	w.answer(first)
	require.False(t, w.tracker.AddEcho(Echo{Seq: first.Seq, Received: 3, Posted: 3}, w.at), "the echo of the duplicate")
	w.answer(w.probe(0))
	w.requireCounts(Counts{Sent: 3, Answered: 3})
	w.loseProbe(0)
	w.probe(0) // its echo is lost
	w.loseProbe(0)
	w.received[0]++ // it arrived, and the peer posted no echo
	w.answer(w.probe(0))
	w.requireCounts(Counts{Sent: 7, Answered: 4, ForwardLost: 1, ReverseLost: 1, BusyLost: 1})
}

func TestPathGoesOnAfterImpossibleCount(t *testing.T) {
	w := newWire(t)
	e := w.probe(0)
	e.Received, e.Posted = math.MaxUint64, math.MaxUint64
	w.answer(e)
	w.answer(w.probe(0))
	w.loseProbe(0)
	w.answer(w.probe(0))
	w.requireCounts(Counts{Sent: 4, Answered: 3, ForwardLost: 1})
}

func TestAPeerWhoseCountsWentBackLostWhatIsNotKnown(t *testing.T) {
	w := newWire(t)
	w.loseProbe(0)
	w.answer(w.probe(0))
	w.received[0], w.post[0] = 3, 3 // the losses there would become fewer
	w.loseProbe(0)
	w.answer(w.probe(0))
	w.requireCounts(Counts{Sent: 4, Answered: 2, ForwardLost: 1, UnknownLost: 1})
}

func TestAPathIsMissedWhenOthersOvertakeIt(t *testing.T) {
	w := newWire(t)
	var s Sample
	for n := 1; n <= minMissedInRow; n++ {
		w.loseProbe(3)
		w.answer(w.probe(0))
		w.tracker.FillSample(&s, w.at)
		require.Equal(t, n, s.Paths[3].Missed)
		require.Zero(t, s.Silent, "the pair is not silent")
	}
	w.answer(w.probe(3))
	w.tracker.FillSample(&s, w.at)
	require.Equal(t, PathSample{Answered: 1}, s.Paths[3])
}

func TestSilenceBeginsWithTheFirstProbeThatIsMissing(t *testing.T) {
	w := newWire(t)
	w.answer(w.probe(0))
	w.loseProbe(1)
	first := w.at
	w.loseProbe(2)
	since, n := w.tracker.Unanswered()
	require.Equal(t, first, since)
	require.Equal(t, 2, n)
	w.answer(w.probe(3))
	_, n = w.tracker.Unanswered()
	require.Zero(t, n)
}

func TestAWriteIsOutstandingDoneOrFailed(t *testing.T) {
	w := newWire(t)
	var s Sample
	look := func() { w.tracker.FillSample(&s, w.at) }
	w.tracker.AddWrite(1)
	look()
	require.EqualValues(t, 1, s.WriteSince)
	w.tracker.CompleteWrite(2, 1)
	look()
	require.EqualValues(t, 0, s.WriteSince)
	require.EqualValues(t, 2, s.WriteDone)
	w.tracker.AddWrite(3)
	w.tracker.FailWrite()
	for range 3 {
		w.answer(w.probe(0))
	}
	look()
	require.True(t, s.WriteFailed)
	require.Equal(t, PathSample{Missed: 3}, s.Paths[4], "its path was overtaken")
	w.requireCounts(Counts{Sent: 3, Answered: 3, Writes: 2, WritesOK: 1, WriteErrors: 1})
}

// The counts match the simulated losses, and every probe has exactly one outcome at all times.
func TestCountsAreThoseOfTheWire(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWire(t)
		var forward, reverse uint64
		for range 2000 {
			switch path := r.IntN(4); r.IntN(10) {
			case 0:
				w.loseProbe(path)
				forward++
			case 1:
				w.probe(path)
				reverse++
			default:
				w.answer(w.probe(path))
			}
			c := w.tracker.Counts()
			require.LessOrEqual(t, c.Pending, c.Sent)
		}
		for path := range 4 {
			w.answer(w.probe(path))
		}
		w.requireCounts(Counts{Sent: 2004, Answered: 2004 - forward - reverse, ForwardLost: forward, ReverseLost: reverse})
	}
}

func TestAPathThatIsSilentForLongCostsNoMoreMemory(t *testing.T) {
	w := newWire(t)
	for range 10 * maxOpen {
		w.loseProbe(0)
	}
	require.Len(t, w.tracker.paths[0].open, maxOpen)
	w.answer(w.probe(0))
	w.requireCounts(Counts{Sent: 10*maxOpen + 1, Answered: 1, ForwardLost: 10 * maxOpen})
}

func TestAPairThatEndsLosesWhatIsPending(t *testing.T) {
	w := newWire(t)
	w.answer(w.probe(0))
	w.loseProbe(1)
	w.tracker.EndSession()
	w.requireCounts(Counts{Sent: 2, Answered: 1, UnknownLost: 1})
	require.Zero(t, w.tracker.Counts().Pending)
}

// peersWithVerdicts returns a verdict for each letter of text. The names of the hosts are consecutive letters from first on.
func peersWithVerdicts(first rune, text string) (all []PeerVerdict) {
	for _, c := range text {
		v := map[rune]Verdict{
			'.': VerdictOK, 'x': VerdictPath, 'l': VerdictLossyForward, 'd': VerdictPeerDown, 'b': VerdictPeerBusy, 's': VerdictStarting,
			'p': VerdictPartial,
		}[c]
		all = append(all, PeerVerdict{Host: string(first + rune(len(all))), Verdict: v})
	}
	return all
}

func TestOwnLinkNeedsMoreThanWhatOtherFaultsExplain(t *testing.T) {
	for what, row := range map[string]struct {
		within, across string
		want           Verdict
	}{
		"the uplinks of the leaf":                      {".", "xxxx", VerdictOK},
		"one path through a spine":                     {".", "pppp", VerdictOK},
		"one path of every pair, within the group too": {"pp", "pppp", VerdictOK},
		"the link": {"x", "xxxx", VerdictOwnLink},
		"the link, while one pair is partial still":     {"x", "pxxx", VerdictOwnLink},
		"the link, while the group is down":             {"dd", "xxxx", VerdictOwnLink},
		"the link of a host that is alone in its group": {"", "xxxx", VerdictOwnLink},
		"loss on the link":                              {"l", "llll", VerdictOwnLink},
	} {
		require.Equal(t, row.want, JudgePort(true, peersWithVerdicts('a', row.within), peersWithVerdicts('k', row.across)...), what)
	}
}

func TestAPortThatMostPairsBlameBlamesItself(t *testing.T) {
	of := func(text string) []PeerVerdict { return peersWithVerdicts('a', text) }
	for text, want := range map[string]Verdict{
		"": VerdictOK, "xxx": VerdictOK, "xxxx": VerdictOwnLink, "xxx.": VerdictOwnLink, "xx..": VerdictOK, "xlxl..": VerdictOK,
		"xxxddd": VerdictOK, "xxxxddd": VerdictOwnLink, "xxx.bbbsss": VerdictOwnLink, "dddddddd": VerdictOK,
	} {
		require.Equal(t, want, JudgePort(true, of(text)), text)
		require.Equal(t, VerdictOwnPort, JudgePort(false, of(text)), text)
	}
	one := of("xxxx")
	for i := range one {
		one[i].Host = "a"
	}
	require.Equal(t, VerdictOK, JudgePort(true, one), "all of one host")
}

func TestAProberThatWasLateExcusesThePairByThat(t *testing.T) {
	tr := NewTracker(2)
	tr.AddProbe(0, second)
	tr.AddWrite(second)
	tr.ShiftTimes(300 * ms)
	since, n := tr.Unanswered()
	require.Equal(t, []any{second + 300*ms, 1}, []any{since, n})
	var s Sample
	tr.FillSample(&s, 2*second)
	require.Equal(t, second+300*ms, s.WriteSince)
	tr.CompleteWrite(2*second, ms)
	tr.ShiftTimes(300 * ms)
	tr.FillSample(&s, 2*second)
	require.Zero(t, s.WriteSince, "no write is outstanding")
}

func TestWhatWasSentWithoutAWordIsUnknownInTheEnd(t *testing.T) {
	tr := NewTracker(2)
	tr.AddProbe(0, second)
	tr.AddUnreported(3, 2)
	require.EqualValues(t, 4, tr.Counts().Pending)
	tr.EndSession()
	require.Equal(t, Counts{Sent: 4, UnknownLost: 4, Writes: 2}, tr.Counts())
}
