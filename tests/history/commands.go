package history

import (
	"time"

	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
)

// These are the plugin's defaults.
const (
	commandInterval  = 10 * time.Second
	commandStuck     = 5 * time.Second
	snapshotInterval = time.Minute
)

// commandMedian is that of a query, which takes no time in the simulator unless its
// scenario says so.
const commandMedian = 20 * time.Microsecond

// snapshotDelay is the time between the request for a snapshot and the snapshot, as in package session.
const snapshotDelay = 10 * time.Millisecond

// newAsker returns what asks the device, on the clock of the history. It is the plugin's own.
func (s *openDevice) newAsker() *session.Asker {
	return session.NewAsker(session.AskerConfig{
		Device: s.dev,
		Options: verbs.Options{
			CommandInterval: commandInterval, CommandStuck: commandStuck,
			SnapshotInterval: snapshotInterval, Ethtool: verbs.EthtoolLink,
		},
		Clock:      historyClock{s.k.h},
		Send:       s.sendItem,
		OnRTNLFree: func() {},                     // no query waits in a history
		OnStuck:    func() { s.k.h.deliver(s.k) }, // the monitor finds the call in the ledger
		OnSnapshotDue: func() {
			s.snapshots = min(s.snapshots, s.line.now+int64(snapshotDelay))
			if s.asker != nil { // it may not have begun
				s.line.rouse(s.asker, s.snapshots)
			}
		},
	})
}

// sendItem delivers what came of asking the device, with the time that a query takes without a
// fault. The host always gets it.
func (s *openDevice) sendItem(i verbs.Item) bool {
	if c := i.Command; c != nil && c.Call == verbs.CommandQueryPort {
		c.Took = max(c.Took, s.k.h.draw(commandMedian))
	}
	s.k.h.deliver(s.k, i)
	return true
}

// ask makes the calls that may hang, as does the goroutine of package session that is not
// waited for.
func (s *openDevice) ask() {
	commands, bases := int64(never), s.line.now
	if every := s.asks.CommandInterval(); every > 0 {
		commands = s.line.now + int64(every)
	}
	for s.line.wait(min(commands, bases, s.snapshots)) {
		now := s.line.now
		switch {
		case s.snapshots <= now:
			s.snapshots = never
			next, err := s.asks.TakeSnapshots(nil)
			if err != nil {
				return
			}
			if next > 0 {
				s.snapshots = min(s.snapshots, s.line.now+int64(next))
			}
		case bases <= now:
			s.asks.RequestSnapshots(verbs.TriggerBase)
			bases = nextTick(now, bases, snapshotInterval)
		case commands <= now:
			if s.asks.RunCommands() != nil {
				return
			}
			commands = nextTick(s.line.now, commands, commandInterval)
		}
	}
}

// nextTick returns the first tick after now. Like a time.Ticker, it drops the ticks that a slow reader missed.
func nextTick(now, tick int64, every time.Duration) int64 {
	for tick <= now {
		tick += int64(every)
	}
	return tick
}

// historyClock is a session.Clock.
type historyClock struct{ h *host }

func (c historyClock) Now() time.Time { return c.h.wall() }

func (c historyClock) Monotonic() int64 { return c.h.line.now }

func (c historyClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	called := false
	l := c.h.line.start(c.h.line.now+int64(d), func() {
		called = true
		f()
	})
	return func() bool {
		c.h.line.end(l)
		return !called
	}
}
