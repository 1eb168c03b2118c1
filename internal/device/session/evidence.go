package session

import (
	"context"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// snapshotRequest is the pending request for a snapshot of a port. The reader, the querier and
// the probers make requests, and never wait for the snapshot.
type snapshotRequest struct {
	mu     sync.Mutex
	why    verbs.Trigger // "": no request
	at     int64         // CLOCK_MONOTONIC ns
	merged uint64        // number of further triggers
}

// merge adds a trigger to the request. Further triggers are only counted, unless one has a
// higher priority: it then names the snapshot.
func (k *snapshotRequest) merge(why verbs.Trigger, at int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.why != "" && k.why != verbs.TriggerBase && why != verbs.TriggerBase {
		k.merged++
	}
	if k.why == "" || triggerPriority(why) > triggerPriority(k.why) {
		k.why, k.at = why, at
	}
}

// triggerPriority returns the priority of a trigger. Of several merged triggers, the highest names the snapshot.
func triggerPriority(why verbs.Trigger) int {
	switch why {
	case verbs.TriggerBase:
		return 0
	case verbs.Trigger(verbs.EventPortErr.String()), verbs.TriggerState, verbs.TriggerCommand:
		return 2
	case verbs.Trigger(verbs.EventDeviceFatal.String()):
		return 3
	}
	return 1
}

// take returns and clears the request. With base it leaves a trigger that has replaced the base
// since pendingTrigger returned it: the rate limit has not been checked for that trigger.
func (k *snapshotRequest) take(base bool) (why verbs.Trigger, at int64, merged uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if base && k.why != verbs.TriggerBase {
		return "", 0, 0
	}
	why, at, merged = k.why, k.at, k.merged
	k.why, k.merged = "", 0
	return why, at, merged
}

// pendingTrigger returns the trigger of the request; "" if there is none.
func (k *snapshotRequest) pendingTrigger() verbs.Trigger {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.why
}

// RequestSnapshot requests a snapshot of a port. at is the time of the trigger, CLOCK_MONOTONIC in
// ns. It does nothing for a port that is not watched.
func (a *Asker) RequestSnapshot(port int, why verbs.Trigger, at int64) {
	if p := a.port(port); p != nil && a.Options.SnapshotInterval > 0 {
		p.request.merge(why, at)
		a.OnSnapshotDue()
	}
}

// RequestSnapshots requests a snapshot of each port.
func (a *Asker) RequestSnapshots(why verbs.Trigger) {
	now := a.Clock.Monotonic()
	for _, p := range a.ports {
		a.RequestSnapshot(p.number, why, now)
	}
}

// HandleRun requests a snapshot if it may explain the events. For device_fatal it requests a
// snapshot of the first port.
func (a *Asker) HandleRun(r *verbs.Run) {
	port := r.Port
	for _, p := range a.ports {
		if port == 0 || port == p.number {
			p.countStateEvent(r.Type)
		}
	}
	if r.Type == verbs.EventDeviceFatal {
		now := a.Clock.Now()
		a.fatal.Store(&now)
		if len(a.ports) > 0 {
			port = a.ports[0].number
		}
	}
	if triggersSnapshot(r.Type) {
		a.RequestSnapshot(port, verbs.Trigger(r.Type.String()), r.First)
	}
}

// HandleOutcome requests a snapshot if it may explain the outcome of a round.
func (a *Asker) HandleOutcome(port int, o verbs.Outcome) {
	switch o {
	case verbs.OutcomeLostEvent:
		a.RequestSnapshot(port, verbs.TriggerLostEvent, a.Clock.Monotonic())
	case verbs.OutcomeLostCompletion:
		a.RequestSnapshot(port, verbs.TriggerLostCompletion, a.Clock.Monotonic())
	}
}

// triggersSnapshot reports whether a snapshot is taken after an event of type t. A snapshot after
// port_active would only show that all is well.
func triggersSnapshot(t verbs.EventType) bool {
	switch t {
	case verbs.EventPortErr, verbs.EventDeviceFatal, verbs.EventGIDChange, verbs.EventLIDChange, verbs.EventPKeyChange,
		verbs.EventSMChange:
		return true
	}
	return false
}

// TakeSnapshots takes the requested snapshots, within the rate limit of each port. Once ended is
// closed, it starts no further part of a snapshot. It returns the time until the next snapshot may
// be taken, or 0 if none is pending. The only error is ErrClosed.
func (a *Asker) TakeSnapshots(ended <-chan struct{}) (next time.Duration, err error) {
	for _, p := range a.ports {
		waiting := p.request.pendingTrigger()
		switch waiting {
		case "":
			continue
		case verbs.TriggerBase: // not rate-limited, since it has an interval of its own
		default:
			now := a.Clock.Now()
			if left := p.limiter.nextAllowed().Sub(now); left > 0 {
				if next == 0 || left < next {
					next = left
				}
				continue
			}
			p.limiter.record(now)
		}
		if err := a.takeSnapshot(ended, p, waiting == verbs.TriggerBase); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// snapshotLimiter limits the snapshots of a port to one a second and SnapshotsAMinute in any minute.
type snapshotLimiter struct{ taken []time.Time }

// SnapshotsAMinute is the largest number of snapshots of a port in a minute, base snapshots not
// counted.
const SnapshotsAMinute = 10

const (
	paceGap  = time.Second
	paceSpan = time.Minute
)

// nextAllowed returns the time from which on the next snapshot may be taken.
func (p *snapshotLimiter) nextAllowed() time.Time {
	n := len(p.taken)
	if n == 0 {
		return time.Time{}
	}
	at := p.taken[n-1].Add(paceGap)
	if n == SnapshotsAMinute && at.Before(p.taken[0].Add(paceSpan)) {
		at = p.taken[0].Add(paceSpan)
	}
	return at
}

// record records a snapshot.
func (p *snapshotLimiter) record(now time.Time) {
	if len(p.taken) == SnapshotsAMinute {
		p.taken = p.taken[1:]
	}
	p.taken = append(p.taken, now)
}

// watchEvidence makes the commands and takes the snapshots: a base snapshot of each port at once
// and every SnapshotInterval, and further ones on request. All calls that may hang are made in
// this goroutine, except the port queries. The session does not wait for it.
func (s *session) watchEvidence(ctx context.Context) error {
	commands, nextCommands, stopCommands := newTicks(s.asker.CommandInterval(), s.began)
	defer stopCommands()
	base, nextBase, stopBase := newTicks(s.o.SnapshotInterval, s.began)
	defer stopBase()
	first := s.baselineDone
	due, waking := newStoppedTimer(), false
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-first:
			first = nil
			s.asker.RequestSnapshots(verbs.TriggerBase)
		case <-base:
			nextBase()
			s.asker.RequestSnapshots(verbs.TriggerBase)
		case <-s.evidenceWake:
			if !waking { // a restart at each event would put the snapshot off for ever in a storm
				due.Reset(queryDelay) // for the reason at queryDelay
				waking = true
			}
		case <-due.C:
			waking = false
			next, err := s.asker.TakeSnapshots(ctx.Done())
			if err != nil {
				return err
			}
			if next > 0 {
				due.Reset(next)
			}
		case <-commands:
			nextCommands()
			if err := s.asker.RunCommands(); err != nil {
				return err
			}
		}
	}
}

// newTicks starts a ticker and returns its channel. The caller calls next after each tick, and stop at the end. Without an
// interval the channel is nil, so that no tick ever comes.
func newTicks(interval time.Duration, since time.Time) (c <-chan time.Time, next, stop func()) {
	if interval <= 0 {
		return nil, func() {}, func() {}
	}
	t := wake.NewTicker(interval, since)
	return t.C, t.Next, t.Stop
}
