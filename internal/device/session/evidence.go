package session

import (
	"context"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// kick is a reason to take a snapshot of a port. The reader, the querier and the probers set
// it, and never wait for what comes of it.
type kick struct {
	mu     sync.Mutex
	why    verbs.Trigger // "": none
	at     int64         // CLOCK_MONOTONIC ns
	merged uint64
}

// add notes a trigger. One that waits already takes the others with it, and the one that
// matters most names the snapshot.
func (k *kick) add(why verbs.Trigger, at int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.why != "" && k.why != verbs.TriggerBase && why != verbs.TriggerBase {
		k.merged++
	}
	if k.why == "" || weight(why) > weight(k.why) {
		k.why, k.at = why, at
	}
}

// weight orders triggers that wait for the same snapshot.
func weight(why verbs.Trigger) int {
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

// take returns the trigger that waits, and forgets it. It leaves one that came since waiting
// returned a base: that has not passed the pace.
func (k *kick) take(base bool) (why verbs.Trigger, at int64, merged uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if base && k.why != verbs.TriggerBase {
		return "", 0, 0
	}
	why, at, merged = k.why, k.at, k.merged
	k.why, k.merged = "", 0
	return why, at, merged
}

// waiting returns the trigger that waits, "" if none does.
func (k *kick) waiting() verbs.Trigger {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.why
}

// Kick asks for a snapshot of a port. at is CLOCK_MONOTONIC in ns. A port that is not watched
// has none.
func (a *Asker) Kick(port int, why verbs.Trigger, at int64) {
	if p := a.port(port); p != nil && a.Options.SnapshotInterval > 0 {
		p.kick.add(why, at)
		a.Wake()
	}
}

// KickAll asks for a snapshot of each port.
func (a *Asker) KickAll(why verbs.Trigger) {
	now := a.Clock.Monotonic()
	for _, p := range a.ports {
		a.Kick(p.number, why, now)
	}
}

// NoteRun asks for a snapshot after events that one explains. Those of the whole device are
// explained with its first port.
func (a *Asker) NoteRun(r *verbs.Run) {
	port := r.Port
	for _, p := range a.ports {
		if port == 0 || port == p.number {
			p.noteEvent(r.Type)
		}
	}
	if r.Type == verbs.EventDeviceFatal {
		now := a.Clock.Now()
		a.fatal.Store(&now)
		if len(a.ports) > 0 {
			port = a.ports[0].number
		}
	}
	if explained(r.Type) {
		a.Kick(port, verbs.Trigger(r.Type.String()), r.First)
	}
}

// NoteRound asks for a snapshot after a round that one explains.
func (a *Asker) NoteRound(port int, o verbs.Outcome) {
	switch o {
	case verbs.OutcomeLostEvent:
		a.Kick(port, verbs.TriggerLostEvent, a.Clock.Monotonic())
	case verbs.OutcomeLostCompletion:
		a.Kick(port, verbs.TriggerLostCompletion, a.Clock.Monotonic())
	}
}

// explained reports whether a snapshot is taken after an event of type t. One after
// port_active would say that all is well.
func explained(t verbs.EventType) bool {
	switch t {
	case verbs.EventPortErr, verbs.EventDeviceFatal, verbs.EventGIDChange, verbs.EventLIDChange, verbs.EventPKeyChange,
		verbs.EventSMChange:
		return true
	}
	return false
}

// TakeSnapshots takes those that are asked for, at most at the pace of pace. It begins no
// further part of one once ended is closed. It returns in what time the next one may be taken,
// 0 if none waits. The only error is ErrClosed.
func (a *Asker) TakeSnapshots(ended <-chan struct{}) (next time.Duration, err error) {
	for _, p := range a.ports {
		waiting := p.kick.waiting()
		switch waiting {
		case "":
			continue
		case verbs.TriggerBase: // it has an interval of its own
		default:
			now := a.Clock.Now()
			if left := p.pace.next().Sub(now); left > 0 {
				if next == 0 || left < next {
					next = left
				}
				continue
			}
			p.pace.take(now)
		}
		if err := a.takeSnapshot(ended, p, waiting == verbs.TriggerBase); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// pace limits the snapshots of a port: one at once, then one a second, ten a minute.
type pace struct{ taken []time.Time }

// SnapshotsAMinute is how many snapshots of a port are taken in a minute at most, besides the
// bases.
const SnapshotsAMinute = 10

const (
	paceGap  = time.Second
	paceSpan = time.Minute
)

// next returns when the next snapshot may be taken.
func (p *pace) next() time.Time {
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

func (p *pace) take(now time.Time) {
	if len(p.taken) == SnapshotsAMinute {
		p.taken = p.taken[1:]
	}
	p.taken = append(p.taken, now)
}

// watchEvidence makes the commands, and takes the snapshots: one of each port at first and every
// SnapshotInterval as a base, and others when they are asked for. All that may hang is in this
// one goroutine, except the queries. It is not waited for.
func (s *session) watchEvidence(ctx context.Context) error {
	commands, nextCommands, stopCommands := ticks(s.asks.CommandInterval(), s.began)
	defer stopCommands()
	base, nextBase, stopBase := ticks(s.o.SnapshotInterval, s.began)
	defer stopBase()
	first := s.baselineDone
	due, waking := stopped(), false
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-first:
			first = nil
			s.asks.KickAll(verbs.TriggerBase)
		case <-base:
			nextBase()
			s.asks.KickAll(verbs.TriggerBase)
		case <-s.evidenceWake:
			if !waking { // a storm would put it off for ever
				due.Reset(queryDelay) // for the reason that the querier has
				waking = true
			}
		case <-due.C:
			waking = false
			next, err := s.asks.TakeSnapshots(ctx.Done())
			if err != nil {
				return err
			}
			if next > 0 {
				due.Reset(next)
			}
		case <-commands:
			nextCommands()
			if err := s.asks.AskAll(); err != nil {
				return err
			}
		}
	}
}

// ticks returns a ticker's channel, what is to be called after each tick, and what stops it; without an interval, a channel on
// which nothing comes.
func ticks(interval time.Duration, since time.Time) (c <-chan time.Time, next, stop func()) {
	if interval <= 0 {
		return nil, func() {}, func() {}
	}
	t := wake.NewTicker(interval, since)
	return t.C, t.Next, t.Stop
}
