package session

import (
	"context"
	"time"

	"rdma_events/internal/device/verbs"
)

// watchEvidence makes the commands, and takes the snapshots: one of each port at first and every
// SnapshotInterval as a base, and others when they are asked for. All that may hang is in this
// one goroutine, except the queries. It is not waited for.
func (s *session) watchEvidence(ctx context.Context) error {
	commands, stopCommands := ticks(s.asks.CommandInterval())
	defer stopCommands()
	base, stopBase := ticks(s.o.SnapshotInterval)
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
			if err := s.asks.AskAll(); err != nil {
				return err
			}
		}
	}
}

// ticks returns a ticker's channel and what stops it; without an interval, a channel on which
// nothing comes.
func ticks(interval time.Duration) (c <-chan time.Time, stop func()) {
	if interval <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(interval)
	return t.C, t.Stop
}
