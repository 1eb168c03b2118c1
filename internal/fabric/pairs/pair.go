package pairs

import (
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// pair is a port of the host and the host that it probes. Keeper.mu guards it. Moments are CLOCK_MONOTONIC ns, 0 is never.
type pair struct {
	host *host
	port *port
	slot int // its place in the port's Fabric

	reason  verdict.Reason // why it has not met
	remote  exchange.Port  // that it has met last
	session uint64         // of the facts that come; 0: none do
	joined  uint64         // the session of which the first fact is awaited
	stale   bool           // it has to be met again: the peer has another epoch, has ended its end, or has a device that fits better
	runs    bool           // the worker has an end of it
	meeting bool           // it is being met, anew or for the first time
	again   bool           // what it is being met with has changed meanwhile
	retry   backoff
	due     int64 // when it may be tried again
	unmet   int64 // since when it has not met

	tracker *verdict.Tracker
	judge   *verdict.Judge // nil: it has not met
	sample  verdict.Sample

	sent, posted uint64 // probes and writes of the session, as facts say
	done         int    // writes of the session that were acknowledged
	apart        bool   // a conversation was lost, and since then the pair was not tried to be met
	broken       int64  // since when the queue pair of the writes is in state error
	echoed       int64  // when an echo came last
	said         verbs.PortState
	answer       int64  // when the peer's process said so last
	gone         bool   // it said last that it has not what was met
	refused      string // what the device said of a probe last
	unsentSince  int64  // when the device began to refuse all probes; 0: it took the last one

	write, echoes *aggregate.Window

	shown    shown
	gathered bool // the last interval had it, because it was not well
}

// steady is how many writes have to be acknowledged until the next error of one is answered at once.
const steady = 10

// shown is what was emitted of a pair last.
type shown struct {
	verdict verdict.Verdict
	reason  verdict.Reason
}

// fact handles one thing that the Fabric saw of the pair.
func (pr *pair) fact(f *verbs.FabricFact) {
	if f.Session == pr.joined && pr.joined != 0 {
		pr.begin()
	}
	if f.Session != pr.session || pr.session == 0 {
		return // of a session that is over
	}
	t := pr.tracker
	t.SetDisconnected(pr.apart)
	switch f.Kind {
	case verbs.FabricSent:
		pr.sent++
		pr.unsentSince = 0
		t.AddProbe(f.Path, f.At)
	case verbs.FabricEcho:
		pr.echo(f)
	case verbs.FabricWrite:
		pr.posted++
		t.AddWrite(f.At)
	case verbs.FabricWriteDone:
		t.CompleteWrite(f.At, f.Took)
		if pr.done++; pr.done == steady {
			pr.retry.reset()
		}
		g := pr.port.k.groupOf(&pr.host.Peer)
		for _, w := range []*aggregate.Window{pr.write, pr.port.write, g.write} {
			w.Add(f.At, f.Took)
		}
	case verbs.FabricWriteFailed:
		t.FailWrite()
		pr.broken = f.At
		pr.port.k.cfg.Log.Debug("write failed", "device", pr.port.device, "port", pr.port.number, "peer", pr.host.Name, "status", f.Status)
	case verbs.FabricUnsent:
		pr.unsent(f)
	}
}

// begin takes over the session that was joined. What is pending of the one before stays unknown.
func (pr *pair) begin() {
	pr.session, pr.joined = pr.joined, 0
	pr.sent, pr.posted, pr.done = 0, 0, 0
	pr.tracker.EndSession()
}

func (pr *pair) echo(f *verbs.FabricFact) {
	e := verdict.Echo{Path: f.Path, Seq: f.Seq, Received: f.Received, Posted: f.Posted, Dry: f.Dry}
	if !pr.tracker.AddEcho(e, f.At) {
		return
	}
	pr.echoed = f.At
	round := max(0, f.Took-f.Delay)
	pr.echoes.Add(f.At, round)
	g := pr.port.k.groupOf(&pr.host.Peer)
	for _, l := range []*latencies{&pr.port.latencies, &g.latencies} {
		l.echo.Add(f.At, round)
		l.responder.Add(f.At, f.Delay)
	}
}

// unsent notes that the device has refused a probe. If it goes on with that, the pair is not met: another address handle may do
// better.
func (pr *pair) unsent(f *verbs.FabricFact) {
	if f.Status != pr.refused {
		pr.refused = f.Status
		pr.port.k.cfg.Log.Warn("the device refuses probes to another host: "+f.Status, "device", pr.port.device, "port", pr.port.number, "peer", pr.host.Name)
	}
	if pr.unsentSince == 0 {
		pr.unsentSince = f.At
	}
	if f.At-pr.unsentSince >= int64(unsentFor) {
		pr.makeStale()
		pr.failed(verdict.ReasonFailed)
		pr.due = pr.port.k.cfg.Mono() + int64(lastRetry)
	}
}

// current returns the session of the pair that was joined last, 0 if there is none.
func (pr *pair) current() uint64 {
	if pr.joined != 0 {
		return pr.joined
	}
	return pr.session
}

// makeStale has the pair met again. Until then its silence says nothing.
func (pr *pair) makeStale() {
	pr.stale, pr.due = true, 0
	pr.host.wake.Send()
}

// judgeAt judges as of a time up to which all facts are known.
func (pr *pair) judgeAt(upTo int64) {
	if pr.host.mayHaveEnded(upTo) {
		pr.stale = true
	}
	if !pr.isJudged() {
		return
	}
	s := &pr.sample
	pr.tracker.SetDisconnected(pr.apart)
	pr.tracker.FillSample(s, upTo)
	s.Answers, s.PeerActive, s.PeerGone = 0, pr.said == verbs.PortActive, pr.gone
	if pr.answer-s.SilentSince >= int64(stateAfter) {
		s.Answers = pr.answer
	}
	pr.judge.Update(s)
	if s.IsMissing() && (s.WriteSince != 0 || s.WriteFailed) {
		pr.host.silent.Send()
	}
	if pr.broken != 0 && pr.echoed > pr.broken {
		pr.host.wake.Send()
	}
}

// isJudged reports whether silence says something. While a pair is met anew, the peer may have the new session already and this
// side still the one before, whose probes the peer then takes for a stranger's. A stale pair may have no other end.
func (pr *pair) isJudged() bool {
	return pr.session != 0 && pr.judge != nil && !pr.meeting && !pr.stale && pr.joined == 0
}

// isUnanswered reports whether probes and a write are unanswered, for however short.
func (pr *pair) isUnanswered() bool {
	if !pr.isJudged() {
		return false
	}
	outstanding, failed := pr.tracker.WriteState()
	_, n := pr.tracker.Unanswered()
	return n > 0 && (outstanding || failed)
}

// wants reports whether the pair is to be met, anew or for the first time, and from when on. A queue pair in state error is
// connected again when echoes come, and not while nothing says that the way is whole.
func (pr *pair) wants() (due int64, ok bool) {
	if pr.port.info.Epoch == 0 || !pr.port.known {
		return 0, false
	}
	return pr.due, pr.reason != verdict.ReasonNone || pr.stale || pr.broken != 0 && pr.echoed > pr.broken
}

// part ends the session: the port has no Fabric any more, or another one.
func (pr *pair) part() {
	pr.tracker.EndSession()
	pr.host.abandon(pr.session)
	pr.host.abandon(pr.joined)
	pr.session, pr.joined, pr.stale, pr.broken, pr.unsentSince = 0, 0, false, 0, 0
	pr.judge = nil
	if pr.reason == verdict.ReasonNone {
		pr.unmet = pr.port.k.cfg.Mono()
	}
	pr.reason = verdict.ReasonStarting
	if pr.port.info.Epoch == 0 {
		pr.reason = verdict.ReasonOwnPort
	}
	pr.due = 0
}

// met notes that the pair has met a peer's port, in a session of which facts will come.
func (pr *pair) met(session uint64, remote *exchange.Port) {
	if pr.judge == nil || pr.remote.Epoch != remote.Epoch {
		pr.judge = verdict.NewJudge(pr.port.k.cfg.Mono())
		pr.sample = verdict.Sample{}
		if pr.session != session { // what the former peer did not answer says nothing of this one
			pr.tracker.EndSession()
			pr.session = 0
		}
	} else if pr.broken != 0 {
		pr.tracker.CountReconnect()
	}
	if pr.session != session { // no fact of it came before this
		pr.joined = session
	}
	pr.reason, pr.stale, pr.broken, pr.unsentSince = verdict.ReasonNone, pr.again, 0, 0
	pr.remote, pr.said, pr.gone = *remote, verbs.PortActive, false
}

// failed notes why the pair could not meet. One that has met goes on with what it has; the numbers of a peer that was started
// again mean nothing any more.
func (pr *pair) failed(why verdict.Reason) {
	if pr.reason == verdict.ReasonNone && !pr.stale {
		return
	}
	if pr.reason == verdict.ReasonNone {
		pr.part()
	}
	pr.reason = why
	pr.show(pr.port.k.cfg.Mono())
}

// unreported takes what the ledger of a worker that has ended says of the pair beyond what facts did.
func (pr *pair) unreported(c *ledger.FabricPair) {
	if c.Session == pr.joined && pr.joined != 0 {
		pr.begin()
	}
	if c.Session != pr.session || pr.session == 0 {
		return
	}
	probes, writes := c.Sent-min(c.Sent, pr.sent), c.Writes-min(c.Writes, pr.posted)
	pr.tracker.AddUnreported(probes, writes)
	pr.sent, pr.posted = pr.sent+probes, pr.posted+writes
}

// counts returns the counts of the pair, and what it counts for now.
func (pr *pair) counts() measure.FabricCounts {
	out := measure.FabricCounts{Counts: pr.tracker.Counts()}
	if pr.port.down() || pr.reason == verdict.ReasonUnsupported {
		return out // the pair rests, or the peer has no device for it
	}
	out.Pairs = 1
	if pr.judge == nil {
		return out
	}
	out.PairsMet = 1
	switch v, _ := pr.judge.Verdict(); {
	case v.IsNetwork() && pr.port.verdict.verdict != verdict.VerdictOwnLink:
		out.PairsBad = 1
	case v == verdict.VerdictPeerBusy:
		out.PairsBusy = 1
	case v == verdict.VerdictPeerDown, v == verdict.VerdictPeerPort:
		out.PairsDown = 1
	}
	return out
}
