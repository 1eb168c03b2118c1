package monitor

import (
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// maxTypes limits the event types of one series. No kernel has half as many. Events of
// further types count as ledger.Overflow.
const maxTypes = 64

// series holds the counts and latencies of one series of rdma_async.
type series struct {
	port      int // 0: the device's own
	counters  []*counter
	hold, ack aggregate.Interval
}

// counter counts one event type of one series. base counts the events that dead workers
// have read. The running worker reports its events twice: in its ledger at once, and in
// its stream later. The ledger may have events that the stream never brings.
type counter struct {
	typ       verbs.EventType
	base      uint64 // read from dead workers
	baseAcked uint64
	released  uint64 // read, never acknowledged, and freed when a worker died

	live, liveAcked uint64 // of the running worker, from its ledger
	streamed        uint64 // of the running worker, from its stream

	sumRead, sumAcked uint64 // sums over the slots of the ledger, while readLedger runs

	rate  aggregate.Rate
	stamp stamp
	runs  []emittedRun // the newest maxFacts of the stream
}

// emittedRun is a run of events, with the time stamp that its point got.
type emittedRun struct {
	first, last int64 // times of the first and the last event, CLOCK_MONOTONIC ns
	at          int64 // time stamp of the point, wall clock ns
	epoch       uint64
}

func newSeries(port int, scopes ...verbs.Scope) series {
	s := series{port: port}
	for _, scope := range scopes {
		for _, t := range verbs.EventTypes(scope) {
			s.counters = append(s.counters, &counter{typ: t})
		}
	}
	return s
}

// ensureCounter returns the counter of a type, and creates it if necessary.
func (s *series) ensureCounter(t verbs.EventType) *counter {
	for _, c := range s.counters {
		if c.typ == t {
			return c
		}
	}
	if len(s.counters) >= maxTypes && t != verbs.EventType(ledger.Overflow) {
		return s.ensureCounter(verbs.EventType(ledger.Overflow))
	}
	c := &counter{typ: t}
	s.counters = append(s.counters, c)
	return c
}

// totalEvents returns how many events workers have read.
func (s *series) totalEvents() uint64 {
	var n uint64
	for _, c := range s.counters {
		n += c.total()
	}
	return n
}

// makePoint returns the point of the series for a Gather, and begins its next interval.
func (s *series) makePoint(device string, g *gathering) *measure.Async {
	v := &measure.Async{
		Device: device, Port: s.port, Types: make([]measure.EventCount, 0, len(s.counters)),
		Hold: s.hold.End(), Ack: s.ack.End(), At: g.now,
	}
	for _, c := range s.counters {
		read, acked := c.liveCounts()
		v.Read += c.base + read
		v.Acked += c.baseAcked + acked
		v.Unacked += read - acked
		v.Released += c.released
		v.Types = append(v.Types, measure.EventCount{
			Type: c.typ, Total: c.base + read, Rate: c.rate.Update(c.base+read, g.elapsed),
		})
	}
	return v
}

// liveCounts returns how many events the running worker has read and acknowledged. The worker
// has acknowledged every event in its stream.
func (c *counter) liveCounts() (read, acked uint64) {
	return max(c.live, c.streamed), max(c.liveAcked, c.streamed)
}

// total returns how many events workers have read.
func (c *counter) total() uint64 {
	read, _ := c.liveCounts()
	return c.base + read
}

// applyLedgerSums applies the sums of one read of the ledger. A counter never decreases, whatever
// a dying worker may have written to the ledger.
func (c *counter) applyLedgerSums() {
	c.live = max(c.live, c.sumRead)
	c.liveAcked = max(c.liveAcked, min(c.sumAcked, c.sumRead))
	c.sumRead, c.sumAcked = 0, 0
}

// addToBase adds the dead worker's counts to base, and returns how many events the
// worker's stream did not bring.
func (c *counter) addToBase() uint64 {
	read, acked := c.liveCounts()
	rest := read - c.streamed
	c.base += read
	c.baseAcked += acked
	c.released += read - acked
	c.live, c.liveAcked, c.streamed = 0, 0, 0
	return rest
}
