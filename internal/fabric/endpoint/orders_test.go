package endpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// orderResult is the result of an order.
type orderResult struct {
	rc  uint32
	err error
}

// startOrder sends an order in another goroutine.
func (f *fabricRig) startOrder(ctx context.Context, o verbs.FabricOrder) <-chan orderResult {
	answers := make(chan orderResult, 1)
	go func() {
		rc, err := f.orders.Do(ctx, o)
		answers <- orderResult{rc, err}
	}()
	synctest.Wait()
	return answers
}

// openFabric starts the session and returns the Fabric of its port and the epoch.
func (f *fabricRig) openFabric() (*fakeFabric, uint64) {
	f.Start(nil)
	announced := fabricPorts(f.After(100 * time.Millisecond))
	last, _ := f.lastFabric()
	return last, announced[len(announced)-1].Epoch
}

func TestOrdersReachTheFabricOfTheirPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		fabric, epoch := r.openFabric()
		peer := &verbs.FabricPeer{Host: "gpu042", UD: []uint32{5, 6}, RC: 9}
		var calls []string
		fabric.offer = func(pair int, role verbs.FabricRole) (uint32, error) {
			require.Equal(t, 63, pair)
			require.Equal(t, verbs.FabricAnswers, role)
			calls = append(calls, "offer")
			return 4711, nil
		}
		fabric.join = func(pair int, to *verbs.FabricPeer) error {
			require.Equal(t, 63, pair)
			require.Equal(t, peer, to)
			calls = append(calls, "join")
			return nil
		}
		failed := errors.New("failed")
		fabric.leave = func(pair int) error {
			require.Equal(t, 63, pair)
			calls = append(calls, "leave")
			return failed
		}
		o := verbs.FabricOrder{Port: 1, Epoch: epoch, Pair: 63}
		offer, join := o, o
		offer.Offer, offer.Role, join.Peer = true, verbs.FabricAnswers, peer
		require.Equal(t, orderResult{rc: 4711}, <-r.startOrder(t.Context(), offer))
		require.Equal(t, orderResult{}, <-r.startOrder(t.Context(), join))
		require.Equal(t, orderResult{err: failed}, <-r.startOrder(t.Context(), o))
		require.Equal(t, []string{"offer", "join", "leave"}, calls)
	})
}

func TestAnOrderForAFabricThatIsNotThereIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		_, epoch := r.openFabric()
		for _, o := range []verbs.FabricOrder{
			{Port: 1, Epoch: epoch + 1}, {Port: 1}, {Port: 2, Epoch: epoch}, {Port: 0, Epoch: epoch},
		} {
			require.ErrorIs(t, (<-r.startOrder(t.Context(), o)).err, verbs.ErrNoFabric)
		}
		require.NoError(t, r.World.SetLink("sim0", 1, false))
		r.After(time.Second)
		require.ErrorIs(t, (<-r.startOrder(t.Context(), verbs.FabricOrder{Port: 1, Epoch: epoch})).err, verbs.ErrNoFabric)
		require.ErrorIs(t, (<-r.startOrder(t.Context(), verbs.FabricOrder{Port: 1})).err, verbs.ErrNoFabric)
	})
}

func TestAnOrderThatNoFabricCanCarryOutIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		_, epoch := r.openFabric()
		o := verbs.FabricOrder{Port: 1, Epoch: epoch, Offer: true}
		for _, pair := range []int{-1, verbs.MaxFabricPairs} {
			o.Pair = pair
			require.ErrorContains(t, (<-r.startOrder(t.Context(), o)).err, "the last one is 63")
		}
		for _, paths := range []int{0, 3} {
			o := verbs.FabricOrder{Port: 1, Epoch: epoch, Peer: &verbs.FabricPeer{UD: make([]uint32, paths)}}
			require.ErrorContains(t, (<-r.startOrder(t.Context(), o)).err, "the port has 2")
		}
	})
}

// The kernel may take seconds to resolve a peer's address.
func TestAnOrderThatBlocksHoldsUpNeitherEchoesNorOtherPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "dual", "")
		r.Start(nil)
		announced := fabricPorts(r.After(100 * time.Millisecond))
		blocked := make(chan struct{})
		first, second := announced[0], announced[1]
		for _, one := range r.made {
			if one.config.Port == first.Port {
				one.offer = func(int, verbs.FabricRole) (uint32, error) {
					<-blocked
					return 1, nil
				}
			}
		}
		one := r.startOrder(t.Context(), verbs.FabricOrder{Port: first.Port, Epoch: first.Epoch, Offer: true})
		two := r.startOrder(t.Context(), verbs.FabricOrder{Port: first.Port, Epoch: first.Epoch, Pair: 1})
		other := r.startOrder(t.Context(), verbs.FabricOrder{Port: second.Port, Epoch: second.Epoch, Pair: 1, Offer: true})
		require.Equal(t, orderResult{rc: 101}, <-other)
		require.Len(t, factsOf(r.After(10*time.Second)), 40, "of both ports")
		require.Empty(t, one)
		require.Empty(t, two, "orders of a port are carried out one at a time")
		close(blocked)
		require.Equal(t, orderResult{rc: 1}, <-one)
		require.Equal(t, orderResult{}, <-two)
	})
}

func TestAFabricIsClosedWhenTheOrderThatIsUnderWayHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		fabric, epoch := r.openFabric()
		blocked := make(chan struct{})
		fabric.join = func(int, *verbs.FabricPeer) error {
			<-blocked
			return nil
		}
		o := verbs.FabricOrder{Port: 1, Epoch: epoch, Peer: &verbs.FabricPeer{UD: []uint32{5}}}
		underWay, waits := r.startOrder(t.Context(), o), r.startOrder(t.Context(), o)
		require.NoError(t, r.World.SetLink("sim0", 1, false))
		announced := fabricPorts(r.After(time.Second))
		require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: "the port is down"}}, announced)
		require.ErrorIs(t, (<-waits).err, verbs.ErrNoFabric, "at once")
		require.ErrorIs(t, (<-r.startOrder(t.Context(), o)).err, verbs.ErrNoFabric)
		require.False(t, fabric.closed.Load())
		close(blocked)
		require.Equal(t, orderResult{}, <-underWay)
		r.After(0)
		require.True(t, fabric.closed.Load())
	})
}

// An offer is not begun when its sender has given up. A pair ends nevertheless: no further order would end it.
func TestAnOrderWhoseSenderHasGivenUpIsNotBegunUnlessItEndsAPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		fabric, epoch := r.openFabric()
		blocked := make(chan struct{})
		var calls []string
		fabric.offer = func(pair int, _ verbs.FabricRole) (uint32, error) {
			<-blocked
			calls = append(calls, fmt.Sprint("offer ", pair))
			return 1, nil
		}
		fabric.leave = func(pair int) error {
			calls = append(calls, fmt.Sprint("leave ", pair))
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := r.startOrder(t.Context(), verbs.FabricOrder{Port: 1, Epoch: epoch, Offer: true})
		void := r.startOrder(ctx, verbs.FabricOrder{Port: 1, Epoch: epoch, Pair: 1, Offer: true})
		leave := r.startOrder(ctx, verbs.FabricOrder{Port: 1, Epoch: epoch, Pair: 2})
		cancel()
		require.ErrorIs(t, (<-void).err, context.Canceled)
		require.ErrorIs(t, (<-leave).err, context.Canceled)
		require.ErrorIs(t, (<-r.startOrder(ctx, verbs.FabricOrder{Port: 1, Epoch: epoch, Pair: 3})).err, context.Canceled)
		again := r.startOrder(t.Context(), verbs.FabricOrder{Port: 1, Epoch: epoch, Pair: 2, Offer: true})
		close(blocked)
		require.NoError(t, (<-first).err)
		require.NoError(t, (<-again).err)
		require.Equal(t, []string{"offer 0", "leave 2", "offer 2"}, calls, "a leave that was not sent in time cannot end a later pair")
	})
}

func TestOrdersThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		fabric, epoch := r.openFabric()
		blocked := make(chan struct{})
		fabric.leave = func(int) error {
			<-blocked
			return nil
		}
		var waiting []<-chan orderResult
		for range 1 + maxQueuedOrders {
			waiting = append(waiting, r.startOrder(t.Context(), verbs.FabricOrder{Port: 1, Epoch: epoch}))
		}
		require.ErrorIs(t, (<-r.startOrder(t.Context(), verbs.FabricOrder{Port: 1, Epoch: epoch})).err, verbs.ErrLimit)
		close(blocked)
		for _, one := range waiting {
			require.NoError(t, (<-one).err)
		}
	})
}

func TestNoOrderBeginsWhileACommandHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHangingRig(t)
		_, epoch := r.openFabric()
		r.After(31 * time.Second)
		waits := r.startOrder(t.Context(), verbs.FabricOrder{Port: 1, Epoch: epoch, Offer: true})
		r.After(18 * time.Second)
		require.Empty(t, waits)
		r.After(2 * time.Second)
		require.Equal(t, orderResult{rc: 100}, <-waits)
	})
}

func TestTheEndOfAWatchAnswersTheOrdersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		fabric, epoch := r.openFabric()
		fabric.offer = func(int, verbs.FabricRole) (uint32, error) {
			<-fabric.ended // like a blocked call that Close wakes
			return 0, verbs.ErrClosed
		}
		o := verbs.FabricOrder{Port: 1, Epoch: epoch, Offer: true}
		underWay, waits := r.startOrder(t.Context(), o), r.startOrder(t.Context(), o)
		r.Stop()
		<-r.Done
		require.ErrorIs(t, r.Err, context.Canceled)
		require.NotErrorIs(t, r.Err, verbs.ErrStuck)
		require.ErrorIs(t, (<-underWay).err, verbs.ErrNoFabric)
		require.ErrorIs(t, (<-waits).err, verbs.ErrNoFabric)
		require.ErrorIs(t, (<-r.startOrder(t.Context(), o)).err, verbs.ErrNoFabric)
	})
}

// The kernel waits a second for the resolution of a peer's address, and the removal of the device waits for the end of the session.
func TestAnAddressThatIsBeingResolvedDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		fabric, epoch := r.openFabric()
		resolved := make(chan struct{})
		fabric.join = func(int, *verbs.FabricPeer) error {
			<-resolved
			return verbs.ErrClosed
		}
		r.closing = func() error { return verbs.ErrResolving }
		underWay := r.startOrder(t.Context(), verbs.FabricOrder{Port: 1, Epoch: epoch, Peer: &verbs.FabricPeer{UD: []uint32{5}}})
		require.NoError(t, r.World.SetLink("sim0", 1, false)) // so that the Fabric has to be closed too
		r.After(time.Second)
		began := time.Now()
		r.Stop()
		<-r.Done
		require.ErrorIs(t, r.Err, context.Canceled)
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, (<-underWay).err, verbs.ErrNoFabric)
		require.False(t, fabric.closed.Load())
		close(resolved)
	})
}
