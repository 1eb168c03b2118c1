package pairs

import (
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// pair is a port of this host together with a host that it probes. Keeper.mu guards it. Times are CLOCK_MONOTONIC ns, and 0 means never.
type pair struct {
	host *peerHost
	port *port
	slot int // its index in the port's Fabric

	reason            verdict.Reason // why the pair is not connected
	remote            exchange.Port  // the peer's port of the last connection
	session           uint64         // session of the facts that arrive; 0: no facts arrive
	pendingSession    uint64         // new session whose first fact has not arrived yet; 0: none
	stale             bool           // the pair has to be reconnected: the peer has a new epoch, has ended its end, or has a better matching device
	hasQueuePair      bool           // the worker has an end of the pair
	connecting        bool           // an attempt to connect or reconnect is under way, or the worker ends its end
	changedMeanwhile  bool           // the peer's ports have changed during the attempt
	retry             backoff
	nextAttempt       int64 // earliest time of the next attempt
	disconnectedSince int64 // time since which the pair is not connected

	tracker *verdict.Tracker
	judge   *verdict.Judge // nil: the pair is not connected
	sample  verdict.Sample

	reportedProbes, reportedWrites uint64          // probes and writes of the session that facts have reported
	acknowledgedWrites             int             // acknowledged writes of the session
	disconnected                   bool            // a conversation was lost, and no attempt to connect has begun since
	writeBrokenSince               int64           // time since which the queue pair of the writes is in state error
	lastEcho                       int64           // time of the last echo
	peerState                      verbs.PortState // state of the peer's port in the last answer of its process
	lastAnswer                     int64           // time of that answer
	peerGone                       bool            // in its last answer, the peer's process no longer had the connected port
	lastSendError                  string          // the last error of the device for a probe
	unsentSince                    int64           // time at which the device began to refuse all probes; 0: it accepted the last one

	write, echoes *aggregate.Window

	emitted        emittedState // last emitted state
	stamp          stamp
	inLastInterval bool // the last interval had a point of the pair because it was not ok
}

// steadyWrites is the number of acknowledged writes after which the next failed write is followed by an immediate attempt to reconnect.
const steadyWrites = 10

// emittedState is the part of a pair's state whose changes are emitted.
type emittedState struct {
	verdict verdict.Verdict
	reason  verdict.Reason
}

// addFact evaluates one fact about the pair.
func (pr *pair) addFact(f *verbs.FabricFact) {
	if f.Session == pr.pendingSession && pr.pendingSession != 0 {
		pr.startSession()
	}
	if f.Session != pr.session || pr.session == 0 {
		return // the fact belongs to an ended session
	}
	t := pr.tracker
	t.SetDisconnected(pr.disconnected)
	switch f.Kind {
	case verbs.FabricSent:
		pr.reportedProbes++
		pr.unsentSince = 0
		t.AddProbe(f.Path, f.At)
	case verbs.FabricEcho:
		pr.addEcho(f)
	case verbs.FabricWrite:
		pr.reportedWrites++
		t.AddWrite(f.At)
	case verbs.FabricWriteDone:
		t.CompleteWrite(f.At, f.Took)
		if pr.acknowledgedWrites++; pr.acknowledgedWrites == steadyWrites {
			pr.retry.reset()
		}
		g := pr.port.k.sumsOfGroup(&pr.host.Peer)
		for _, w := range []*aggregate.Window{pr.write, pr.port.write, g.write} {
			w.Add(f.At, f.Took)
		}
	case verbs.FabricWriteFailed:
		t.FailWrite()
		pr.writeBrokenSince = f.At
		pr.port.k.cfg.Log.Debug("pair: write failed", "device", pr.port.device, "port", pr.port.number, "peer", pr.host.Name, "status", f.Status)
	case verbs.FabricUnsent:
		pr.handleUnsent(f)
	}
}

// startSession switches to the pending session. The outcome of the previous session's pending probes remains unknown.
func (pr *pair) startSession() {
	pr.session, pr.pendingSession = pr.pendingSession, 0
	pr.reportedProbes, pr.reportedWrites, pr.acknowledgedWrites = 0, 0, 0
	pr.tracker.EndSession()
}

func (pr *pair) addEcho(f *verbs.FabricFact) {
	e := verdict.Echo{Path: f.Path, Seq: f.Seq, Received: f.Received, Posted: f.Posted, Dry: f.Dry}
	if !pr.tracker.AddEcho(e, f.At) {
		return
	}
	pr.lastEcho = f.At
	round := max(0, f.Took-f.Delay)
	pr.echoes.Add(f.At, round)
	g := pr.port.k.sumsOfGroup(&pr.host.Peer)
	for _, l := range []*latencies{&pr.port.latencies, &g.latencies} {
		l.echo.Add(f.At, round)
		l.responder.Add(f.At, f.Delay)
	}
}

// handleUnsent records that the device has refused a probe. If the device refuses all probes for unsentTimeout, the pair is disconnected and then
// connected with a new address handle.
func (pr *pair) handleUnsent(f *verbs.FabricFact) {
	if f.Status != pr.lastSendError {
		pr.lastSendError = f.Status
		pr.port.k.cfg.Log.Warn("the device refuses probes to another host", "device", pr.port.device, "port", pr.port.number, "peer", pr.host.Name,
			"error", f.Status)
	}
	if pr.unsentSince == 0 {
		pr.unsentSince = f.At
	}
	if pr.judge != nil {
		if v, _ := pr.judge.Verdict(); v.IsUnanswered() {
			return // the queue is full of sends that do not complete: a new address handle does not help, and the verdict says why
		}
	}
	if f.At-pr.unsentSince >= int64(unsentTimeout) {
		pr.markStale()
		pr.recordFailure(verdict.ReasonFailed)
		pr.nextAttempt = pr.port.k.cfg.Mono() + int64(lastRetry)
	}
}

// currentSession returns the newest session of the pair, or 0 if there is none.
func (pr *pair) currentSession() uint64 {
	if pr.pendingSession != 0 {
		return pr.pendingSession
	}
	return pr.session
}

// markStale requests that the pair is reconnected. Until then its silence is not evaluated.
func (pr *pair) markStale() {
	pr.stale, pr.nextAttempt = true, 0
	pr.host.wake.Send()
}

// updateVerdict updates the verdict as of upTo. All facts up to that time must be known.
func (pr *pair) updateVerdict(upTo int64) {
	if pr.host.mayHaveEnded(upTo) {
		pr.stale = true
	}
	if !pr.canBeJudged() {
		return
	}
	s := &pr.sample
	pr.tracker.SetDisconnected(pr.disconnected)
	pr.tracker.FillSample(s, upTo)
	s.Answers, s.PeerActive, s.PeerGone = 0, pr.peerState == verbs.PortActive, pr.peerGone
	if pr.lastAnswer-s.SilentSince >= int64(stateAnswerDelay) {
		s.Answers = pr.lastAnswer
	}
	pr.judge.Update(s)
	if s.IsMissing() && (s.WriteSince != 0 || s.WriteFailed) {
		pr.host.silent.Send()
	}
	if pr.writeBrokenSince != 0 && pr.lastEcho > pr.writeBrokenSince {
		pr.host.wake.Send()
	}
}

// canBeJudged reports whether silence of the pair is evidence. While a pair is being reconnected, the peer may already have the new session and
// ignore the probes of the old one. The peer may have no end of a stale pair.
func (pr *pair) canBeJudged() bool {
	return pr.session != 0 && pr.judge != nil && !pr.connecting && !pr.stale && pr.pendingSession == 0
}

// isUnanswered reports whether both a probe and the write are unanswered, for any duration.
func (pr *pair) isUnanswered() bool {
	if !pr.canBeJudged() {
		return false
	}
	outstanding, failed := pr.tracker.WriteState()
	_, n := pr.tracker.Unanswered()
	return n > 0 && (outstanding || failed)
}

// wantsConnect reports whether the pair has to be connected or reconnected, and the earliest time for it. A queue pair in state error is
// reconnected only after an echo has arrived, since until then nothing shows that the path works.
func (pr *pair) wantsConnect() (due int64, ok bool) {
	if pr.port.info.Epoch == 0 || !pr.port.known {
		return 0, false
	}
	return pr.nextAttempt, pr.reason != verdict.ReasonNone || pr.stale || pr.writeBrokenSince != 0 && pr.lastEcho > pr.writeBrokenSince
}

// endSession ends the session of the pair, and asks the peer to end it too.
func (pr *pair) endSession() {
	pr.tracker.EndSession()
	pr.host.queueLeave(pr.session)
	pr.host.queueLeave(pr.pendingSession)
	pr.session, pr.pendingSession, pr.stale, pr.writeBrokenSince, pr.unsentSince = 0, 0, false, 0, 0
	pr.judge = nil
	if pr.reason == verdict.ReasonNone {
		pr.disconnectedSince = pr.port.k.cfg.Mono()
	}
	pr.reason = verdict.ReasonStarting
	if pr.port.info.Epoch == 0 {
		pr.reason = verdict.ReasonOwnPort
	}
	pr.nextAttempt = 0
}

// setConnected records that the pair is connected to a port of the peer in a session.
func (pr *pair) setConnected(session uint64, remote *exchange.Port) {
	if pr.judge == nil || pr.remote.Epoch != remote.Epoch {
		pr.judge = verdict.NewJudge(pr.port.k.cfg.Mono())
		pr.sample = verdict.Sample{}
		if pr.session != session { // unanswered probes of the previous connection are no evidence about this one
			pr.tracker.EndSession()
			pr.session = 0
		}
	} else if pr.writeBrokenSince != 0 {
		pr.tracker.CountReconnect()
	}
	if pr.session != session { // no fact of the session has arrived yet
		pr.pendingSession = session
	}
	pr.reason, pr.stale, pr.writeBrokenSince, pr.unsentSince = verdict.ReasonNone, pr.changedMeanwhile, 0, 0
	pr.remote, pr.peerState, pr.peerGone = *remote, verbs.PortActive, false
}

// recordFailure records why the pair could not be connected. A connected pair that is not stale keeps its session. A stale one loses its session,
// because the peer no longer knows its numbers.
func (pr *pair) recordFailure(why verdict.Reason) {
	if pr.reason == verdict.ReasonNone && !pr.stale {
		return
	}
	if pr.reason == verdict.ReasonNone {
		pr.endSession()
	}
	pr.reason = why
	pr.emitIfChanged(pr.port.k.cfg.Mono())
}

// addUnreported adds the probes and writes that the ledger of an ended worker has beyond the reported facts.
func (pr *pair) addUnreported(c *ledger.FabricPair) {
	if c.Session == pr.pendingSession && pr.pendingSession != 0 {
		pr.startSession()
	}
	if c.Session != pr.session || pr.session == 0 {
		return
	}
	probes, writes := c.Sent-min(c.Sent, pr.reportedProbes), c.Writes-min(c.Writes, pr.reportedWrites)
	pr.tracker.AddUnreported(probes, writes)
	pr.reportedProbes, pr.reportedWrites = pr.reportedProbes+probes, pr.reportedWrites+writes
}

// currentCounts returns the counts of the pair and its share in the numbers of pairs by state.
func (pr *pair) currentCounts() measure.FabricCounts {
	out := measure.FabricCounts{Counts: pr.tracker.Counts()}
	if pr.port.isDown() || pr.reason == verdict.ReasonUnsupported {
		return out // the pair is paused, or the peer has no matching device
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
