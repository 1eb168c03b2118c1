package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func run(typ verbs.EventType, count uint64, at int64) verbs.Run {
	return verbs.Run{Type: typ, Port: 1, Count: count, First: at, Last: at, HoldSum: at, HoldMax: at, AckSum: 1, AckMax: 1}
}

func TestEqualConsecutiveRunsAreJoined(t *testing.T) {
	o := newOutbox()
	o.addRuns([]verbs.Run{run(verbs.EventPortErr, 1, 10), run(verbs.EventPortErr, 2, 20), run(verbs.EventPortActive, 1, 30)})
	o.addRuns([]verbs.Run{run(verbs.EventPortActive, 4, 40), run(verbs.EventPortErr, 1, 50)})
	items := o.take()
	require.Len(t, items, 3)
	require.Equal(t, verbs.Run{Type: verbs.EventPortErr, Port: 1, Count: 3, First: 10, Last: 20,
		HoldSum: 30, HoldMax: 20, AckSum: 2, AckMax: 1}, *items[0].Run)
	require.EqualValues(t, 5, items[1].Run.Count)
	require.EqualValues(t, 1, items[2].Run.Count)
	require.Empty(t, o.take())
}

func TestAReadingBetweenTwoRunsKeepsThemApart(t *testing.T) {
	o := newOutbox()
	o.addRuns([]verbs.Run{run(verbs.EventPortErr, 1, 10)})
	o.add(verbs.Item{Reading: &verbs.Reading{Port: 1}})
	o.addRuns([]verbs.Run{run(verbs.EventPortErr, 1, 20)})
	require.Len(t, o.take(), 3)
}

// A host that reads nothing must cost bounded memory and lose no count.
func TestBeyondTheLimitEveryEventIsStillCounted(t *testing.T) {
	o := newOutbox()
	types := []verbs.EventType{verbs.EventPortErr, verbs.EventPortActive, verbs.EventGIDChange}
	const n = 3 * outboxLimit
	for i := range n {
		o.addRuns([]verbs.Run{run(types[i%3], 1, int64(i))})
		o.add(verbs.Item{Round: &verbs.RoundItem{}}, verbs.Item{Reading: &verbs.Reading{}})
	}
	o.add(verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: 1}}})
	items := o.take()
	require.LessOrEqual(t, len(items), outboxLimit+2)
	counts := map[verbs.EventType]uint64{}
	for _, it := range items {
		if it.Run != nil {
			counts[it.Run.Type] += it.Run.Count
		}
	}
	for _, typ := range types {
		require.EqualValues(t, n/3, counts[typ], typ)
	}
	require.NotNil(t, items[len(items)-1].Probe)
}

func TestATypeThatIsNewBeyondTheLimitIsKept(t *testing.T) {
	o := newOutbox()
	for i := range outboxLimit {
		o.addRuns([]verbs.Run{run(verbs.EventType(9+i%2), 1, int64(i))})
	}
	o.addRuns([]verbs.Run{run(verbs.EventDeviceFatal, 1, 1)})
	items := o.take()
	require.Equal(t, verbs.EventDeviceFatal, items[len(items)-1].Run.Type)
}

func TestEventsRoundsAndFactsPassWithoutAllocating(t *testing.T) {
	o, facts := newOutbox(), make([]verbs.FabricFact, rowChunk)
	runs := []verbs.Run{{Type: verbs.EventPortErr, Port: 1, Count: 1}, {Type: verbs.EventPortActive, Port: 1, Count: 1}}
	pass := func() {
		for range slabChunk / 2 {
			o.addRuns(runs)
			o.addRounds(verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: 1}}, verbs.Round{})
		}
		o.addFacts(verbs.FabricFacts{Port: 1, Facts: facts}, true)
		if n := len(o.take()); n != 3*slabChunk/2+1 { // require allocates
			t.Errorf("want %d items, got %d", 3*slabChunk/2+1, n)
		}
	}
	pass()
	pass() // both buffers have their memory
	require.Zero(t, testing.AllocsPerRun(1000, pass))
}

func BenchmarkEventThroughOutbox(b *testing.B) {
	o := newOutbox()
	flap := []verbs.Run{{Type: verbs.EventPortErr, Port: 1, Count: 1}, {Type: verbs.EventPortActive, Port: 1, Count: 1}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o.addRuns(flap)
		if i%(slabChunk/2) == 0 {
			o.take()
		}
	}
}

func TestTakenItemsStayValidUntilTheNextTake(t *testing.T) {
	o := newOutbox()
	for round := range uint64(3) {
		for i := range uint64(3 * slabChunk) {
			o.addRuns([]verbs.Run{{Type: verbs.EventPortErr, Port: int(i), Count: round + 1}})
		}
		items := o.take()
		o.addRuns([]verbs.Run{{Type: verbs.EventPortActive, Port: 1, Count: 99}})
		for i, it := range items[min(round, 1):] { // the run that was added between two takes comes first
			require.Equal(t, verbs.Run{Type: verbs.EventPortErr, Port: i, Count: round + 1}, *it.Run)
		}
	}
}

func TestFactsAreCopiedAndStayValidUntilTheNextTake(t *testing.T) {
	o, facts := newOutbox(), make([]verbs.FabricFact, 3)
	for round := range uint64(3) {
		for i := range uint64(3 * rowChunk) {
			for n := range facts {
				facts[n].Seq, facts[n].Session = 3*i+uint64(n), round
			}
			require.True(t, o.addFacts(verbs.FabricFacts{Port: 1, Facts: facts}, false))
		}
		items := o.take()
		o.addFacts(verbs.FabricFacts{Facts: make([]verbs.FabricFact, rowChunk)}, false)
		var seq uint64
		for _, it := range items[min(round, 1):] { // those that were added between two takes come first
			require.Len(t, it.FabricFacts.Facts, 3)
			for _, fact := range it.FabricFacts.Facts {
				require.Equal(t, verbs.FabricFact{Session: round, Seq: seq}, fact)
				seq++
			}
		}
		require.EqualValues(t, 9*rowChunk, seq)
	}
}

func TestOnlyFactsThatAreUrgentAreSentAtOnce(t *testing.T) {
	o := newOutbox()
	o.addFacts(verbs.FabricFacts{}, false)
	require.Len(t, o.round, 1)
	require.Empty(t, o.ready)
	o.addFacts(verbs.FabricFacts{}, true)
	require.Len(t, o.ready, 1)
}

// A host that reads nothing must cost bounded memory, and hear that facts are missing.
func TestBeyondTheLimitNoFactsAreTaken(t *testing.T) {
	const atOnce = 2 * verbs.MinFabricFacts
	o, facts := newOutbox(), make([]verbs.FabricFact, atOnce)
	n := 0
	for o.addFacts(verbs.FabricFacts{Facts: facts}, false) {
		n++
	}
	require.Equal(t, factsLimit/atOnce, n)
	require.True(t, o.isFull())
	require.True(t, o.add(verbs.Item{Reading: &verbs.Reading{}}, verbs.Item{FabricPort: &verbs.FabricPort{}}))
	require.Len(t, o.take(), n+2)
	require.False(t, o.isFull())

	for range outboxLimit {
		require.True(t, o.addFacts(verbs.FabricFacts{}, false))
	}
	require.False(t, o.addFacts(verbs.FabricFacts{}, false))
	require.False(t, o.add(verbs.Item{Reading: &verbs.Reading{}}))
	require.True(t, o.add(verbs.Item{FabricPort: &verbs.FabricPort{}}), "why facts are missing")
}
