package verbs

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAnOrderIsAnsweredByWhoeverTakesIt(t *testing.T) {
	var o FabricOrders
	stop := o.Handle(func(r FabricRequest) { r.Answer(uint32(r.Pair), ErrLimit) })
	rc, err := o.Do(t.Context(), FabricOrder{Pair: 7})
	require.EqualValues(t, 7, rc)
	require.ErrorIs(t, err, ErrLimit)
	stop()
	stop()
	_, err = o.Do(t.Context(), FabricOrder{})
	require.ErrorIs(t, err, ErrNoFabric)
}

func TestAnOrderThatNobodyTakesIsRefused(t *testing.T) {
	var o FabricOrders
	_, err := o.Do(t.Context(), FabricOrder{})
	require.ErrorIs(t, err, ErrNoFabric)
}

func TestAnOrderUnderWayWaitsNoLongerThanItsSenderOrTaker(t *testing.T) {
	for _, byTaker := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var o FabricOrders
			var taken FabricRequest
			stop := o.Handle(func(r FabricRequest) { taken = r })
			defer stop()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := o.Do(ctx, FabricOrder{})
				ended <- err
			}()
			synctest.Wait()
			require.Empty(t, ended)
			if byTaker {
				stop()
				require.ErrorIs(t, <-ended, ErrNoFabric)
			} else {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
				<-taken.Void
			}
			taken.Answer(1, nil) // does not block, though no sender waits
		})
	}
}
