package history

import (
	"time"

	"rdma_events/internal/verbs"
)

// probeTimeout is the plugin's default.
const probeTimeout = 500 * time.Millisecond

// prober simulates the probe of one port on completion vector 0, with the automatic
// choice of a method.
type prober struct {
	s      *openDevice
	port   *port
	probe  verbs.Probe // nil if none can be made now
	method verbs.Method
	seen   uint64 // the port's changes at the time of the choice
	next   int64  // when the next round is
}

// run probes every interval. After a round that took longer, it skips the rounds
// that it missed.
func (p *prober) run() {
	interval := p.s.k.h.cfg.ProbeInterval
	for p.step() == nil {
		p.next += int64(interval)
		p.next += int64(verbs.Missed(time.Duration(p.s.line.now-p.next), interval))
		if !p.s.line.wait(p.next) {
			return
		}
	}
}

func (p *prober) step() error {
	if p.probe == nil || p.seen != p.port.changes {
		return p.choose()
	}
	_, err := p.round()
	return err
}

// choose uses the first method whose first round ends without an error and without
// a lost completion.
func (p *prober) choose() error {
	p.drop()
	p.seen = p.port.changes
	methods := []verbs.Method{verbs.MethodRCWrite}
	if p.port.layer == verbs.LinkEthernet {
		methods = []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite}
	}
	if !p.s.dev.Attr().CountsFlushes {
		methods = append(methods, verbs.MethodFlush)
	}
	if named := p.s.k.h.cfg.Method; named != verbs.MethodNone {
		methods = []verbs.Method{named}
	}
	for _, m := range methods {
		probe, err := p.s.dev.NewProbe(verbs.ProbeConfig{
			ProbeKey: verbs.ProbeKey{Port: p.port.number, Method: m}, Timeout: probeTimeout, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
		})
		if err != nil {
			continue // the next method may do
		}
		p.probe, p.method = probe, m
		r, err := p.round()
		if err != nil {
			return err
		}
		if r.Outcome != verbs.OutcomeError && r.Outcome != verbs.OutcomeLostCompletion {
			return nil
		}
		p.drop()
	}
	return nil
}

func (p *prober) round() (verbs.Round, error) {
	r, err := p.probe.Round(0)
	if err != nil {
		return r, err
	}
	p.s.asks.NoteRound(p.port.number, r.Outcome)
	p.s.k.h.deliver(p.s.k, verbs.Item{Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: p.port.number, Method: p.method}, Round: r}})
	if !p.probe.Usable() {
		p.drop()
	}
	return r, nil
}

func (p *prober) drop() {
	if p.probe != nil {
		_ = p.probe.Close(closing) // the simulator's closes at once, or with the device
		p.probe = nil
	}
}
