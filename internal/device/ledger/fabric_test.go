package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostReadsWhatTheFabricOfAPortCounts(t *testing.T) {
	l := newLedger(t)
	i, err := l.AddFabric(2)
	require.NoError(t, err)
	l.AddFabricCounts(i, FabricCounts{Events: 3, Acked: 2, Spurious: 1, Echoed: 4, Refused: 5, Foreign: 6, Dry: 7})
	l.AddFabricCounts(i, FabricCounts{Events: 1})
	l.JoinFabricPair(i, 63, 42)
	var counts FabricPairCounts
	for k := range counts.asArray() {
		counts.asArray()[k] = uint64(100 - k)
	}
	l.AddFabricPairCounts(i, 63, counts)

	var s Contents
	l.CopyTo(&s)
	require.Equal(t, []FabricState{{
		Port:         2,
		FabricCounts: FabricCounts{Events: 4, Acked: 2, Spurious: 1, Echoed: 4, Refused: 5, Foreign: 6, Dry: 7},
		Pairs:        []FabricPair{{42, counts}},
	}}, s.Fabrics)
	l.CopyTo(&s)
	require.Len(t, s.Fabrics, 1)
	require.Len(t, s.Fabrics[0].Pairs, 1)
}

func TestAPairBeginsWithoutTheCountsOfTheOneBefore(t *testing.T) {
	l := newLedger(t)
	i, err := l.AddFabric(1)
	require.NoError(t, err)
	l.JoinFabricPair(i, 5, 1)
	l.AddFabricPairCounts(i, 5, FabricPairCounts{Sent: 9, Writes: 9, WriteErrors: 1})
	l.JoinFabricPair(i, 5, 2)
	var s Contents
	l.CopyTo(&s)
	require.Equal(t, []FabricPair{{Session: 2}}, s.Fabrics[0].Pairs)
}

func TestAFabricMadeAnewGoesOnInItsSlot(t *testing.T) {
	l := newLedger(t)
	for port := range FabricSlots {
		i, err := l.AddFabric(port + 1)
		require.NoError(t, err)
		require.Equal(t, port, i)
	}
	i, err := l.AddFabric(3)
	require.NoError(t, err)
	require.Equal(t, 2, i)
	_, err = l.AddFabric(FabricSlots + 1)
	require.ErrorIs(t, err, ErrFull)
}

// Acknowledgements never exceed the events, and slots with implausible counts are left out.
func TestOfADamagedFabricOnlyWhatCanBeIsRead(t *testing.T) {
	l := newLedger(t)
	for port := range 2 {
		_, err := l.AddFabric(port)
		require.NoError(t, err)
	}
	l.AddFabricCounts(0, FabricCounts{Events: 1, Acked: 2})
	l.JoinFabricPair(0, 0, 1)
	l.AddFabricPairCounts(0, 0, FabricPairCounts{Answered: ImplausibleCount})
	l.JoinFabricPair(0, 1, 2)
	l.AddFabricCounts(1, FabricCounts{Dry: ImplausibleCount})
	var s Contents
	l.CopyTo(&s)
	require.Equal(t, []FabricState{{FabricCounts: FabricCounts{Events: 2, Acked: 2}, Pairs: []FabricPair{{Session: 2}}}}, s.Fabrics)
}

func TestTheCallsOfAFabricCountAmongThoseOfTheWorker(t *testing.T) {
	l := newLedger(t)
	i, err := l.AddFabric(1)
	require.NoError(t, err)
	held := ThreadCall{Call: CallCreateAH, Port: 1, Thread: 21, Since: 5}
	l.SetFabricControlCall(i, held)
	l.SetFabricCall(i, CallPostSend, 6)
	var s Contents
	l.CopyTo(&s)
	require.Equal(t, held, s.LongestCall(nil))
	require.Equal(t, ThreadCall{Call: CallPostSend, Since: 6}, s.LongestCall(func(thread int) bool { return thread == 21 }))
	require.Equal(t, held, s.FaultedCall())
}
