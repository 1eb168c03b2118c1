package session

import (
	"errors"
	"time"

	"rdma_events/internal/device/verbs"
)

// CommandInterval is how often AskAll is to be called, 0 for never. The first call is due
// after an interval, so that workers that are restarted ask no more often.
func (a *Asker) CommandInterval() time.Duration {
	if !a.commands.Has(verbs.CommandHWCounters) && !a.commands.Has(verbs.CommandQueryQP) {
		return 0
	}
	return a.Options.CommandInterval
}

// AskAll makes one call for each port. The only error is ErrClosed.
func (a *Asker) AskAll() error {
	for _, p := range a.ports {
		if err := a.ask(p.number); err != nil {
			return err
		}
	}
	return nil
}

// ask makes one call for a port and sends the result. It reads a counter, which takes no
// object of ours and also works on a port that is down, or else queries the queue pair of a
// probe. Without both it makes none. The only error is ErrClosed: whether a device is gone
// is for the queries of its ports to say.
func (a *Asker) ask(port int) error {
	for _, c := range []struct {
		call verbs.CommandCall
		make func(port int) error
	}{{verbs.CommandHWCounters, a.Device.ReadCounter}, {verbs.CommandQueryQP, a.Device.QueryQP}} {
		if !a.commands.Has(c.call) || !a.refusals.Allow(port, readOf(c.call)) {
			continue
		}
		var err error
		mono, took := a.timed(func() { err = c.make(port) })
		a.refusals.Note(port, readOf(c.call), err)
		switch {
		case errors.Is(err, verbs.ErrClosed):
			return err
		case !errors.Is(err, verbs.ErrUnsupported):
			a.Send(verbs.Item{Command: &verbs.Command{
				Call: c.call, Port: port, Mono: mono, Took: took, Status: verbs.CommandStatus(err),
			}})
			return nil
		}
	}
	return nil
}

// ReportQuery sends what came of a query of a port, also as a Command if it is one. That a
// query was answered after all is in its Reading, with any driver.
func (a *Asker) ReportQuery(r *verbs.Reading, err error) {
	if a.commands.Has(verbs.CommandQueryPort) {
		a.Send(verbs.Item{Command: &verbs.Command{
			Call: verbs.CommandQueryPort, Port: r.Port, Mono: r.Mono, Took: r.Took, Status: verbs.CommandStatus(err),
		}})
	}
	a.Send(verbs.Item{Reading: r})
}

// timed makes a call that the firmware may not answer. When the call has lasted for
// CommandStuck, the host gets a batch and finds the call in the ledger. mono is
// CLOCK_MONOTONIC before the call, took its ns.
func (a *Asker) timed(call func()) (mono, took int64) {
	counted := make(chan struct{})
	stop := a.Clock.AfterFunc(verbs.AnswerLimit, func() {
		a.slow.Add(1)
		close(counted)
	})
	defer func() {
		if !stop() {
			<-counted // otherwise the count is one too low for a moment, and hides another call
			a.slow.Add(-1)
		}
	}()
	if a.Options.CommandInterval > 0 {
		stop := a.Clock.AfterFunc(a.Options.CommandStuck, a.Late)
		defer stop()
	}
	mono = a.Clock.Monotonic()
	call()
	return mono, a.Clock.Monotonic() - mono
}
