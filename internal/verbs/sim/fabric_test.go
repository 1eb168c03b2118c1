package sim

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/fabric"
	"rdma_events/internal/ledger"
	"rdma_events/internal/verbs"
)

const ms = int64(time.Millisecond)

// prober is a scene with a Fabric on port 1 of sim0, which probes the host "b" in place 5.
type prober struct {
	*scene
	f     verbs.Fabric
	port  verbs.FabricPort
	began int64
	peer  verbs.FabricPeer
	facts []verbs.FabricFact // all so far
}

const place = 5

func probing(t *testing.T, profile, text string) *prober {
	t.Helper()
	p := &prober{scene: play(t, profile, text), began: fakeTime()}
	p.f, p.port = p.fabric(1)
	p.peer = p.meet("b", p.f)
	return p
}

func (s *scene) config(port int) verbs.FabricConfig {
	return verbs.FabricConfig{Port: port, FabricOptions: verbs.FabricOptions{
		Paths: 4, Interval: 500 * time.Millisecond, GIDIndex: -1, PKeyIndex: -1,
	}}
}

func (s *scene) fabric(port int) (verbs.Fabric, verbs.FabricPort) {
	s.Helper()
	f, p, err := s.dev.NewFabric(s.config(port))
	require.NoError(s, err)
	return f, p
}

// meet joins a simulated host, whose first round is 100 ms away.
func (s *scene) meet(host string, f verbs.Fabric) verbs.FabricPeer {
	s.Helper()
	_, err := f.Offer(place, verbs.FabricProbes)
	require.NoError(s, err)
	q := s.w.Peer(host).Ports(fakeTime())[0]
	rc, _ := s.w.Peer(host).RC(q.Epoch, 42)
	peer := verbs.FabricPeer{
		Host: host, Device: "sim0", Port: 1, Session: 42, UD: q.UD, QKey: q.QKey, RC: rc, First: 100 * time.Millisecond,
	}
	require.NoError(s, f.Join(place, &peer))
	return peer
}

// run runs the Fabric until a moment after its start, whatever ends its calls.
func (p *prober) run(until time.Duration) *prober {
	p.Helper()
	for end := p.began + int64(until); fakeTime() < end; {
		facts, _, err := runFabric(p.f, time.Duration(end-fakeTime()))
		require.NoError(p, err)
		p.facts = append(p.facts, facts...)
	}
	return p
}

func runFabric(f verbs.Fabric, lasting time.Duration) ([]verbs.FabricFact, int64, error) {
	facts := make([]verbs.FabricFact, verbs.MinFabricFacts)
	n, upTo, err := f.Run(facts, lasting)
	return facts[:n], upTo, err
}

// of returns the facts of some kinds.
func (p *prober) of(kinds ...verbs.FabricKind) []verbs.FabricFact {
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

// moments returns when facts of a kind came, in ms after the start.
func (p *prober) moments(kind verbs.FabricKind) []int64 {
	var all []int64
	for _, f := range p.of(kind) {
		all = append(all, (f.At-p.began)/ms)
	}
	return all
}

// track gives the facts to a Tracker.
func (p *prober) track() *fabric.Tracker {
	p.Helper()
	t := fabric.NewTracker(4)
	for _, f := range p.facts {
		switch f.Kind {
		case verbs.FabricSent:
			require.Equal(p, f.Seq, t.Probe(f.Path, f.At))
		case verbs.FabricEcho:
			e := fabric.Echo{Path: f.Path, Seq: f.Seq, Received: f.Received, Posted: f.Posted, Dry: f.Dry}
			require.True(p, t.Echo(e, f.At))
		}
	}
	return t
}

// pairCounts returns what the ledger has of the pair.
func (p *prober) pairCounts() ledger.FabricPairCounts {
	p.Helper()
	require.Len(p, p.snapshot().Fabrics, 1)
	require.Len(p, p.snapshot().Fabrics[0].Pairs, 1)
	require.EqualValues(p, 42, p.snapshot().Fabrics[0].Pairs[0].Session)
	return p.snapshot().Fabrics[0].Pairs[0].FabricPairCounts
}

func TestAPairGetsAProbeAndAWriteInEachRoundOnThePathsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "").run(2200 * time.Millisecond)
		require.Equal(t, []int64{100, 600, 1100, 1600, 2100}, p.moments(verbs.FabricSent))
		require.Equal(t, p.moments(verbs.FabricSent), p.moments(verbs.FabricWrite))
		require.Len(t, p.of(verbs.FabricEcho), 5)
		require.Len(t, p.of(verbs.FabricWriteDone), 5)
		require.Len(t, p.facts, 20)
		for i, f := range p.of(verbs.FabricEcho) {
			require.Equal(t, verbs.FabricFact{
				Kind: verbs.FabricEcho, Pair: place, Session: 42, Path: i % 4, Seq: uint64(i + 1), Received: uint64(1 + i/4), Posted: uint64(1 + i/4),
				At: f.At, Took: f.Took, Delay: f.Delay,
			}, f)
			require.Equal(t, p.of(verbs.FabricSent)[i].At+f.Took, f.At)
			require.Greater(t, f.Took, f.Delay)
			require.Positive(t, f.Delay)
			require.Less(t, f.Took, ms)
		}
		require.Equal(t, ledger.FabricPairCounts{Sent: 5, Answered: 5, Writes: 5, WritesOK: 5}, p.pairCounts())
		counts := p.snapshot().Fabrics[0].FabricCounts
		require.Equal(t, counts.Events, counts.Acked)
		require.NotZero(t, counts.Events)
	})
}

func TestFactsAreInOrderAndEqualForEqualSeeds(t *testing.T) {
	const scenario = "[[fabric]]\nloss = 0.3\n[[peer]]\nat = '20s'\nfor = '9s'\nwhat = 'busy'\n"
	var all [2][]verbs.FabricFact
	for i := range all {
		synctest.Test(t, func(t *testing.T) { all[i] = probing(t, "roce2", scenario).run(time.Minute).facts })
	}
	require.Equal(t, all[0], all[1])
	require.NotEmpty(t, all[0])
	for i, f := range all[0][1:] {
		require.GreaterOrEqual(t, f.At, all[0][i].At)
	}
}

func TestSilenceOfBothWitnessesBringsThreeProbesMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "[[fabric]]\nat = '1s'\nfor = '1500ms'\n").run(4 * time.Second)
		require.Equal(t, []int64{100, 600, 1100, 1200, 1250, 1300, 1600, 2100, 2600, 3100, 3600}, p.moments(verbs.FabricSent))
		require.Equal(t, []int64{1200}, p.moments(verbs.FabricMissing), "once")
		require.Equal(t, []int64{100, 600, 1100, 3100, 3600}, p.moments(verbs.FabricWrite), "no other while one is outstanding")
		require.Empty(t, p.of(verbs.FabricWriteFailed), "the cut was shorter than the retries")
		done := p.of(verbs.FabricWriteDone)[2]
		require.EqualValues(t, 1610, done.Took/ms, "it was sent again until it came through")
		require.Equal(t, []int64{100, 600, 2600, 3100, 3600}, p.moments(verbs.FabricEcho))
	})
}

func TestAPeerThatIsStoppedIsNotAskedMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "[[peer]]\nat = '1s'\nfor = '1900ms'\nwhat = 'stopped'\n").run(3200 * time.Millisecond)
		require.Equal(t, []int64{100, 600, 1100, 1600, 2100, 2600, 3100}, p.moments(verbs.FabricSent))
		require.Equal(t, []int64{1200}, p.moments(verbs.FabricMissing))
		require.Len(t, p.of(verbs.FabricWriteDone), 7)
		require.Equal(t, []int64{100, 600, 2900, 2900, 2900, 2900, 3100}, p.moments(verbs.FabricEcho), "what waited is echoed")
		c := p.track().Counts()
		require.Zero(t, c.Pending())
	})
}

func TestAWriteFailsWhenItsRetriesAreUsedUp(t *testing.T) {
	for profile, want := range map[string]int64{"rxe": 469, "roce2": 1879} {
		t.Run(profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := probing(t, profile, "[[fabric]]\nat = '1s'\npath = 'write'\n").run(5 * time.Second)
				failed := p.of(verbs.FabricWriteFailed)
				require.Len(t, failed, 1)
				require.Equal(t, want, failed[0].Took/ms)
				require.Equal(t, "retry_exc_err", failed[0].Status)
				require.Len(t, p.of(verbs.FabricWrite), 3, "its queue pair is in error")
				require.Len(t, p.of(verbs.FabricEcho), 10)
				require.Equal(t, ledger.FabricPairCounts{Sent: 10, Answered: 10, Writes: 3, WritesOK: 2, WriteErrors: 1}, p.pairCounts())
			})
		})
	}
}

func TestLossHasTheDirectionThatTheScenarioGivesIt(t *testing.T) {
	for _, row := range []struct{ name, scenario string }{
		{"forward", "[[fabric]]\nloss = 0.3\ndirection = 'forward'\n"},
		{"reverse", "[[fabric]]\nloss = 0.3\ndirection = 'reverse'\n"},
		{"both", "[[fabric]]\nloss = 0.3\n"},
		{"each for itself", "[[fabric]]\nloss = 0.2\ndirection = 'reverse'\n[[fabric]]\nloss = 0.4\ndirection = 'forward'\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := probing(t, "roce2", row.scenario).run(5 * time.Minute)
				pair := p.f.(*fabricEnd).pairs[place]
				var lost [2]uint64
				last := [4]uint64{} // echo of each path
				for _, f := range p.of(verbs.FabricEcho) {
					last[f.Path] = f.Seq
				}
				for _, f := range p.of(verbs.FabricSent) {
					there, _ := fate(pair.remote.ways, forward, f.Path, f.At)
					back, _ := fate(pair.remote.ways, reverse, f.Path, f.At)
					switch d := pair.remote.draw(f.Seq); {
					case f.Seq > last[f.Path]: // not proved yet
					case d.chance[0] >= there:
						lost[0]++
					case d.chance[1] >= back:
						lost[1]++
					}
				}
				c := p.track().Counts()
				require.Equal(t, lost, [2]uint64{c.ForwardLost, c.ReverseLost})
				require.Equal(t, row.name != "reverse", lost[0] > 0)
				require.Equal(t, row.name != "forward", lost[1] > 0)
				require.Zero(t, c.BusyLost+c.UnknownLost)
				require.Equal(t, c.Answered, p.pairCounts().Answered)
			})
		})
	}
}

func TestAPathThatIsBlackHoledLosesItsDatagramsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "[[fabric]]\npath = 2\n").run(8100 * time.Millisecond)
		for _, f := range p.of(verbs.FabricEcho) {
			require.NotEqual(t, 2, f.Path)
		}
		require.Len(t, p.of(verbs.FabricEcho), 12)
		require.Len(t, p.of(verbs.FabricWriteDone), 16)
	})
}

func TestADelayIsThatOfTheWayAndKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scenario = "[[fabric]]\ndelay = '20ms'\ndirection = 'forward'\n[[fabric]]\nfor = '200ms'\ndelay = '3s'\ndirection = 'reverse'\n"
		p := probing(t, "roce2", scenario).run(5200 * time.Millisecond)
		var inOrder [4][]uint64
		for _, f := range p.of(verbs.FabricEcho) {
			inOrder[f.Path] = append(inOrder[f.Path], f.Seq)
		}
		require.Equal(t, [4][]uint64{{1, 5, 9, 13}, {2, 6, 10}, {3, 7, 11}, {4, 8, 12}}, inOrder)
		first := p.of(verbs.FabricEcho)[0]
		require.EqualValues(t, 2, first.Seq)
		require.EqualValues(t, 20, first.Took/ms)
		require.EqualValues(t, 3020, p.of(verbs.FabricWriteDone)[0].Took/ms)
		c := p.track().Counts()
		require.Zero(t, c.Pending()+c.UnknownLost)
	})
}

func TestWhatAReceiveQueueCannotTakeIsNoLossOfTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "[[peer]]\nat = '1s'\nfor = '30s'\nwhat = 'worker_stopped'\n").run(40 * time.Second)
		c := p.track().Counts()
		// 60 probes came, of which 8 of each path were kept. In the second in which it went on 2 more came, and it echoed 20.
		require.EqualValues(t, 60+2-20, c.BusyLost)
		require.Zero(t, c.ForwardLost+c.ReverseLost+c.UnknownLost)
		require.Zero(t, c.Pending())
		dry := 0
		for _, f := range p.of(verbs.FabricEcho) {
			if f.Dry {
				dry++
			}
		}
		require.Equal(t, 4, dry, "once on each path")
	})
}

func TestQueuePairsThatAreNoMoreAreSilent(t *testing.T) {
	for _, what := range []string{"down", "restarts", "inactive"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := probing(t, "roce2", "[[peer]]\nat = '1s'\nfor = '10ms'\nwhat = '"+what+"'\n").run(8 * time.Second)
				require.Equal(t, []int64{100, 600}, p.moments(verbs.FabricEcho))
				require.Len(t, p.of(verbs.FabricWriteFailed), 1)
				old := p.peer.UD
				p.facts, p.peer = nil, p.meet("b", p.f)
				require.NotEqual(t, old, p.peer.UD)
				p.run(10 * time.Second)
				require.Len(t, p.of(verbs.FabricEcho), 4)
				require.Equal(t, ledger.FabricPairCounts{Sent: 4, Answered: 4, Writes: 4, WritesOK: 4}, p.pairCounts(), "counted anew")
			})
		})
	}
}

func TestAPeerThatProbesIsEchoedAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "roce2", "[[peer]]\nat = '2s'\nfor = '2s'\nwhat = 'stopped'\n")
		f, _ := s.fabric(1)
		_, err := f.Offer(place, verbs.FabricAnswers)
		require.NoError(t, err)
		q := s.w.Peer("b").Ports(fakeTime())[0]
		require.NoError(t, f.Join(place, &verbs.FabricPeer{
			Host: "b", Device: "sim0", Port: 1, Role: verbs.FabricAnswers, Session: 42, UD: q.UD, QKey: q.QKey, First: 100 * time.Millisecond,
		}))
		facts, _, err := runFabric(f, 6050*time.Millisecond)
		require.NoError(t, err)
		require.Empty(t, facts)
		counts := s.snapshot().Fabrics[0].FabricCounts
		require.EqualValues(t, 8, counts.Echoed)
		require.Zero(t, counts.Refused+counts.Foreign+counts.Dry)
	})
}

func TestFabricsOfOneWorldProbeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "roce2", "")
		a, pa := s.fabric(1)
		dev, led := s.open("sim1")
		b, pb, err := dev.NewFabric(s.config(1))
		require.NoError(t, err)
		ra, err := a.Offer(0, verbs.FabricProbes)
		require.NoError(t, err)
		rb, err := b.Offer(7, verbs.FabricAnswers)
		require.NoError(t, err)
		require.NoError(t, b.Join(7, &verbs.FabricPeer{Role: verbs.FabricAnswers, Session: 1, UD: pa.UD, QKey: pa.QKey, RC: ra}))
		require.NoError(t, a.Join(0, &verbs.FabricPeer{Session: 1, UD: pb.UD, QKey: pb.QKey, RC: rb}))

		done := make(chan error)
		go func() { _, _, err := runFabric(b, 5*time.Second); done <- err }()
		facts, _, err := runFabric(a, 1900*time.Millisecond)
		require.NoError(t, err)
		require.Len(t, facts, 16)
		require.NoError(t, b.Leave(7))
		facts, _, err = runFabric(a, 10*time.Second)
		require.NoError(t, err)
		require.Len(t, facts, 4)
		require.Equal(t, verbs.FabricMissing, facts[2].Kind)
		_, _, err = runFabric(a, 200*time.Millisecond)
		require.NoError(t, err)
		require.NoError(t, <-done)

		var snap ledger.Snapshot
		led.Snapshot(&snap)
		require.EqualValues(t, 4, snap.Fabrics[0].Echoed)
		require.EqualValues(t, 4, snap.Fabrics[0].Foreign, "the probe that was missed, and three more")
	})
}

func TestAProberThatWokeLateDoesNotBlameItsPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "[[fabric]]\nat = '1s'\n").run(1150 * time.Millisecond)
		time.Sleep(400 * time.Millisecond)
		facts, upTo, err := runFabric(p.f, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []verbs.FabricFact{{Kind: verbs.FabricLate, Pair: -1, At: fakeTime(), Took: 350 * ms}}, facts)
		require.Equal(t, fakeTime(), upTo)
		p.facts = nil
		p.run(1650 * time.Millisecond)
		require.Equal(t, []int64{1650}, p.moments(verbs.FabricMissing))
	})
}

func TestANudgeEndsRunAndCloseEndsItForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "")
		p.f.Nudge()
		facts, upTo, err := runFabric(p.f, time.Minute)
		require.NoError(t, err)
		require.Empty(t, facts)
		require.Equal(t, p.began, upTo)

		time.AfterFunc(time.Second, func() { require.NoError(t, p.f.Close(time.Second)) })
		facts, upTo, err = runFabric(p.f, time.Minute)
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
		p := probing(t, "roce2", "")
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
		p := probing(t, "roce2", "")
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
		require.Len(t, p.run(time.Second).of(verbs.FabricEcho), 2, "what ran goes on")
		require.NoError(t, p.f.Leave(place))
		require.NoError(t, p.f.Leave(place))
		require.Len(t, p.run(3*time.Second).of(verbs.FabricEcho), 2)
	})
}

func TestAFabricOnAPortWithoutLinkHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "[[link]]\nat = '1s'\ndown_for = '1s'\ndevice = 'sim0'\n").run(3 * time.Second)
		require.Equal(t, []int64{100, 600, 2100, 2600}, p.moments(verbs.FabricEcho))
		require.NoError(t, p.w.SetLink("sim0", 1, false))
		_, _, err := p.dev.NewFabric(p.config(1))
		require.ErrorIs(t, err, verbs.ErrUnsupported)
		require.NotErrorIs(t, err, verbs.ErrNeverFabric)
	})
}

func TestAFabricOfARemovedDeviceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "[[fault]]\nkind = 'removed'\nat = '1s'\nfor = '5s'\n").run(900 * time.Millisecond)
		time.Sleep(200 * time.Millisecond)
		_, _, err := runFabric(p.f, time.Second)
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		_, err = p.f.Offer(0, verbs.FabricProbes)
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		_, _, err = p.dev.NewFabric(p.config(1))
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		require.NoError(t, p.f.Close(time.Second))
	})
}

func TestARunThatHangsIsSeenInTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probing(t, "roce2", "[[fault]]\nkind = 'hang_fabric'\nat = '1s'\nfor = '20s'\n")
		done := make(chan error)
		go func() { _, _, err := runFabric(p.f, 5*time.Second); done <- err }()
		time.Sleep(10 * time.Second)
		lane := p.snapshot().Fabrics[0].Lane
		require.Equal(t, ledger.CallPostSend, lane.Call)
		require.ErrorIs(t, p.f.Close(time.Second), verbs.ErrStuck)
		require.ErrorIs(t, <-done, verbs.ErrClosed)
	})
}

func TestEachKindOfPortIsReachedInItsWay(t *testing.T) {
	v4 := netip.MustParseAddr("10.4.0.1").As16()
	s := play(t, "roce2", "")
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

	c := s.config(1)
	c.GIDIndex = 1
	_, port, err := s.dev.NewFabric(c)
	require.NoError(t, err)
	require.Equal(t, 1, port.GIDs[0].Index)
	require.Len(t, port.GIDs, 1)

	_, port = play(t, "ib8", "").fabric(1)
	require.Equal(t, verbs.LinkInfiniBand, port.LinkLayer)
	require.Equal(t, 10, port.LID)
	require.EqualValues(t, 0xffff, port.PKey)
}

func TestAPortThatCannotProbeHostsSaysWhetherItEverCan(t *testing.T) {
	for _, profile := range []string{"iwarp", "siw", "efa", "mana", "qedr"} {
		s := play(t, profile, "")
		_, _, err := s.dev.NewFabric(s.config(1))
		require.ErrorIs(t, err, verbs.ErrNeverFabric, profile)
		require.Empty(t, s.w.Peer("b").Ports(fakeTime()))
	}
	s := play(t, "roce2", "")
	for name, change := range map[string]func(*verbs.FabricConfig){
		"no such port":      func(c *verbs.FabricConfig) { c.Port = 2 },
		"too many paths":    func(c *verbs.FabricConfig) { c.Paths = 5 },
		"no such P_Key":     func(c *verbs.FabricConfig) { c.PKeyIndex = 1 },
		"a GID of RoCE v1":  func(c *verbs.FabricConfig) { c.GIDIndex = 0 },
		"no GID of RoCE v2": func(c *verbs.FabricConfig) { c.GIDIndex = 9 },
	} {
		c := s.config(1)
		change(&c)
		_, _, err := s.dev.NewFabric(c)
		require.ErrorIs(t, err, verbs.ErrUnsupported, name)
		require.NotErrorIs(t, err, verbs.ErrNeverFabric, name)
	}
}
