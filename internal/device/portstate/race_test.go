package portstate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// simulatedLink simulates a port whose link changes at given times. Events reach the
// reader late and in batches, and queries may return an earlier state.
type simulatedLink struct {
	rng     *rand.Rand
	changes []int64 // ns, falling and rising by turns
	delay   int64   // the longest time from a change to the read of its event, ns
	lag     int64   // a query may return the state of up to lag before, ns
}

func (l *simulatedLink) stateAt(t int64) (verbs.PortState, uint64) {
	n, _ := slices.BinarySearch(l.changes, t+1)
	if n%2 == 1 {
		return down, uint64(n+1) / 2
	}
	return up, uint64(n+1) / 2
}

// readTimes returns when each event is read: in order, late by up to delay, often
// several in one batch.
func (l *simulatedLink) readTimes() []int64 {
	var reads []int64
	var last int64
	for _, c := range l.changes {
		last = max(last+1, c+1+l.rng.Int64N(l.delay))
		reads = append(reads, last)
	}
	return reads
}

// feedMachine feeds a Machine as internal/device/session does: a query after each drained
// batch, one more 100 ms later unless a newer batch has come, and one each interval.
func (l *simulatedLink) feedMachine(m *Machine, interval int64) {
	type input struct {
		at int64
		do func(at int64)
	}
	query := func(at int64) {
		seen, _ := l.stateAt(at - l.rng.Int64N(l.lag))
		_, downed := l.stateAt(at)
		m.HandleReading(at, &verbs.PortAttr{State: seen, LinkDowned: downed, HasLinkDowned: true})
	}
	var inputs []input
	reads := l.readTimes()
	for i, at := range reads {
		typ := verbs.EventPortErr
		if i%2 == 1 {
			typ = verbs.EventPortActive
		}
		inputs = append(inputs, input{at, func(at int64) {
			m.HandleEvents(&verbs.Run{Type: typ, Port: 1, Count: 1, First: at, Last: at})
		}})
		inputs = append(inputs, input{at + 1 + l.rng.Int64N(2*ms), query})
		if i == len(reads)-1 || reads[i+1]-at > 100*ms {
			inputs = append(inputs, input{at + 100*ms, query})
		}
	}
	for at := interval; at < reads[len(reads)-1]+2*interval; at += interval {
		inputs = append(inputs, input{at, query})
	}
	slices.SortStableFunc(inputs, func(a, b input) int { return int(a.at - b.at) })
	m.HandleOpened()
	m.HandleReading(0, &verbs.PortAttr{State: up, HasLinkDowned: true})
	for _, in := range inputs {
		in.do(in.at)
	}
}

func makeDrops(n int, every, lasting int64) []int64 {
	var changes []int64
	for i := range int64(n) {
		start := 1000*ms + i*every
		changes = append(changes, start, start+lasting)
	}
	return changes
}

func TestEveryDropIsCountedOnceWhateverTheRaces(t *testing.T) {
	for _, row := range []struct {
		name                  string
		n                     int
		every, lasting        int64
		delay, lag, queryEach int64
	}{
		{"50 drops of 40 ms", 50, 100 * ms, 40 * ms, 5 * ms, 15 * ms, 5000 * ms},
		{"50 drops of 40 ms half a second apart", 50, 500 * ms, 40 * ms, 5 * ms, 15 * ms, 5000 * ms},
		{"a drop each 20 ms for ten seconds", 500, 20 * ms, 10 * ms, 5 * ms, 15 * ms, 5000 * ms},
		{"events later than the next change", 500, 20 * ms, 10 * ms, 150 * ms, 15 * ms, 5000 * ms},
		{"outages of seconds", 50, 7000 * ms, 3000 * ms, 5 * ms, 15 * ms, 5000 * ms},
		{"events that wait for half a second while queries come often", 50, 2000 * ms, 700 * ms, 500 * ms, 15 * ms, 80 * ms},
	} {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(200) {
				l := simulatedLink{
					rng: rand.New(rand.NewPCG(seed, 1)), changes: makeDrops(row.n, row.every, row.lasting),
					delay: row.delay, lag: row.lag,
				}
				var m Machine
				l.feedMachine(&m, row.queryEach)
				v := m.View(1_000_000 * ms)
				require.Equal(t, up, v.State, "seed %d", seed)
				require.EqualValues(t, 2*row.n, v.Transitions, "seed %d", seed)
				require.EqualValues(t, row.n, v.Flaps, "seed %d", seed)
				require.Zero(t, v.Phantoms, "seed %d", seed)
				require.Zero(t, v.Missed, "seed %d", seed)
			}
		})
	}
}
