package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func newLedger(t testing.TB) *ledger.Ledger {
	t.Helper()
	led, f, err := ledger.New("test")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { require.NoError(t, led.Close()) })
	return led
}

// An item caused by an event must not overtake the event on its way to the host.
func TestAnItemSaysWhichEventsCameBeforeIt(t *testing.T) {
	led := newLedger(t)
	o := newOutbox(led)
	o.add(verbs.Item{Reading: &verbs.Reading{Port: 1}})
	led.WriteRun(ledger.Run{Type: int32(verbs.EventPortErr), Port: 1, Count: 1})
	led.WriteRun(ledger.Run{Type: int32(verbs.EventPortActive), Port: 1, Count: 1})
	o.add(verbs.Item{Reading: &verbs.Reading{Port: 2}})
	o.addFacts(verbs.FabricFacts{Port: 3})
	var after []uint64
	for _, it := range o.takeItems() {
		after = append(after, it.After)
	}
	require.Equal(t, []uint64{0, 2, 2}, after)
	require.Empty(t, o.takeItems())
}

// A host that does not read must cost bounded memory.
func TestBeyondTheLimitReadingsAreLeftOut(t *testing.T) {
	o := newOutbox(newLedger(t))
	for range 3 * outboxLimit {
		o.add(verbs.Item{Reading: &verbs.Reading{}})
	}
	o.add(verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: 1}}})
	items := o.takeItems()
	require.Len(t, items, outboxLimit+1)
	require.NotNil(t, items[len(items)-1].Probe)
}

func TestFactsPassWithoutAllocating(t *testing.T) {
	o, facts := newOutbox(newLedger(t)), make([]verbs.FabricFact, sliceChunk)
	pass := func() {
		o.addFacts(verbs.FabricFacts{Port: 1, Facts: facts})
		if n := len(o.takeItems()); n != 1 { // require allocates
			t.Errorf("want 1 item, got %d", n)
		}
	}
	pass()
	pass() // after this both buffers have allocated their memory
	require.Zero(t, testing.AllocsPerRun(1000, pass))
}

func TestFactsAreCopiedAndStayValidUntilTheNextTake(t *testing.T) {
	o, facts := newOutbox(newLedger(t)), make([]verbs.FabricFact, 3)
	for round := range uint64(3) {
		for i := range uint64(3 * sliceChunk) {
			for n := range facts {
				facts[n].Seq, facts[n].Session = 3*i+uint64(n), round
			}
			require.True(t, o.addFacts(verbs.FabricFacts{Port: 1, Facts: facts}))
		}
		items := o.takeItems()
		o.addFacts(verbs.FabricFacts{Facts: make([]verbs.FabricFact, sliceChunk)})
		var seq uint64
		for _, it := range items[min(round, 1):] { // the item added between two calls of takeItems comes first
			require.Len(t, it.FabricFacts.Facts, 3)
			for _, fact := range it.FabricFacts.Facts {
				require.Equal(t, verbs.FabricFact{Session: round, Seq: seq}, fact)
				seq++
			}
		}
		require.EqualValues(t, 9*sliceChunk, seq)
	}
}

// A host that does not read must cost bounded memory, and the caller must learn that facts are dropped.
func TestBeyondTheLimitNoFactsAreTaken(t *testing.T) {
	const atOnce = 2 * verbs.MinFabricFacts
	o, facts := newOutbox(newLedger(t)), make([]verbs.FabricFact, atOnce)
	n := 0
	for o.addFacts(verbs.FabricFacts{Facts: facts}) {
		n++
	}
	require.Equal(t, factsLimit/atOnce, n)
	require.True(t, o.isFull())
	require.True(t, o.add(verbs.Item{Reading: &verbs.Reading{}}, verbs.Item{FabricPort: &verbs.FabricPort{}}))
	require.Len(t, o.takeItems(), n+2)
	require.False(t, o.isFull())

	for range outboxLimit {
		require.True(t, o.addFacts(verbs.FabricFacts{}))
	}
	require.False(t, o.addFacts(verbs.FabricFacts{}))
	require.False(t, o.add(verbs.Item{Reading: &verbs.Reading{}}))
	require.True(t, o.add(verbs.Item{FabricPort: &verbs.FabricPort{}}), "why facts are missing")
}
