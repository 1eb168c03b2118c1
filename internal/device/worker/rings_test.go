package worker

import (
	"context"
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/status"
)

// mapLedger maps the shared ledger like a worker.
func mapLedger(t *testing.T, shared *os.File) *ledger.Ledger {
	t.Helper()
	theirs, err := ledger.Open(shared)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, theirs.Close()) })
	return theirs
}

// Each item is checked where it enters the host: an entry of a ring when it is read, and an item of the stream before that.
func TestItemsOfTheStreamAreNotCheckedAgain(t *testing.T) {
	_, begun, _, shared := newAttempt(t)
	theirs, a := mapLedger(t, shared), begun.(*attempt)
	var refusals []error
	a.setRefuse(func(why error) { refusals = append(refusals, why) })
	slot, err := theirs.AddProbe(1, 0, int(verbs.MethodUDSend))
	require.NoError(t, err)
	theirs.WriteRun(ledger.Run{Type: int32(verbs.EventPortErr), Port: 1, Count: 1, First: 1, Last: math.MaxInt64})
	theirs.WriteRun(ledger.Run{Type: int32(verbs.EventPortErr), Port: 300, Count: 1, First: 1, Last: 1})
	theirs.WriteRound(slot, ledger.Round{Outcome: 77}, true)
	theirs.WriteRound(slot, ledger.Round{Start: -1}, true)
	require.True(t, theirs.WriteCommand(ledger.Command{Call: 256 + uint32(verbs.CommandQueryQP), Port: 1}), "only its low bits are those of a call")
	require.True(t, theirs.WriteCommand(ledger.Command{Call: uint32(verbs.CommandQueryQP), Port: 1, Mono: -1}))

	items := a.mergeRings([]verbs.Item{
		{Reading: &verbs.Reading{Port: 300, Mono: math.MaxInt64}}, {Command: &verbs.Command{Port: 1, Call: 99, Took: -1}},
	})

	now := clock.Monotonic()
	require.Len(t, items, 5)
	require.Equal(t, &verbs.Command{Call: verbs.CommandQueryQP, Port: 1}, items[0].Command)
	require.Equal(t, &verbs.Reading{Port: 300, Mono: math.MaxInt64}, items[1].Reading, "as it came in the stream")
	require.Equal(t, &verbs.Command{Port: 1, Call: 99, Took: -1}, items[2].Command, "as it came in the stream")
	require.EqualValues(t, 1, items[3].Run.Count)
	require.Equal(t, 1, items[3].Run.Port)
	require.LessOrEqual(t, items[3].Run.Last, now)
	require.Equal(t, verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodUDSend}}, *items[4].Round)
	require.Len(t, refusals, 1)
	require.ErrorIs(t, refusals[0], ErrRefused)
	require.ErrorContains(t, refusals[0], "command 255", "the first of them")
	a.Ended(status.End{})
}

func TestStreamEndsAtAnItemThatCannotBe(t *testing.T) {
	sent := make(chan error, 1)
	conn, ends := dialService(t, &service{watch: newWatch(func(ctx context.Context, _ verbs.Options, send sender) error {
		if err := send(openedBatch()); err != nil {
			return err
		}
		sent <- send(verbs.Batch{Items: []verbs.Item{{Reading: &verbs.Reading{Port: 300}}}})
		<-ctx.Done()
		return ctx.Err()
	})})
	_, a, n, _ := newAttempt(t)
	var taken []message
	err := a.(*attempt).Stream(t.Context(), conn, func(m message) error {
		taken = append(taken, m)
		a.Take(m, status.Status{})
		return nil
	})
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "port 300")
	require.NoError(t, <-sent)
	require.Len(t, taken, 1, "the message with the item is not handed on")
	require.Equal(t, []string{"started", "batch, "}, n.calls)
	require.False(t, <-ends)
	a.Ended(status.End{})
}

// Whatever a worker writes into its rings, the host's points can be written, and their ports and probes are possible.
func FuzzNoEntryOfARingReachesBeyondItsDevice(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0a\x00\x00\x00\x00\x00\x00\x00\x01 an entry of a ring, in eights of bytes, and of the others behind it"))
	long := make([]byte, 400)
	for i := range long {
		long[i] = byte(i) | 0x80
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in []byte) {
		_, begun, _, shared := newAttempt(t)
		theirs, a := mapLedger(t, shared), begun.(*attempt)
		c := (*byteSource)(&in)
		slot, err := theirs.AddProbe(int(int32(c.bits())), int(int32(c.bits())), int(int32(c.bits()%5)))
		require.NoError(t, err)
		for range c.bits() % 4 {
			theirs.WriteRun(*drawValue[ledger.Run](c))
			theirs.WriteRound(slot, *drawValue[ledger.Round](c), false)
			theirs.WriteCommand(*drawValue[ledger.Command](c))
		}
		items := a.mergeRings(nil)
		now := clock.Monotonic()
		for _, it := range items {
			switch {
			case it.Run != nil:
				requirePossible(t, it.Run.Port, now, it.Run.First, it.Run.Last, it.Run.HoldMax, it.Run.AckMax)
				require.Less(t, it.Run.Count, uint64(ledger.ImplausibleCount))
			case it.Round != nil:
				r := it.Round
				requirePossible(t, r.Port, now, r.Start, r.Wake, r.Get, r.Arm, r.Drain, r.Hold, r.Ack, r.Total)
				require.Contains(t, []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush}, r.Method)
				require.GreaterOrEqual(t, r.Vector, 0)
			case it.Command != nil:
				requirePossible(t, it.Command.Port, now, it.Command.Mono, it.Command.Took)
			default:
				t.Fatalf("an item that no ring has: %+v", it)
			}
		}
		requireBounded(t, reflect.ValueOf(items))
		a.Ended(status.End{})
	})
}

// requirePossible requires that the port of an item is possible, and that its timestamps are between the boot and now.
func requirePossible(t *testing.T, port int, now int64, stamps ...int64) {
	t.Helper()
	require.GreaterOrEqual(t, port, 0)
	require.LessOrEqual(t, port, 255)
	for _, ns := range stamps {
		require.GreaterOrEqual(t, ns, int64(0))
		require.LessOrEqual(t, ns, now)
	}
}
