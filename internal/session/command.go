package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"rdma_events/internal/clock"
	"rdma_events/internal/verbs"
)

// watchCommands makes one call for each port every CommandInterval for which the device's
// firmware has to answer. It waits for an interval before the first, so that workers that
// are restarted ask no more often. It has a goroutine of its own and is not waited for,
// since a call may hang for as long as the firmware does.
func (s *session) watchCommands(ctx context.Context) error {
	if !s.commands.Has(verbs.CommandHWCounters) && !s.commands.Has(verbs.CommandQueryQP) {
		return nil
	}
	tick := time.NewTicker(s.o.CommandInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, p := range s.ports {
			if err := s.ask(p.number); err != nil {
				return unlessClosed(ctx, err)
			}
		}
	}
}

// ask makes one call for a port and sends the result. It reads a counter, which takes no
// object of ours and also works on a port that is down, or else queries the queue pair of a
// probe. Without both it makes none. The only error is ErrClosed: whether a device is gone
// is for the queries of its ports to say.
func (s *session) ask(port int) error {
	for _, c := range []struct {
		call verbs.CommandCall
		make func(port int) error
	}{{verbs.CommandHWCounters, s.dev.ReadCounter}, {verbs.CommandQueryQP, s.dev.QueryQP}} {
		if !s.commands.Has(c.call) {
			continue
		}
		var err error
		mono, took := s.timed(func() { err = c.make(port) })
		switch {
		case errors.Is(err, verbs.ErrClosed):
			return err
		case !errors.Is(err, verbs.ErrUnsupported):
			s.out.add(verbs.Item{Command: &verbs.Command{
				Call: c.call, Port: port, Mono: mono, Took: took, Status: verbs.CommandStatus(err),
			}})
			return nil
		}
	}
	return nil
}

// reportQuery sends the query of a port as a Command if it is one, or if one was stuck:
// then its end has to be known.
func (s *session) reportQuery(p *port, r *verbs.Reading, err error) {
	if s.o.CommandInterval <= 0 {
		return
	}
	p.late = p.late || r.Took >= int64(s.o.CommandStuck)
	if s.commands.Has(verbs.CommandQueryPort) || p.late {
		s.out.add(verbs.Item{Command: &verbs.Command{
			Call: verbs.CommandQueryPort, Port: r.Port, Mono: r.Mono, Took: r.Took, Status: verbs.CommandStatus(err),
		}})
	}
}

// soon is within what time a device answers. A prober makes and destroys no queue pair while
// a call lasts longer: those are commands too, and a worker that hangs in one is lost.
const soon = 100 * time.Millisecond

// timed makes a call that the firmware may not answer. When the call has lasted for
// CommandStuck, the host gets a batch and finds the call in the ledger. mono is
// CLOCK_MONOTONIC before the call, took its ns.
func (s *session) timed(call func()) (mono, took int64) {
	var mu sync.Mutex
	isSlow, over := false, false
	slow := time.AfterFunc(soon, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			isSlow = true
			s.slow.Add(1)
		}
	})
	defer func() {
		slow.Stop()
		mu.Lock()
		defer mu.Unlock()
		if over = true; isSlow {
			s.slow.Add(-1)
		}
	}()
	if s.o.CommandInterval > 0 {
		late := time.AfterFunc(s.o.CommandStuck, func() { signal(s.out.ready) })
		defer late.Stop()
	}
	mono = clock.Monotonic()
	call()
	return mono, clock.Monotonic() - mono
}
