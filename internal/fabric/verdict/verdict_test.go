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

// pair is a peer, and what of it answers. A round is 500 ms.
type pair struct {
	t     *testing.T
	j     *Judge
	s     Sample
	echo  bool // the peer's process echoes
	write bool // its NIC acknowledges
	state bool // its process answers State
	said  []Verdict
}

func met(t *testing.T) *pair {
	p := &pair{t: t, j: NewJudge(second), echo: true, write: true, state: true}
	p.s = Sample{At: second, PeerActive: true, Paths: make([]PathSample, 5)}
	p.run(2 * time.Second)
	require.Equal(t, []Verdict{VerdictOK}, p.said)
	p.said = nil
	return p
}

// run lets time pass, in steps of 50 ms.
func (p *pair) run(d time.Duration) {
	for end := p.s.At + int64(d); p.s.At < end; {
		p.s.At += 50 * ms
		silent := p.s.Silent > 0 && p.s.WriteSince != 0
		if p.s.At%(500*ms) == 0 || silent && p.s.Silent < 4 {
			p.round()
		}
		if p.state && p.s.Silent > 0 && p.s.WriteSince != 0 {
			p.s.Answers = p.s.At
		}
		if p.j.See(&p.s) {
			v, since := p.j.Verdict()
			require.Equal(p.t, p.s.At, since)
			p.said = append(p.said, v)
		}
	}
}

func (p *pair) round() {
	p.s.Sent++
	if p.echo {
		p.s.Echoed, p.s.Silent, p.s.SilentSince = p.s.At, 0, 0
	} else if p.s.Silent++; p.s.Silent == 1 {
		p.s.SilentSince = p.s.At
	}
	if p.s.WriteSince == 0 {
		p.s.WriteSince = p.s.At
	}
	if p.write {
		p.s.WriteSince, p.s.WriteDone, p.s.WriteFailed = 0, p.s.At, false
	}
}

func (p *pair) requireVerdicts(want ...Verdict) {
	p.t.Helper()
	require.Equal(p.t, want, p.said)
	p.said = nil
}

func TestACutPathIsNamedInHalfASecondAndEndsWhenBothAnswer(t *testing.T) {
	p := met(t)
	p.echo, p.write = false, false
	cut := p.s.At
	p.run(3 * time.Second)
	p.requireVerdicts(VerdictPath)
	_, since := p.j.Verdict()
	require.LessOrEqual(t, since-cut, 900*ms, "a round may be 500 ms away")
	p.s.WriteFailed = true
	p.run(time.Second)
	p.requireVerdicts()
	p.echo, p.write = true, true
	p.run(4 * time.Second)
	p.requireVerdicts()
	p.run(3 * time.Second)
	p.requireVerdicts(VerdictOK)
}

func TestThePeerSaysThatItsPortIsNotActive(t *testing.T) {
	p := met(t)
	p.echo, p.write, p.s.PeerActive = false, false, false
	p.run(2 * time.Second)
	p.requireVerdicts(VerdictPeerPort)
}

func TestAHostThatIsGoneIsDownAndNoPath(t *testing.T) {
	p := met(t)
	p.echo, p.write, p.state = false, false, false
	p.run(3 * time.Second)
	p.requireVerdicts(VerdictPeerDown)
	p.state = true
	p.run(time.Second)
	p.requireVerdicts(VerdictPath)
}

func TestABusyPeerIsNeverTheNetwork(t *testing.T) {
	p := met(t)
	p.echo = false
	p.run(1900 * time.Millisecond)
	p.requireVerdicts()
	p.run(3 * time.Second)
	p.requireVerdicts(VerdictPeerBusy)
	p.write = false // for less than a second, as a write that was retried
	p.run(900 * time.Millisecond)
	p.requireVerdicts()
	p.write, p.echo = true, true
	p.run(7 * time.Second)
	p.requireVerdicts(VerdictOK)
}

func TestAPeerThatStartsIsNotBlamed(t *testing.T) {
	p := &pair{t: t, j: NewJudge(second), state: true}
	p.s = Sample{At: second, PeerActive: true}
	p.run(9 * time.Second)
	p.requireVerdicts()
	p.run(2 * time.Second)
	p.requireVerdicts(VerdictPath)
}

func TestOnePathThatIsSilentIsNamed(t *testing.T) {
	p := met(t)
	p.run(6 * time.Second)
	p.s.Paths[2].Missed = missedInARow - 1
	p.run(time.Second)
	p.requireVerdicts()
	p.s.Paths[2].Missed++
	p.run(time.Second)
	p.requireVerdicts(VerdictPartial)
	require.Equal(t, 2, p.j.Path())
	p.s.Paths[2] = PathSample{Answered: answeredInARow - 1}
	p.run(time.Second)
	p.requireVerdicts()
	p.s.Paths[2].Answered++
	p.run(time.Second)
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
			p := met(t)
			for range 2 {
				p.run(10 * time.Second)
				lose(&p.s)
			}
			p.run(5 * time.Second)
			p.requireVerdicts()
			lose(&p.s)
			p.run(time.Second)
			p.requireVerdicts(want)
			p.run(50 * time.Second)
			p.requireVerdicts()
			p.run(30 * time.Second)
			p.requireVerdicts(VerdictOK)
		})
	}
}

func TestLossOfLessThanAFiftiethIsNone(t *testing.T) {
	p := met(t)
	for range 10 {
		p.run(10 * time.Second)
		p.s.Sent += 1000
		p.s.ForwardLost += 3
	}
	p.requireVerdicts()
}

// A path that comes back by way of lost packets is not called lossy first, nor afterwards for what was lost while it was cut.
func TestAVerdictNeverTurnsMilderBeforeItIsOver(t *testing.T) {
	p := met(t)
	p.echo, p.write = false, false
	p.run(3 * time.Second)
	p.requireVerdicts(VerdictPath)
	p.write = true
	p.s.ForwardLost += 6
	p.run(20 * time.Second)
	p.requireVerdicts()
	p.echo = true
	p.run(7 * time.Second)
	p.requireVerdicts(VerdictOK)
	p.run(time.Minute)
	p.requireVerdicts()
	p.s.ForwardLost += 6
	p.run(time.Second)
	p.requireVerdicts(VerdictLossyForward)
}

func TestNetworkVerdictsBlameTheNetwork(t *testing.T) {
	for v, want := range map[Verdict]bool{
		VerdictOK: false, VerdictStarting: false, VerdictPeerBusy: false, VerdictPeerDown: false, VerdictPeerPort: false,
		VerdictPath: true, VerdictPartial: true, VerdictLossyForward: true, VerdictLossyReverse: true, VerdictLossyBoth: true,
	} {
		require.Equal(t, want, v.IsNetwork(), v)
		require.GreaterOrEqual(t, v.weight(), 0)
	}
}

// A probe that was sent a moment ago is not missing yet, however often the samples are taken right after one.
func TestAProbeOnItsWayDoesNotKeepAVerdictUp(t *testing.T) {
	p := met(t)
	p.echo, p.write = false, false
	p.run(2 * time.Second)
	p.requireVerdicts(VerdictPath)
	p.echo, p.write = true, true
	for range 20 {
		p.run(450 * time.Millisecond)
		p.s.At += 50 * ms
		p.round()
		p.s.Silent, p.s.SilentSince = 1, p.s.At-ms
		if p.j.See(&p.s) {
			v, _ := p.j.Verdict()
			p.said = append(p.said, v)
		}
		p.s.Silent, p.s.SilentSince = 0, 0
	}
	p.requireVerdicts(VerdictOK)
}

// A process that learns late of its worker's end answers as if all were well, and corrects itself.
func TestAPathIsNotBlamedWhosePeerIsGone(t *testing.T) {
	p := met(t)
	p.echo, p.write = false, false
	p.run(time.Second)
	p.requireVerdicts(VerdictPath)
	p.state, p.s.Answers, p.s.PeerGone = false, 0, true
	p.run(2 * time.Second)
	p.requireVerdicts(VerdictPeerDown)
}

func TestPairThatNeverSentProbeStaysStarting(t *testing.T) {
	tr, j, s := NewTracker(4), NewJudge(second), Sample{}
	for at := second; at < 60*second; at += second / 2 {
		tr.WritePosted(at)
		tr.WriteDone(at, ms)
		tr.Sample(&s, at)
		require.False(t, j.See(&s))
	}
	v, _ := j.Verdict()
	require.Equal(t, VerdictStarting, v)
}
