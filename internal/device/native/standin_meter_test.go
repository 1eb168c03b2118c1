//go:build linux && cgo

package native_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// meter is a backend that records which library calls each operation of a watch causes.
// The watch has one prober, so all calls during an operation of a probe belong to that
// operation. Only ibv_query_port does not: the querier calls it too.
type meter struct {
	verbs.Backend
	c       *standin.Control
	removed chan struct{} // closed: the device is being removed

	mu      sync.Mutex
	first   verbs.Method // the method with which a choice begins
	choices int          // number of choices that have begun
	kept    int          // number of the last choice that found a method
	method  verbs.Method // the method that it found
	current work         // of the choice that is under way
	ended   work         // of the last choice that found no method
	number  int          // number of that choice
	rounds  work         // that succeeded, of the probe that was kept last
	queries int          // of the port, those of a new probe included
}

// patience is the factor by which a close may take longer here than a session allows. A session allows a second, in which each of
// several threads has to run; here twenty processes share the processors with other tests.
const patience = 10

// work counts how often an operation was done, and the calls that it made.
type work struct {
	n       int
	queries int
	calls   map[ledger.Call]int
}

func newMeter(b verbs.Backend, c *standin.Control) *meter {
	return &meter{Backend: b, c: c, removed: make(chan struct{})}
}

// each returns the number of firmware commands of one of the w.n operations on a device of p,
// port queries not counted.
func (w work) each(p standin.Profile) (int, error) {
	commands := p.CountCommands(w.calls)
	if w.n == 0 || commands%w.n != 0 {
		return 0, fmt.Errorf("%d times the same took %d commands: %v", w.n, commands, w.calls)
	}
	return commands / w.n, nil
}

func (w *work) add(calls map[ledger.Call]int) {
	if w.calls == nil {
		w.calls = map[ledger.Call]int{}
	}
	for call, n := range calls {
		w.calls[call] += n
	}
}

// made returns the calls that f makes, except ibv_query_port.
func (m *meter) made(f func()) map[ledger.Call]int {
	before := m.c.Calls
	f()
	calls := map[ledger.Call]int{}
	for call, n := range m.c.Calls {
		if n -= before[call]; n != 0 && ledger.Call(call) != ledger.CallQueryPort {
			calls[ledger.Call(call)] = int(n)
		}
	}
	return calls
}

// begun returns how many choices have begun.
func (m *meter) begun() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.choices
}

// found returns the rounds of the last choice that found a method, if it found this one
// and is later than the number after.
func (m *meter) found(after int, method verbs.Method) work {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept <= after || m.method != method {
		return work{}
	}
	w := m.rounds
	w.calls = maps.Clone(w.calls)
	return w
}

// futile returns the last choice that found no method, if it is later than the number
// after.
func (m *meter) futile(after int) work {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.number <= after {
		return work{}
	}
	return m.ended
}

// asked returns how often the port was queried.
func (m *meter) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queries
}

func (m *meter) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := m.Backend.Open(name, led)
	if err != nil {
		return nil, err
	}
	return &meteredDevice{d, m}, nil
}

// WaitRemoved implements session.RemovalWatcher.
func (m *meter) WaitRemoved(ctx context.Context, _ string) error {
	select {
	case <-m.removed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type meteredDevice struct {
	verbs.Device
	m *meter
}

func (d *meteredDevice) QueryPort(port int) (verbs.PortAttr, error) {
	attr, err := d.Device.QueryPort(port)
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if !errors.Is(err, verbs.ErrClosed) {
		d.m.queries++
	}
	return attr, err
}

func (d *meteredDevice) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	d.m.begin(c.Method)
	var p verbs.Probe
	var err error
	calls := d.m.made(func() { p, err = d.Device.NewProbe(c) })
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	d.m.current.add(calls)
	if !errors.Is(err, verbs.ErrClosed) {
		d.m.current.queries++
		d.m.queries++
	}
	if err != nil {
		return nil, err
	}
	return &meteredProbe{Probe: p, m: d.m, method: c.Method}, nil
}

// Close gives the library more time than a session does.
func (d *meteredDevice) Close(timeout time.Duration) error { return d.Device.Close(patience * timeout) }

// begin records that a probe is about to be created, and whether a choice begins with it.
func (m *meter) begin(method verbs.Method) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first == verbs.MethodNone {
		m.first = method
	}
	if method != m.first {
		return
	}
	if m.current.n > 0 {
		m.ended, m.number = m.current, m.choices
	}
	m.choices++
	m.current = work{n: 1}
}

type meteredProbe struct {
	verbs.Probe
	m      *meter
	method verbs.Method
	kept   bool // by the prober
}

// Round counts as part of a choice: it is a trial.
func (p *meteredProbe) Round(pause time.Duration) (r verbs.Round, err error) {
	calls := p.m.made(func() { r, err = p.Probe.Round(pause) })
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.m.current.add(calls)
	return r, err
}

func (p *meteredProbe) Keep() {
	p.Probe.Keep()
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.kept, p.m.kept, p.m.method = true, p.m.choices, p.method
	p.m.current, p.m.rounds = work{}, work{}
}

// Rounds counts the rounds only if all of them succeeded.
func (p *meteredProbe) Rounds(pace verbs.Pace) (last verbs.Round, n int, err error) {
	calls := p.m.made(func() { last, n, err = p.Probe.Rounds(verbs.Pace{Pause: pace.Pause}) })
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if last.Outcome == verbs.OutcomeSuccess {
		p.m.rounds.n += n
		p.m.rounds.add(calls)
	}
	return last, n, err
}

func (p *meteredProbe) Close(timeout time.Duration) (err error) {
	calls := p.m.made(func() { err = p.Probe.Close(patience * timeout) })
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if !p.kept {
		p.m.current.add(calls)
	}
	return err
}
