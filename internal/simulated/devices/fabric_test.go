package devices

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

const ms = int64(time.Millisecond)

// prober is a scene with a Fabric on port 1 of sim0 that probes the host "b" in slot 5.
type prober struct {
	*scene
	f     verbs.FabricEndpoint
	port  verbs.FabricPort
	began int64
	peer  verbs.FabricPeer
	facts []verbs.FabricFact // all so far
}

const place = 5

func newProber(t *testing.T, profile, text string) *prober {
	t.Helper()
	p := &prober{scene: newScene(t, profile, text), began: fakeTime()}
	p.f, p.port = p.fabric(1)
	p.peer = p.meet("b", p.f)
	return p
}

func (s *scene) config(port int) verbs.FabricConfig {
	return verbs.FabricConfig{Port: port, FabricOptions: verbs.FabricOptions{
		Paths: 4, Interval: 500 * time.Millisecond, GIDIndex: -1, PKeyIndex: -1,
	}}
}

func (s *scene) fabric(port int) (verbs.FabricEndpoint, verbs.FabricPort) {
	s.Helper()
	f, p, err := s.dev.NewFabricEndpoint(s.config(port))
	require.NoError(s, err)
	return f, p
}

// meet connects a pair with a simulated host. Its first round is due after 100 ms.
func (s *scene) meet(host string, f verbs.FabricEndpoint) verbs.FabricPeer {
	s.Helper()
	_, err := f.Offer(place, verbs.FabricProbes)
	require.NoError(s, err)
	q := s.w.Peer(host).Ports(fakeTime())[0]
	peer := verbs.FabricPeer{
		Host: host, Device: "sim0", Port: 1, Session: 42, UD: q.UD, QKey: q.QKey, RC: q.RC, First: 100 * time.Millisecond,
	}
	require.NoError(s, f.Join(place, &peer))
	return peer
}

// runUntil calls Run repeatedly until a time after the start of the Fabric.
func (p *prober) runUntil(until time.Duration) *prober {
	p.Helper()
	for end := p.began + int64(until); fakeTime() < end; {
		facts, _, err := runFabric(p.f, time.Duration(end-fakeTime()))
		require.NoError(p, err)
		p.facts = append(p.facts, facts...)
	}
	return p
}

func runFabric(f verbs.FabricEndpoint, lasting time.Duration) ([]verbs.FabricFact, int64, error) {
	facts := make([]verbs.FabricFact, verbs.MinFabricFacts)
	n, upTo, err := f.Run(facts, lasting)
	return facts[:n], upTo, err
}

// factsOf returns the facts of the given kinds.
func (p *prober) factsOf(kinds ...verbs.FabricKind) []verbs.FabricFact {
	var some []verbs.FabricFact
	for _, f := range p.facts {
		for _, k := range kinds {
			if f.Kind == k {
				some = append(some, f)
			}
		}
	}
	return some
}

// factTimes returns the times of the facts of a kind, in ms after the start.
func (p *prober) factTimes(kind verbs.FabricKind) []int64 {
	var all []int64
	for _, f := range p.factsOf(kind) {
		all = append(all, (f.At-p.began)/ms)
	}
	return all
}

// newTracker returns a Tracker that has received all facts.
func (p *prober) newTracker() *verdict.Tracker {
	p.Helper()
	t := verdict.NewTracker(4)
	for _, f := range p.facts {
		switch f.Kind {
		case verbs.FabricSent:
			require.Equal(p, f.Seq, t.AddProbe(f.Path, f.At))
		case verbs.FabricEcho:
			e := verdict.Echo{Path: f.Path, Seq: f.Seq, Received: f.Received, Posted: f.Posted, Dry: f.Dry}
			require.True(p, t.AddEcho(e, f.At))
		}
	}
	return t
}

// pairCounts returns the counts of the pair in the ledger.
func (p *prober) pairCounts() ledger.FabricPairCounts {
	p.Helper()
	require.Len(p, p.snapshot().Fabrics, 1)
	require.Len(p, p.snapshot().Fabrics[0].Pairs, 1)
	require.EqualValues(p, 42, p.snapshot().Fabrics[0].Pairs[0].Session)
	return p.snapshot().Fabrics[0].Pairs[0].FabricPairCounts
}

func TestAProberThatWokeLateDoesNotBlameItsPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "[[fabric]]\nat = '1s'\n").runUntil(1150 * time.Millisecond)
		time.Sleep(400 * time.Millisecond)
		facts, upTo, err := runFabric(p.f, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []verbs.FabricFact{{Kind: verbs.FabricLate, Pair: -1, At: fakeTime(), Took: 350 * ms}}, facts)
		require.Equal(t, fakeTime(), upTo)
		p.facts = nil
		p.runUntil(1650 * time.Millisecond)
		require.Equal(t, []int64{1650}, p.factTimes(verbs.FabricMissing))
	})
}

func TestANudgeEndsRunAndCloseEndsItForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "")
		p.f.Nudge()
		facts, upTo, err := runFabric(p.f, time.Minute)
		require.NoError(t, err)
		require.Empty(t, facts)
		require.Equal(t, p.began, upTo)

		time.AfterFunc(time.Second, func() { require.NoError(t, p.f.Close(time.Second)) })
		facts, upTo, err = runFabric(p.f, time.Minute)
		synctest.Wait()
		require.ErrorIs(t, err, verbs.ErrClosed)
		require.Len(t, facts, 8)
		require.LessOrEqual(t, upTo, p.began+second)
		require.ErrorIs(t, p.f.Close(time.Second), verbs.ErrClosed)
		_, err = p.f.Offer(0, verbs.FabricProbes)
		require.ErrorIs(t, err, verbs.ErrClosed)
		p.f.Nudge()
	})
}

func TestADeviceClosesItsFabrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "")
		time.AfterFunc(time.Second, func() { require.NoError(t, p.dev.Close(time.Second)) })
		_, _, err := runFabric(p.f, time.Minute)
		require.ErrorIs(t, err, verbs.ErrClosed)
		synctest.Wait()
		require.ErrorIs(t, p.f.Close(0), verbs.ErrClosed)
		require.Nil(t, p.w.fabric.find(p.port.UD[0], p.port.QKey))
	})
}

func TestOrdersThatCannotBeCarriedOutChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "")
		require.ErrorIs(t, p.f.Join(0, &p.peer), unix.EINVAL, "nothing was offered")
		_, err := p.f.Offer(verbs.MaxFabricPairs, verbs.FabricProbes)
		require.ErrorIs(t, err, unix.EINVAL)
		require.ErrorContains(t, err, "place 64 of 64")
		_, _, err = runFabric(p.f, 0)
		require.NoError(t, err)
		n, _, err := p.f.Run(make([]verbs.FabricFact, 3), time.Second)
		require.ErrorIs(t, err, unix.EINVAL)
		require.Zero(t, n)
		_, err = p.f.Offer(place, verbs.FabricProbes)
		require.NoError(t, err)
		bad := p.peer
		bad.UD = nil
		require.ErrorIs(t, p.f.Join(place, &bad), unix.EINVAL)
		require.Len(t, p.runUntil(time.Second).factsOf(verbs.FabricEcho), 2, "what ran goes on")
		require.NoError(t, p.f.Leave(place))
		require.NoError(t, p.f.Leave(place))
		require.Len(t, p.runUntil(3*time.Second).factsOf(verbs.FabricEcho), 2)
	})
}

func TestAFabricOnAPortWithoutLinkHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "[[link]]\nat = '1s'\ndown_for = '1s'\ndevice = 'sim0'\n").runUntil(3 * time.Second)
		require.Equal(t, []int64{100, 600, 2100, 2600}, p.factTimes(verbs.FabricEcho))
		require.NoError(t, p.w.SetLink("sim0", 1, false))
		_, _, err := p.dev.NewFabricEndpoint(p.config(1))
		require.ErrorIs(t, err, verbs.ErrUnsupported)
		require.NotErrorIs(t, err, verbs.ErrNeverFabric)
	})
}

func TestAFabricOfARemovedDeviceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "[[fault]]\nkind = 'removed'\nat = '1s'\nfor = '5s'\n").runUntil(900 * time.Millisecond)
		time.Sleep(200 * time.Millisecond)
		_, _, err := runFabric(p.f, time.Second)
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		_, err = p.f.Offer(0, verbs.FabricProbes)
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		_, _, err = p.dev.NewFabricEndpoint(p.config(1))
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		require.NoError(t, p.f.Close(time.Second))
	})
}

func TestARunThatHangsIsSeenInTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, "roce2", "[[fault]]\nkind = 'hang_fabric'\nat = '1s'\nfor = '20s'\n")
		done := make(chan error)
		go func() { _, _, err := runFabric(p.f, 5*time.Second); done <- err }()
		time.Sleep(10 * time.Second)
		lane := p.snapshot().Fabrics[0].Call
		require.Equal(t, ledger.CallPostSend, lane.Call)
		require.ErrorIs(t, p.f.Close(time.Second), verbs.ErrStuck)
		require.ErrorIs(t, <-done, verbs.ErrClosed)
	})
}

func TestEachKindOfPortIsReachedInItsWay(t *testing.T) {
	v4 := netip.MustParseAddr("10.4.0.1").As16()
	s := newScene(t, "roce2", "")
	f, port := s.fabric(1)
	require.Equal(t, verbs.LinkEthernet, port.LinkLayer)
	require.Zero(t, port.LID)
	require.Equal(t, verbs.FabricGID{Index: 3, Raw: v4}, port.GIDs[0], "of RoCE v2, and an address first")
	require.Len(t, port.GIDs, 2)
	require.Equal(t, 1, port.GIDs[1].Index)
	require.Zero(t, port.Epoch)
	numbers, qkey := f.UD()
	require.Equal(t, port.UD, numbers)
	require.Len(t, numbers, 4)
	require.Equal(t, port.QKey, qkey)
	require.Zero(t, qkey>>31)

	require.NoError(t, f.Close(0))
	c := s.config(1)
	c.GIDIndex = 1
	_, port, err := s.dev.NewFabricEndpoint(c)
	require.NoError(t, err)
	require.Equal(t, 1, port.GIDs[0].Index)
	require.Len(t, port.GIDs, 1)

	_, port = newScene(t, "ib8", "").fabric(1)
	require.Equal(t, verbs.LinkInfiniBand, port.LinkLayer)
	require.Equal(t, 10, port.LID)
	require.EqualValues(t, 0xffff, port.PKey)
}

func TestAPortThatCannotProbeHostsSaysWhetherItEverCan(t *testing.T) {
	for _, profile := range []string{"iwarp", "siw", "efa", "mana", "qedr"} {
		s := newScene(t, profile, "")
		_, _, err := s.dev.NewFabricEndpoint(s.config(1))
		require.ErrorIs(t, err, verbs.ErrNeverFabric, profile)
		require.Empty(t, s.w.Peer("b").Ports(fakeTime()))
	}
	s := newScene(t, "roce2", "")
	for name, change := range map[string]func(*verbs.FabricConfig){
		"no such port":      func(c *verbs.FabricConfig) { c.Port = 2 },
		"too many paths":    func(c *verbs.FabricConfig) { c.Paths = 5 },
		"no such P_Key":     func(c *verbs.FabricConfig) { c.PKeyIndex = 1 },
		"a GID of RoCE v1":  func(c *verbs.FabricConfig) { c.GIDIndex = 0 },
		"no GID of RoCE v2": func(c *verbs.FabricConfig) { c.GIDIndex = 9 },
	} {
		c := s.config(1)
		change(&c)
		_, _, err := s.dev.NewFabricEndpoint(c)
		require.ErrorIs(t, err, verbs.ErrUnsupported, name)
		require.NotErrorIs(t, err, verbs.ErrNeverFabric, name)
	}
}
