package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
)

// fakePair simulates the samples of a pair. Its fields choose which parts of the peer answer. A round lasts 500 ms.
type fakePair struct {
	t            *testing.T
	j            *Judge
	s            Sample
	echoes       bool // the peer's process echoes
	acknowledges bool // the peer's NIC acknowledges writes
	answersState bool // the peer's process answers State requests
	verdicts     []Verdict
}

// newOKPair returns a pair that is connected and has the verdict ok.
func newOKPair(t *testing.T) *fakePair {
	p := &fakePair{t: t, j: NewJudge(second), echoes: true, acknowledges: true, answersState: true}
	p.s = Sample{At: second, PeerActive: true, Paths: make([]PathSample, 5)}
	p.runFor(2 * time.Second)
	require.Equal(t, []Verdict{VerdictOK}, p.verdicts)
	p.verdicts = nil
	return p
}

// runFor lets d pass in steps of 50 ms.
func (p *fakePair) runFor(d time.Duration) {
	for end := p.s.At + int64(d); p.s.At < end; {
		p.s.At += 50 * ms
		silent := p.s.Silent > 0 && p.s.WriteSince != 0
		if p.s.At%(500*ms) == 0 || silent && p.s.Silent < 4 {
			p.runRound()
		}
		if p.answersState && p.s.Silent > 0 && p.s.WriteSince != 0 {
			p.s.Answers = p.s.At
		}
		if p.j.Update(&p.s) {
			v, since := p.j.Verdict()
			require.Equal(p.t, p.s.At, since)
			p.verdicts = append(p.verdicts, v)
		}
	}
}

func (p *fakePair) runRound() {
	p.s.Sent++
	if p.echoes {
		p.s.Echoed, p.s.Silent, p.s.SilentSince = p.s.At, 0, 0
	} else if p.s.Silent++; p.s.Silent == 1 {
		p.s.SilentSince = p.s.At
	}
	if p.s.WriteSince == 0 {
		p.s.WriteSince = p.s.At
	}
	if p.acknowledges {
		p.s.WriteSince, p.s.WriteDone, p.s.WriteFailed = 0, p.s.At, false
	}
}

func (p *fakePair) requireVerdicts(want ...Verdict) {
	p.t.Helper()
	require.Equal(p.t, want, p.verdicts)
	p.verdicts = nil
}

func TestACutPathIsNamedInHalfASecondAndEndsWhenBothAnswer(t *testing.T) {
	p := newOKPair(t)
	p.echoes, p.acknowledges = false, false
	cut := p.s.At
	p.runFor(3 * time.Second)
	p.requireVerdicts(VerdictPath)
	_, since := p.j.Verdict()
	require.LessOrEqual(t, since-cut, 900*ms, "a round may be 500 ms away")
	p.s.WriteFailed = true
	p.runFor(time.Second)
	p.requireVerdicts()
	p.echoes, p.acknowledges = true, true
	p.runFor(4 * time.Second)
	p.requireVerdicts()
	p.runFor(3 * time.Second)
	p.requireVerdicts(VerdictOK)
}

func TestThePeerSaysThatItsPortIsNotActive(t *testing.T) {
	p := newOKPair(t)
	p.echoes, p.acknowledges, p.s.PeerActive = false, false, false
	p.runFor(2 * time.Second)
	p.requireVerdicts(VerdictPeerPort)
}

func TestAHostThatIsGoneIsDownAndNoPath(t *testing.T) {
	p := newOKPair(t)
	p.echoes, p.acknowledges, p.answersState = false, false, false
	p.runFor(3 * time.Second)
	p.requireVerdicts(VerdictPeerDown)
	p.answersState = true
	p.runFor(time.Second)
	p.requireVerdicts(VerdictPath)
}

func TestABusyPeerIsNeverTheNetwork(t *testing.T) {
	p := newOKPair(t)
	p.echoes = false
	p.runFor(1900 * time.Millisecond)
	p.requireVerdicts()
	p.runFor(3 * time.Second)
	p.requireVerdicts(VerdictPeerBusy)
	p.acknowledges = false // for less than a second, like a write that the NIC retransmits
	p.runFor(900 * time.Millisecond)
	p.requireVerdicts()
	p.acknowledges, p.echoes = true, true
	p.runFor(7 * time.Second)
	p.requireVerdicts(VerdictOK)
}

func TestAPeerThatStartsIsNotBlamed(t *testing.T) {
	p := &fakePair{t: t, j: NewJudge(second), answersState: true}
	p.s = Sample{At: second, PeerActive: true}
	p.runFor(9 * time.Second)
	p.requireVerdicts()
	p.runFor(2 * time.Second)
	p.requireVerdicts(VerdictPath)
}

func TestOnePathThatIsSilentIsNamed(t *testing.T) {
	p := newOKPair(t)
	p.runFor(6 * time.Second)
	p.s.Paths[2].Missed = minMissedInRow - 1
	p.runFor(time.Second)
	p.requireVerdicts()
	p.s.Paths[2].Missed++
	p.runFor(time.Second)
	p.requireVerdicts(VerdictPartial)
	require.Equal(t, 2, p.j.Path())
	p.s.Paths[2] = PathSample{Answered: minAnsweredInRow - 1}
	p.runFor(time.Second)
	p.requireVerdicts()
	p.s.Paths[2].Answered++
	p.runFor(time.Second)
	p.requireVerdicts(VerdictOK)
	require.Equal(t, -1, p.j.Path())
}

func TestLossHasADirection(t *testing.T) {
	for want, lose := range map[Verdict]func(*Sample){
		VerdictLossyForward: func(s *Sample) { s.ForwardLost++ },
		VerdictLossyReverse: func(s *Sample) { s.ReverseLost++ },
		VerdictLossyBoth:    func(s *Sample) { s.ForwardLost++; s.ReverseLost++ },
	} {
		t.Run(string(want), func(t *testing.T) {
			p := newOKPair(t)
			for range 2 {
				p.runFor(10 * time.Second)
				lose(&p.s)
			}
			p.runFor(5 * time.Second)
			p.requireVerdicts()
			lose(&p.s)
			p.runFor(time.Second)
			p.requireVerdicts(want)
			p.runFor(50 * time.Second)
			p.requireVerdicts()
			p.runFor(30 * time.Second)
			p.requireVerdicts(VerdictOK)
		})
	}
}

func TestLossOfLessThanAFiftiethIsNone(t *testing.T) {
	p := newOKPair(t)
	for range 10 {
		p.runFor(10 * time.Second)
		p.s.Sent += 1000
		p.s.ForwardLost += 3
	}
	p.requireVerdicts()
}

// A path that recovers gradually gets no lossy verdict, neither during the recovery nor afterwards for the packets lost while it was cut.
func TestAVerdictNeverTurnsMilderBeforeItIsOver(t *testing.T) {
	p := newOKPair(t)
	p.echoes, p.acknowledges = false, false
	p.runFor(3 * time.Second)
	p.requireVerdicts(VerdictPath)
	p.acknowledges = true
	p.s.ForwardLost += 6
	p.runFor(20 * time.Second)
	p.requireVerdicts()
	p.echoes = true
	p.runFor(7 * time.Second)
	p.requireVerdicts(VerdictOK)
	p.runFor(time.Minute)
	p.requireVerdicts()
	p.s.ForwardLost += 6
	p.runFor(time.Second)
	p.requireVerdicts(VerdictLossyForward)
}

func TestNetworkVerdictsBlameTheNetwork(t *testing.T) {
	for v, want := range map[Verdict]bool{
		VerdictOK: false, VerdictStarting: false, VerdictPeerBusy: false, VerdictPeerDown: false, VerdictPeerPort: false,
		VerdictPath: true, VerdictPartial: true, VerdictLossyForward: true, VerdictLossyReverse: true, VerdictLossyBoth: true,
	} {
		require.Equal(t, want, v.IsNetwork(), v)
		require.GreaterOrEqual(t, v.precedence(), 0)
	}
}

// A probe that was just sent is not missing yet, even if every sample is taken right after a probe.
func TestAProbeOnItsWayDoesNotKeepAVerdictUp(t *testing.T) {
	p := newOKPair(t)
	p.echoes, p.acknowledges = false, false
	p.runFor(2 * time.Second)
	p.requireVerdicts(VerdictPath)
	p.echoes, p.acknowledges = true, true
	for range 20 {
		p.runFor(450 * time.Millisecond)
		p.s.At += 50 * ms
		p.runRound()
		p.s.Silent, p.s.SilentSince = 1, p.s.At-ms
		if p.j.Update(&p.s) {
			v, _ := p.j.Verdict()
			p.verdicts = append(p.verdicts, v)
		}
		p.s.Silent, p.s.SilentSince = 0, 0
	}
	p.requireVerdicts(VerdictOK)
}

// A process that has not noticed the end of its worker yet answers that its port is active, and later corrects that.
func TestAPathIsNotBlamedWhosePeerIsGone(t *testing.T) {
	p := newOKPair(t)
	p.echoes, p.acknowledges = false, false
	p.runFor(time.Second)
	p.requireVerdicts(VerdictPath)
	p.answersState, p.s.Answers, p.s.PeerGone = false, 0, true
	p.runFor(2 * time.Second)
	p.requireVerdicts(VerdictPeerDown)
}

func TestPairThatNeverSentProbeStaysStarting(t *testing.T) {
	tr, j, s := NewTracker(4), NewJudge(second), Sample{}
	for at := second; at < 60*second; at += second / 2 {
		tr.AddWrite(at)
		tr.CompleteWrite(at, ms)
		tr.FillSample(&s, at)
		require.False(t, j.Update(&s))
	}
	v, _ := j.Verdict()
	require.Equal(t, VerdictStarting, v)
}
