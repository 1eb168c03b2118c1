package endpoint

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

func TestWithoutPathsNothingIsMadeForAFabric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Options.Fabric.Paths = 0
		r.Start(nil)
		items := r.After(time.Hour)
		require.Empty(t, fabricPorts(items))
		require.Empty(t, factsOf(items))
		require.Empty(t, r.attemptDelays(time.Time{}))
		_, err := r.orders.Do(t.Context(), verbs.FabricOrder{Port: 1, Offer: true})
		require.ErrorIs(t, err, verbs.ErrNoFabric)

		require.Nil(t, New(&r.orders)(&fakeSession{options: r.Options}), "no goroutine either")
	})
}

// fakeSession is a Session of a device whose ports are active.
type fakeSession struct {
	session.Session
	options verbs.Options
	facts   []verbs.FabricFacts // facts that were sent
}

func (s *fakeSession) Options() verbs.Options { return s.options }

func (*fakeSession) Port(int) session.PortInfo { return session.PortInfo{State: verbs.PortActive} }

func (s *fakeSession) SendFacts(f verbs.FabricFacts) bool {
	f.Facts = slices.Clone(f.Facts)
	s.facts = append(s.facts, f)
	return true
}

func TestTheFabricOfAnActivePortIsAnnouncedAfterItsBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "dual", "")
		r.Start(nil)
		items := r.After(100 * time.Millisecond)
		announced := fabricPorts(items)
		require.Len(t, announced, 2)
		baseline := slices.IndexFunc(items, func(i verbs.Item) bool { return i.FabricPort != nil })
		require.Len(t, sessiontest.Readings(items[:baseline]), 2)
		require.ElementsMatch(t, []int{1, 2}, []int{announced[0].Port, announced[1].Port})
		require.NotEqual(t, announced[0].Epoch, announced[1].Epoch)
		for _, at := range announced {
			require.NotZero(t, at.Epoch)
			require.Empty(t, at.Reason)
			require.Equal(t, []uint32{17, 18}, at.UD)
			require.EqualValues(t, 7, at.QKey)
		}
		last, n := r.lastFabric()
		require.Equal(t, 2, n)
		require.Equal(t, r.Options.Fabric, last.config.FabricOptions)
		require.Empty(t, fabricPorts(r.After(time.Hour)), "and goes on")
	})
}

func TestAnEpochIsNeverZero(t *testing.T) {
	left := []uint64{0, 0, 7}
	require.EqualValues(t, 7, newEpoch(func() uint64 {
		next := left[0]
		left = left[1:]
		return next
	}))
}

func TestAPortThatGoesDownHasNoFabricUntilItIsUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		epoch := fabricPorts(r.After(time.Minute))[0].Epoch
		require.NoError(t, r.World.SetLink("sim0", 1, false))
		down := time.Now()
		require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: "the port is down"}}, fabricPorts(r.After(queryDelay)))
		first, n := r.lastFabric()
		require.Equal(t, 1, n)
		require.True(t, first.closed.Load())
		require.LessOrEqual(t, first.closedAt.Sub(down), queryDelay)
		items := r.After(time.Hour)
		require.Empty(t, fabricPorts(items), "it is announced once")
		require.Empty(t, factsOf(items))

		require.NoError(t, r.World.SetLink("sim0", 1, true))
		announced := fabricPorts(r.After(queryDelay))
		require.Len(t, announced, 1, "it has rested")
		require.NotZero(t, announced[0].Epoch)
		require.NotEqual(t, epoch, announced[0].Epoch)
	})
}

func TestAPortRestsForASecondAfterItsFabric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(time.Minute)
		began := time.Now()
		for i := range 1000 { // it flaps for ten seconds
			require.NoError(t, r.World.SetLink("sim0", 1, i%2 == 1))
			r.After(10 * time.Millisecond)
		}
		r.After(time.Minute)
		_, n := r.lastFabric()
		require.Greater(t, n, 2)
		r.locked(func() {
			for i, one := range r.made[:n-1] {
				require.GreaterOrEqual(t, r.attempts[i+1].Sub(one.closedAt), restTime)
			}
		})
		require.LessOrEqual(t, len(r.attemptDelays(began)), 11)
	})
}

func TestAnErrorOfAFabricIsAnnouncedAndAnotherIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(time.Minute)
		last, _ := r.lastFabric()
		failed := time.Now()
		last.errs <- verbs.NewOpError("ibv_poll_cq", "sim0", 1, unix.EINVAL)
		announced := fabricPorts(r.After(999 * time.Millisecond))
		require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: "ibv_poll_cq sim0 port 1: invalid argument"}}, announced)
		require.True(t, last.closed.Load())
		require.NotZero(t, fabricPorts(r.After(time.Millisecond))[0].Epoch)
		require.Equal(t, []time.Duration{restTime}, r.attemptDelays(failed))
	})
}

func TestFactsThatComeWithAnErrorAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s fakeSession
		f := newPortFabric(&s, 1, nil)
		why, err := f.keepRunning(t.Context(), lastFacts{})
		require.NoError(t, err)
		require.Equal(t, unix.EINVAL.Error(), why)
		require.Equal(t, sentFacts(1, 2), s.facts[0].Facts)
	})
}

type lastFacts struct{ verbs.FabricEndpoint }

func (lastFacts) Run(facts []verbs.FabricFact, _ time.Duration) (int, int64, error) {
	return copy(facts, sentFacts(1, 2)), 1, unix.EINVAL
}

func TestTheRemovalOfTheDeviceEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(time.Minute)
		last, _ := r.lastFabric()
		last.errs <- verbs.NewOpError("ibv_poll_cq", "sim0", 1, verbs.ErrNoDevice)
		<-r.Done
		require.NoError(t, r.Err)
		require.Equal(t, status.ReasonRemoved, r.Why.Reason)
	})
}

func TestTheHostHearsThatThereAreNoFabricsBeforeTheDeviceIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		require.NotZero(t, fabricPorts(r.After(time.Minute))[0].Epoch)
		var heard []verbs.FabricPort
		r.locked(func() {
			r.closing = func() error {
				heard = fabricPorts(r.Sent())
				return nil
			}
		})
		last, _ := r.lastFabric()
		last.errs <- verbs.NewOpError("ibv_poll_cq", "sim0", 1, verbs.ErrNoDevice)
		<-r.Done
		require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: "the device is being closed"}}, heard)
	})
}

func TestAttemptsThatFailAreMadeLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.refuse = fmt.Errorf("%w: the port has no RoCE v2 GID", verbs.ErrUnsupported)
		r.Start(nil)
		began := time.Now()
		items := r.After(10 * time.Minute)
		require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: r.refuse.Error()}}, fabricPorts(items), "it is announced once")
		after := r.attemptDelays(began)
		var rests []time.Duration
		for i := range after[1:] {
			rests = append(rests, after[i+1]-after[i])
		}
		second := time.Second
		require.Equal(t, []time.Duration{second, 2 * second, 4 * second, 8 * second, 16 * second, 32 * second, time.Minute, time.Minute}, rests[:8])

		changed := time.Now() // the GID is added
		r.locked(func() { r.refuse = nil })
		r.setGIDs(verbs.GID{Index: 3, Type: verbs.GIDRoCEv2, Raw: [16]byte{0x20, 1}})
		require.NotZero(t, fabricPorts(r.After(time.Second))[0].Epoch)
		require.Len(t, r.attemptDelays(changed), 1)
	})
}

func TestAChangeOfThePortBeginsTheRestsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.refuse = verbs.ErrLimit
		r.Start(nil)
		r.After(10 * time.Minute)
		changed := time.Now()
		require.NoError(t, r.World.Inject("sim0", verbs.EventPKeyChange, 1, 1))
		r.After(4 * time.Second)
		after := r.attemptDelays(changed)
		require.GreaterOrEqual(t, len(after), 3)
		require.LessOrEqual(t, after[0], queryDelay)
		require.Equal(t, time.Second, after[1]-after[0])
	})
}

func TestAFabricThatWasMadeBeginsTheRestsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.refuse = verbs.ErrLimit
		r.Start(nil)
		r.After(10 * time.Minute)
		r.locked(func() { r.refuse = nil })
		r.After(time.Minute)
		last, n := r.lastFabric()
		require.Equal(t, 1, n)
		r.locked(func() { r.refuse = verbs.ErrLimit })
		failed := time.Now()
		last.errs <- unix.EINVAL
		r.After(5 * time.Second)
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, r.attemptDelays(failed))
	})
}

func TestAnotherFabricDoesNotInheritASilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(time.Minute)
		first, _ := r.lastFabric()
		first.report(newFact(verbs.FabricMissing, 0))
		first.errs <- unix.EINVAL
		r.After(restTime)
		second, n := r.lastFabric()
		require.Equal(t, 2, n)
		r.After(0)
		r.After(900 * time.Millisecond)
		require.Equal(t, []time.Duration{runTime, runTime}, second.takeRunTimes())
	})
}

func TestADeviceThatNeverCanIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.refuse = verbs.NewOpError("new fabric", "sim0", 1, verbs.ErrNeverFabric)
		r.Start(nil)
		items := r.After(time.Minute)
		require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: r.refuse.Error(), Unable: true}}, fabricPorts(items))
		require.NoError(t, r.World.SetLink("sim0", 1, false))
		r.After(time.Minute)
		require.NoError(t, r.World.SetLink("sim0", 1, true))
		items = r.After(time.Hour)
		require.Empty(t, fabricPorts(items))
		require.Len(t, r.attemptDelays(time.Time{}), 1)
		require.NotEmpty(t, sessiontest.Readings(items), "the watch goes on")
		_, err := r.orders.Do(t.Context(), verbs.FabricOrder{Port: 1, Offer: true})
		require.ErrorIs(t, err, verbs.ErrNoFabric)
	})
}

// The host relies on receiving all facts of an epoch.
func TestWhenFactsAreLostAnotherEpochBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Options.StateInterval = 0
		release, blocked := make(chan struct{}), false
		r.Start(func(b verbs.Batch) error {
			if facts := factsOf(b.Items); len(facts) > 0 && len(facts[0].Facts) > 0 && !blocked {
				blocked = true
				<-release
			}
			return r.Collect(b)
		})
		epoch := fabricPorts(r.After(100 * time.Millisecond))[0].Epoch
		first, _ := r.lastFabric()
		var seq uint64
		for !first.closed.Load() {
			seq++
			select {
			case first.results <- slices.Repeat(sentFacts(seq), 1000):
			case <-first.ended:
			}
			synctest.Wait()
		}
		r.After(time.Minute)
		_, n := r.lastFabric()
		require.Equal(t, 1, n, "another one would lose its facts too")
		close(release)
		items := r.After(2 * time.Second)
		var kept uint64
		for _, facts := range factsOf(items) {
			if facts.Epoch != epoch || len(facts.Facts) == 0 {
				continue
			}
			kept++
			require.Equal(t, kept, facts.Facts[0].Seq, "without a gap")
		}
		require.Less(t, kept, seq)
		announced := fabricPorts(items)
		require.Len(t, announced, 2)
		require.Equal(t, verbs.FabricPort{Port: 1, Reason: "the host does not read what the port sees"}, announced[0])
		require.NotZero(t, announced[1].Epoch)
		require.NotEqual(t, epoch, announced[1].Epoch)
	})
}
