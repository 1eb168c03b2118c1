package history

import (
	"errors"
	"time"

	"rdma_events/internal/verbs"
)

// These are the plugin's defaults.
const (
	commandInterval = 10 * time.Second
	commandStuck    = 5 * time.Second
)

// commandMedian is that of a query, which takes no time in the simulator unless its
// scenario says so.
const commandMedian = 20 * time.Microsecond

// askFirmware makes one call for each port at an interval for which the device's firmware
// has to answer.
func (s *openDevice) askFirmware() {
	if c := s.dev.Commands(); !c.Has(verbs.CommandHWCounters) && !c.Has(verbs.CommandQueryQP) {
		return
	}
	for next := s.line.now + int64(commandInterval); s.line.wait(next); {
		for _, p := range s.ports {
			if s.ask(p.number) != nil {
				return
			}
		}
		for next <= s.line.now { // as a ticker, which drops the ticks of a slow reader
			next += int64(commandInterval)
		}
	}
}

// ask reads a counter, or else queries the queue pair of a probe. The only error is that
// the device is closed.
func (s *openDevice) ask(port int) error {
	for _, c := range []struct {
		call verbs.CommandCall
		make func(port int) error
	}{{verbs.CommandHWCounters, s.dev.ReadCounter}, {verbs.CommandQueryQP, s.dev.QueryQP}} {
		if !s.dev.Commands().Has(c.call) {
			continue
		}
		var err error
		mono, took := s.timed(func() { err = c.make(port) })
		switch {
		case errors.Is(err, verbs.ErrClosed):
			return err
		case !errors.Is(err, verbs.ErrUnsupported):
			s.k.h.deliver(s.k, verbs.Item{Command: &verbs.Command{
				Call: c.call, Port: port, Mono: mono, Took: took, Status: verbs.CommandStatus(err),
			}})
			return nil
		}
	}
	return nil
}

// timed makes a call. If the call is late, the monitor gets a batch in which nothing is, and
// finds the call in the ledger.
func (s *openDevice) timed(call func()) (mono, took int64) {
	late := s.line.start(s.line.now+int64(commandStuck), func() { s.k.h.deliver(s.k) })
	defer s.line.end(late)
	mono = s.line.now
	call()
	return mono, s.line.now - mono
}

// queryPort queries a port and adds the time that a query takes without a fault.
func (s *openDevice) queryPort(number int) (r *verbs.Reading, items []verbs.Item, err error) {
	r = &verbs.Reading{Port: number}
	r.Mono, r.Took = s.timed(func() { r.Attr, err = s.dev.QueryPort(number) })
	if err != nil {
		r.Err = err.Error()
	}
	items = []verbs.Item{{Reading: r}}
	if s.dev.Commands().Has(verbs.CommandQueryPort) {
		items = append(items, verbs.Item{Command: &verbs.Command{
			Call: verbs.CommandQueryPort, Port: number, Mono: r.Mono, Took: max(r.Took, s.k.h.draw(commandMedian)), Status: verbs.CommandStatus(err),
		}})
	}
	return r, items, err
}
