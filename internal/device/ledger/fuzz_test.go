package ledger

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A worker with damaged memory may leave any bytes in the ledger.
func FuzzAReaderSurvivesAnyBytes(f *testing.F) {
	head := func(events, probes uint32) []byte {
		b := binary.NativeEndian.AppendUint64(nil, magic)
		b = binary.NativeEndian.AppendUint32(b, events)
		b = binary.NativeEndian.AppendUint32(b, probes)
		return binary.NativeEndian.AppendUint32(b, uint32(CallAckAsyncEvent))
	}
	event := binary.NativeEndian.AppendUint64(nil, 10|1<<32)
	event = binary.NativeEndian.AppendUint64(event, 3) // read
	event = binary.NativeEndian.AppendUint64(event, 9) // more acknowledged than read
	fabric := make([]byte, unsafe.Sizeof(fabricSlot{}))
	binary.NativeEndian.PutUint64(fabric[unsafe.Offsetof(fabricSlot{}.counts)+8:], 9) // acknowledged, and none read
	binary.NativeEndian.PutUint64(fabric[unsafe.Offsetof(fabricSlot{}.pair):], 4711)
	f.Add(head(1, 1), event, []byte{1, 0, 0, 0, 0, 0, 0, 0, 3}, uint32(1), fabric)
	f.Add(head(EventSlots, ProbeSlots), []byte{}, []byte{}, uint32(FabricSlots), []byte{})
	f.Add(head(1<<32-1, 1<<32-1), event[:9], []byte{255, 255, 255, 255}, uint32(1<<32-1), []byte{255, 255, 255, 255})
	whole := new(page) // one for all runs, since it is large
	f.Fuzz(func(t *testing.T, head, events, probes []byte, fabrics uint32, fabric []byte) {
		l := &Ledger{p: whole}
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(l.p)), Size)
		clear(bytes[:unsafe.Offsetof(l.p.rounds)])
		clear(bytes[unsafe.Offsetof(l.p.rounds):][:2*unsafe.Sizeof(roundRing{})])
		copy(bytes, head)
		copy(bytes[unsafe.Offsetof(l.p.event):], events)
		copy(bytes[unsafe.Offsetof(l.p.probe):], probes)
		copy(bytes[unsafe.Offsetof(l.p.fabric):], fabric)
		l.p.fabrics = fabrics

		var s, again Contents
		l.CopyTo(&s)
		require.LessOrEqual(t, len(s.Events), EventSlots)
		require.LessOrEqual(t, len(s.Probes), ProbeSlots)
		for _, e := range s.Events {
			require.LessOrEqual(t, e.Acked, e.Read)
			require.Less(t, e.Read, uint64(ImplausibleCount))
		}
		for i := range s.Probes {
			c := s.Probes[i].ProbeCounts
			require.Equal(t, c, c.Add(c).Sub(c))
		}
		requireFabrics(t, &s)
		requireOldest(t, &s)
		l.CopyTo(&again)
		require.Equal(t, s, again)
		requireCountable(t, l)
		requireReadable(t, l)
	})
}

func requireFabrics(t *testing.T, s *Contents) {
	t.Helper()
	require.LessOrEqual(t, len(s.Fabrics), FabricSlots)
	for i := range s.Fabrics {
		f := &s.Fabrics[i]
		require.LessOrEqual(t, f.Acked, f.Events)
		require.Less(t, max(f.Events, f.Dry), uint64(ImplausibleCount))
		require.LessOrEqual(t, len(f.Pairs), FabricPairs)
		for _, p := range f.Pairs {
			require.NotZero(t, p.Session)
			require.Less(t, max(p.Sent, p.WriteErrors), uint64(ImplausibleCount))
		}
	}
}

// requireOldest checks that LongestCall returns a call with a name, and that no call is older.
func requireOldest(t *testing.T, s *Contents) {
	t.Helper()
	busy := s.LongestCall(nil)
	require.Equal(t, busy.Call == CallNone, busy.Call.String() == "")
	threads := []ThreadCall{s.Reader, s.Control, s.Evidence}
	for i := range s.Probes {
		threads = append(threads, s.Probes[i].Call)
	}
	for i := range s.Fabrics {
		threads = append(threads, s.Fabrics[i].Call, s.Fabrics[i].Control)
	}
	for _, l := range threads {
		if l.Call != CallNone {
			require.NotEqual(t, CallNone, busy.Call)
			require.LessOrEqual(t, busy.Since, l.Since)
		}
	}
}

// requireCountable checks that a writer also finds a slot in a damaged ledger, and writes only within the page.
func requireCountable(t *testing.T, l *Ledger) {
	t.Helper()
	l.Count(4711, 1, 1, 1)
	if i, err := l.AddProbe(1, 2, 3); err == nil {
		require.Less(t, i, ProbeSlots)
		l.AddProbeCounts(i, ProbeCounts{Rounds: 1})
	} else {
		require.ErrorIs(t, err, ErrFull)
	}
	if i, err := l.AddFabric(3); err == nil {
		require.Less(t, i, FabricSlots)
		l.JoinFabricPair(i, FabricPairs-1, 7)
		l.AddFabricPairCounts(i, FabricPairs-1, FabricPairCounts{Sent: 1})
	} else {
		require.ErrorIs(t, err, ErrFull)
	}
}

// requireReadable checks that a Reader terminates, and reads no more entries than a ring has.
func requireReadable(t *testing.T, l *Ledger) {
	t.Helper()
	r, runs, rounds := NewReader(l), 0, 0
	l.p.runs.written = uint64(l.p.probes) // any number
	if err := r.Runs(^uint64(0), func(*Run) { runs++ }); err != nil {
		require.ErrorIs(t, err, ErrDamaged)
	}
	l.p.runs.omitted++
	r.Unlisted(func(_, _ int32, events uint64) { require.Less(t, events, uint64(ImplausibleCount)) })
	if err := r.Rounds(func(int, int, int, *Round) { rounds++ }); err != nil {
		require.ErrorIs(t, err, ErrDamaged)
	}
	require.LessOrEqual(t, runs, RunRing)
	require.LessOrEqual(t, rounds, 2*RoundRing)
}
