package portstate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// link is a port whose link changes at given times, whose events reach the
// reader late and in batches, and whose queries see it with a lag.
type link struct {
	rng     *rand.Rand
	changes []int64 // ns, falling and rising by turns
	delay   int64   // an event may be read so much after its change, ns
	lag     int64   // a query may see the link as it was so much before, ns
}

func (l *link) at(t int64) (verbs.PortState, uint64) {
	n, _ := slices.BinarySearch(l.changes, t+1)
	if n%2 == 1 {
		return down, uint64(n+1) / 2
	}
	return up, uint64(n+1) / 2
}

// reads returns when each event is read: in order, late by up to delay, often
// several in one batch.
func (l *link) reads() []int64 {
	var reads []int64
	var last int64
	for _, c := range l.changes {
		last = max(last+1, c+1+l.rng.Int64N(l.delay))
		reads = append(reads, last)
	}
	return reads
}

// play feeds a Machine as internal/device/session does: a query after each drained
// batch, one more 100 ms later unless a newer batch came, one each interval.
func (l *link) play(m *Machine, interval int64) {
	type input struct {
		at int64
		do func(at int64)
	}
	query := func(at int64) {
		seen, _ := l.at(at - l.rng.Int64N(l.lag))
		_, downed := l.at(at)
		m.Reading(at, &verbs.PortAttr{State: seen, LinkDowned: downed, HasLinkDowned: true})
	}
	var inputs []input
	reads := l.reads()
	for i, at := range reads {
		typ := verbs.EventPortErr
		if i%2 == 1 {
			typ = verbs.EventPortActive
		}
		inputs = append(inputs, input{at, func(at int64) {
			m.Event(&verbs.Run{Type: typ, Port: 1, Count: 1, First: at, Last: at})
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
	m.Opened()
	m.Reading(0, &verbs.PortAttr{State: up, HasLinkDowned: true})
	for _, in := range inputs {
		in.do(in.at)
	}
}

func drops(n int, every, lasting int64) []int64 {
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
				l := link{
					rng: rand.New(rand.NewPCG(seed, 1)), changes: drops(row.n, row.every, row.lasting),
					delay: row.delay, lag: row.lag,
				}
				var m Machine
				l.play(&m, row.queryEach)
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
