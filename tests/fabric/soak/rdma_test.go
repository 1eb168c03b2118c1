package soak

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// The times and numbers of a Fabric and of the session around it.
const (
	interval     = 500 * time.Millisecond
	missingAfter = 100 * time.Millisecond
	moreEvery    = 50 * time.Millisecond
	moreProbes   = 3
	ackTimeout   = 67 * time.Millisecond
	attempts     = 7
	usualReport  = 500 * time.Millisecond
	silentReport = 50 * time.Millisecond
	silenceIsNew = 3 * time.Second
)

// worker is the model of the worker of a device with one port. world.mu guards it.
type worker struct {
	w       *world
	host    *host
	device  string
	port    verbs.FabricPort
	ended   bool
	rc      uint32
	pairs   [verbs.MaxFabricPairs]*side
	offered [verbs.MaxFabricPairs]*side

	wake     chan struct{} // holds a token when a pair has begun
	facts    []verbs.FabricFact
	spare    []verbs.FabricFact // for the facts of the next report
	hasty    bool
	reported time.Time
}

// side is one side of a pair, in a worker.
type side struct {
	*worker
	place int
	rc    uint32
	role  verbs.FabricRole
	peer  verbs.FabricPeer

	// Of the side that probes.
	seq, posted   uint64
	next, more    time.Time
	missing       int       // probes that silence brings and that are not sent yet
	look          time.Time // when the echo that is awaited is missing
	silent        time.Time // since when an echo is missing
	asked, broken bool
	writing       time.Time // when the outstanding write was posted
	attempt       time.Time // when it is sent again
	attempts      int
	echoed, wrote time.Time

	// Of the side that answers.
	newest   [verbs.MaxFabricPaths]uint64
	received [verbs.MaxFabricPaths]uint64
	echoes   [verbs.MaxFabricPaths]uint64
}

// answerKey finds the side that answers a session.
type answerKey struct {
	host    string
	session uint64
}

var errNothingOffered = errors.New("nothing was offered")

// order carries out an order for the worker.
func (x *worker) order(o verbs.FabricOrder) (rc uint32, err error) {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	switch {
	case x.ended || o.Epoch != x.port.Epoch:
		return 0, verbs.ErrNoFabric
	case o.Offer:
		x.rc++
		x.offered[o.Pair] = &side{worker: x, place: o.Pair, rc: x.rc, role: o.Role}
		return x.rc, nil
	case o.Peer == nil:
		x.drop(o.Pair)
		return 0, nil
	case x.offered[o.Pair] == nil:
		return 0, errNothingOffered
	}
	s := x.offered[o.Pair]
	x.drop(o.Pair)
	x.pairs[o.Pair], s.peer = s, *o.Peer
	if s.role == verbs.FabricAnswers {
		x.w.answers[answerKey{x.host.name, s.peer.Session}] = s
	}
	s.next = time.Now().Add(s.peer.First)
	s.echoed, s.wrote = time.Now(), time.Now()
	select {
	case x.wake <- struct{}{}:
	default:
	}
	return 0, nil
}

// drop ends what runs and what was offered in a place.
func (x *worker) drop(place int) {
	if s := x.pairs[place]; s != nil && s.role == verbs.FabricAnswers {
		delete(x.w.answers, answerKey{x.host.name, s.peer.Session})
	}
	x.pairs[place], x.offered[place] = nil, nil
}

// end ends all pairs, and returns what the ledger says of them.
func (x *worker) end() []ledger.FabricState {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	counts := x.counts()
	for place := range x.pairs {
		x.drop(place)
	}
	x.ended = true
	delete(x.w.devices, x)
	return counts
}

// ledger returns what the worker has counted so far.
func (x *worker) ledger() []ledger.FabricState {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	return x.counts()
}

func (x *worker) counts() []ledger.FabricState {
	f := ledger.FabricState{Port: 1}
	for _, s := range x.pairs {
		if s == nil {
			continue
		}
		c := ledger.FabricPair{Session: s.peer.Session, FabricPairCounts: ledger.FabricPairCounts{Sent: s.seq, Writes: s.posted}}
		for _, n := range s.echoes {
			c.Answered += n
		}
		f.Pairs = append(f.Pairs, c)
	}
	return []ledger.FabricState{f}
}

// run probes, and reports what it sees, until ctx ends.
func (x *worker) run(ctx context.Context, report func(*verbs.FabricFacts)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
		case <-timer.C:
		}
		next, facts := x.turn()
		if facts != nil {
			report(facts)
		}
		timer.Reset(time.Until(next))
	}
}

// turn does what is due, and returns when something is due next, and the facts if they are to be reported now.
func (x *worker) turn() (next time.Time, facts *verbs.FabricFacts) {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	now := time.Now()
	if x.ended {
		return now.Add(time.Hour), nil
	}
	every := usualReport
	for _, s := range x.pairs {
		if s == nil || s.role != verbs.FabricProbes {
			continue
		}
		s.step(now)
		if !s.silent.IsZero() && now.Sub(s.silent) < silenceIsNew {
			every = silentReport
		}
		if due := s.due(); next.IsZero() || due.Before(next) {
			next = due
		}
	}
	if x.hasty || !now.Before(x.reported.Add(every)) {
		facts = &verbs.FabricFacts{Port: 1, Epoch: x.port.Epoch, UpTo: x.host.mono(), Facts: x.facts}
		x.facts, x.spare = x.spare[:0], x.facts
		x.hasty, x.reported = false, now
	}
	if due := x.reported.Add(every); next.IsZero() || due.Before(next) {
		next = due
	}
	return next, facts
}

func (s *side) due() time.Time {
	due := s.next
	for _, at := range []time.Time{s.look, s.attempt} {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	if s.missing > 0 && s.more.Before(due) {
		due = s.more
	}
	return due
}

// step does what is due of a pair that probes.
func (s *side) step(now time.Time) {
	if !s.look.IsZero() && !now.Before(s.look) {
		s.miss(now)
	}
	if !s.attempt.IsZero() && !now.Before(s.attempt) {
		s.write(now)
	}
	switch {
	case !now.Before(s.next):
		s.probe(now)
		if s.writing.IsZero() && !s.broken {
			s.posted++
			s.writing, s.attempts = now, 0
			s.fact(verbs.FabricFact{Kind: verbs.FabricWrite})
			s.write(now)
		}
		s.next = s.next.Add(interval)
	case s.missing > 0 && !now.Before(s.more):
		s.missing--
		s.more = now.Add(moreEvery)
		s.probe(now)
	}
}

func (s *side) fact(f verbs.FabricFact) {
	f.Pair, f.Session, f.At = s.place, s.peer.Session, s.host.mono()
	s.facts = append(s.facts, f)
}

// miss is called when an echo has not come in time. If the write is silent too, more probes follow soon.
func (s *side) miss(now time.Time) {
	s.look = time.Time{}
	if s.silent.IsZero() {
		s.silent, s.hasty = now, true
		s.fact(verbs.FabricFact{Kind: verbs.FabricMissing})
	}
	if !s.asked && (!s.writing.IsZero() || s.broken) {
		s.asked, s.missing, s.more = true, moreProbes, now
	}
}

func (s *side) probe(now time.Time) {
	path := int(s.seq % verbs.MaxFabricPaths)
	s.seq++
	s.fact(verbs.FabricFact{Kind: verbs.FabricSent, Path: path, Seq: s.seq})
	a := s.other()
	if a == nil {
		if s.look.IsZero() {
			s.look = now.Add(missingAfter)
		}
		return
	}
	received, echoes := a.receive(path, s.seq, s.w.doubled[linkOf(s.host.name, s.peer.Host)])
	s.fact(verbs.FabricFact{
		Kind: verbs.FabricEcho, Path: path, Seq: s.seq, Received: received, Posted: echoes, Took: 9000, Delay: 1000,
	})
	s.echoed, s.look, s.silent = now, time.Time{}, time.Time{}
	s.missing, s.asked = 0, false
}

// other returns the side that answers, nil if nothing does.
func (s *side) other() *side {
	if s.w.severed[linkOf(s.host.name, s.peer.Host)] > 0 {
		return nil
	}
	return s.w.answers[answerKey{s.peer.Host, s.peer.Session}]
}

// receive counts a probe, and returns the counts that its echo carries. A worker of the former release counts a probe that
// arrives twice twice.
func (s *side) receive(path int, seq uint64, twice bool) (received, echoes uint64) {
	if seq > s.newest[path] {
		s.newest[path] = seq
		s.received[path]++
		s.echoes[path]++
	}
	received, echoes = s.received[path], s.echoes[path]
	if twice && s.host.former {
		s.received[path]++
		s.echoes[path]++
	}
	return received, echoes
}

// write sends the outstanding write, for the first time or again.
func (s *side) write(now time.Time) {
	if a := s.other(); a != nil && a.rc == s.peer.RC && a.peer.RC == s.rc {
		s.fact(verbs.FabricFact{Kind: verbs.FabricWriteDone, Took: int64(now.Sub(s.writing)) + 5000})
		s.wrote, s.writing, s.attempt = now, time.Time{}, time.Time{}
		return
	}
	if s.attempts++; s.attempts <= attempts {
		s.attempt = now.Add(ackTimeout)
		return
	}
	s.fact(verbs.FabricFact{Kind: verbs.FabricWriteFailed, Status: "retry_exc_err", Took: int64(now.Sub(s.writing))})
	s.writing, s.attempt, s.broken, s.hasty = time.Time{}, time.Time{}, true, true
}
