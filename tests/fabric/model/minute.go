package model

import (
	"math"
	"math/rand/v2"
	"time"

	"rdma_events/internal/fabric/verdict"
)

// What a pair does, by the contract of the probes.
const (
	paths    = 4
	interval = int64(500 * time.Millisecond) // between two rounds
	apart    = int64(50 * time.Millisecond)  // between further probes, and between looks
	further  = 3
	try      = int64(67 * time.Millisecond) // the ACK timeout 14
	tries    = 7                            // of a write, until its queue pair is in error
	again    = int64(time.Second)           // until it is connected again
	run      = int64(70 * time.Second)
)

// flows of the packets of a pair, by direction; the flow of a path is its index.
const (
	echoFlows = 50
	writeFlow = 100
	ackFlow   = 101
)

// minute is one pair during a run.
type minute struct {
	r       *rand.Rand
	forward [paths]float64 // the share of the probes that arrive, by path
	reverse [paths]float64 // the same of the echoes
	write   float64        // the share of tries of a write that are acknowledged
	echoes  bool           // the peer's process runs
	answers bool           // the peer's process answers State

	judge *verdict.Judge
	track *verdict.Tracker
	s     verdict.Sample

	arrived, posted [paths]uint64 // what the peer has counted
	next            int           // path of the next probe
	burst           int           // further probes that are left
	burstAt         int64         // when the next of them is sent
	writePosted     int64         // when the write under way was posted
	writeEnds       int64         // when the write under way is acknowledged or fails
	writeFails      bool
	connects        int64 // when the queue pair of the writes is connected again, once echoes come
}

// judged returns the verdict of one host on another at the end of a run.
func (n *network) judged(r *rand.Rand, from, to int) verdict.Verdict {
	m := &minute{r: r, echoes: !n.off[to] && !n.stopped[to], answers: !n.off[to] && !n.stopped[to]}
	for i := range paths {
		m.forward[i] = n.arrives(from, to, uint64(i))
		m.reverse[i] = n.arrives(to, from, echoFlows+uint64(i))
	}
	if !n.off[to] {
		m.write = n.arrives(from, to, writeFlow) * n.arrives(to, from, ackFlow)
	}
	if m.echoes && m.nothingLost() {
		return verdict.VerdictOK
	}
	m.live()
	v, _ := m.judge.Verdict()
	return v
}

// nothingLost draws whether all packets of a run arrive. For most pairs they do, and there is nothing to simulate.
func (m *minute) nothingLost() bool {
	rounds := float64(run / interval)
	all := math.Pow(m.write, rounds)
	for i := range paths {
		all *= math.Pow(m.forward[i]*m.reverse[i], rounds/paths)
	}
	return m.r.Float64() < all
}

// live lets a run pass. All was well when it began.
func (m *minute) live() {
	m.judge, m.track = verdict.NewJudge(1), verdict.NewTracker(paths)
	m.s = verdict.Sample{At: 2, Echoed: 2, WriteDone: 2, PeerActive: true}
	m.judge.Update(&m.s)
	for at := interval; at <= run; at += apart {
		m.endWrite(at)
		switch {
		case at%interval == 0:
			m.round(at)
		case m.burst > 0 && at >= m.burstAt && m.s.WriteSince != 0:
			m.burst--
			m.burstAt = at + apart
			m.probe(at)
		}
		if m.answers && m.s.Silent > 0 && (m.s.WriteSince != 0 || m.s.WriteFailed) {
			m.s.Answers = at
		}
		m.track.FillSample(&m.s, at)
		m.judge.Update(&m.s)
	}
}

// round is a probe and, if none is outstanding, a write.
func (m *minute) round(at int64) {
	if !m.probe(at) && m.burst == 0 {
		m.burst, m.burstAt = further, at+verdict.MissingAfter
	}
	if outstanding, failed := m.track.WriteState(); !outstanding && !failed {
		m.post(at)
	}
}

// probe sends a probe on the next path, and reports whether its echo came back.
func (m *minute) probe(at int64) bool {
	path := m.next
	m.next = (m.next + 1) % paths
	seq := m.track.AddProbe(path, at)
	arrives, returns := m.r.Float64() < m.forward[path], m.r.Float64() < m.reverse[path]
	if !m.echoes || !arrives {
		return false
	}
	m.arrived[path]++
	m.posted[path]++
	if !returns {
		return false
	}
	m.track.AddEcho(verdict.Echo{Path: path, Seq: seq, Received: m.arrived[path], Posted: m.posted[path]}, at)
	m.burst = 0
	if _, failed := m.track.WriteState(); failed && at >= m.connects {
		m.post(at)
	}
	return true
}

// post posts a write, and draws which of its tries is acknowledged.
func (m *minute) post(at int64) {
	m.track.AddWrite(at)
	m.writePosted, m.writeEnds, m.writeFails = at, at, false
	for n := range tries {
		if m.r.Float64() < m.write {
			m.writeEnds += int64(n) * try
			return
		}
	}
	m.writeEnds, m.writeFails = at+tries*try, true
}

// endWrite ends the write under way when its time has come.
func (m *minute) endWrite(at int64) {
	switch outstanding, _ := m.track.WriteState(); {
	case !outstanding || at < m.writeEnds:
	case m.writeFails:
		m.track.FailWrite()
		m.connects = at + again
	default:
		m.track.CompleteWrite(at, at-m.writePosted)
	}
}
