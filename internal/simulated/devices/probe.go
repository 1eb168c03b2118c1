package devices

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// probe implements verbs.Probe.
type probe struct {
	d    *device
	c    verbs.ProbeConfig
	slot int    // index in the ledger
	key  uint64 // seed of its random numbers
	lifetime
	broken atomic.Bool // the queue pair is in state error

	// Used by the goroutine of Round, and by close after that goroutine has left.
	rounds  uint64
	lost    uint64 // link.lost when the queue pair was connected
	late    uint64 // events of abandoned rounds that have arrived since
	unacked uint64
	oldest  int64              // time at which the first unacknowledged event was read
	held    ledger.ProbeCounts // counts of a trial
	last    *ledger.Round      // the last round of a trial; nil: none

	nudge wake.Signal // holds a token after Nudge
}

// NewProbe implements verbs.Device.
func (d *device) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	p, err := d.newProbe(c)
	if err != nil {
		return nil, opError("new probe", d.attr.Name, c.Port, err)
	}
	return p, nil
}

func (d *device) newProbe(c verbs.ProbeConfig) (*probe, error) {
	if !d.gate.enter() {
		return nil, verbs.ErrClosed
	}
	defer d.gate.leave()
	lost, err := d.checkProbe(c)
	if err != nil {
		return nil, err
	}
	slot, err := d.led.AddProbe(c.Port, c.Vector, int(c.Method))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", verbs.ErrLimit, err)
	}
	c.AckBatch = max(c.AckBatch, 1)
	p := &probe{
		d: d, c: c, slot: slot, lifetime: newLifetime(), lost: lost, nudge: wake.New(),
		key: d.w.randomSeed(d.h.attr.Name, c.Port, c.Vector, c.Method.String()),
	}
	return p, d.addProbe(p)
}

// checkProbe returns an error if the device cannot create this probe now. Otherwise it returns
// the number of times that the link was lost so far.
func (d *device) checkProbe(c verbs.ProbeConfig) (lost uint64, err error) {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	d.h.advance(d.w.clock())
	if d.gone {
		return 0, verbs.ErrNoDevice
	}
	if c.Port < 1 || c.Port > len(d.h.ports) {
		return 0, fmt.Errorf("%w: the device has %d ports", verbs.ErrUnsupported, len(d.h.ports))
	}
	l := &d.h.ports[c.Port-1]
	switch {
	case c.Vector < 0 || c.Vector >= d.attr.Vectors:
		return 0, fmt.Errorf("%w: completion vector %d of %d", verbs.ErrUnsupported, c.Vector, d.attr.Vectors)
	case !slices.Contains(l.methods, c.Method):
		return 0, fmt.Errorf("%w: method %v", verbs.ErrUnsupported, c.Method)
	case c.Method != verbs.MethodFlush && c.GIDIndex >= l.gids:
		return 0, fmt.Errorf("%w: GID index %d of %d", verbs.ErrUnsupported, c.GIDIndex, l.gids)
	case c.PKeyIndex >= l.pkeys:
		return 0, fmt.Errorf("%w: P_Key index %d of %d", verbs.ErrUnsupported, c.PKeyIndex, l.pkeys)
	case c.Method != verbs.MethodFlush && !l.isUp:
		return 0, fmt.Errorf("%w: the port is down", verbs.ErrUnsupported)
	}
	return l.lost, nil
}

// Keep implements verbs.Probe.
func (p *probe) Keep() {
	if !p.gate.enter() {
		return
	}
	defer p.gate.leave()
	p.d.led.AddProbeCounts(p.slot, p.held)
	if p.last != nil {
		p.listRound(*p.last)
	}
	p.c.Trial, p.held, p.last = false, ledger.ProbeCounts{}, nil
}

// Usable implements verbs.Probe.
func (p *probe) Usable() bool { return !p.broken.Load() && !p.gate.isShutting() }

// Close implements verbs.Probe.
func (p *probe) Close(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return opError("close probe", p.d.attr.Name, p.c.Port, p.closeOnce(ctx, p.destroy))
}

// close is called by the device.
func (p *probe) close(ctx context.Context) error { return p.closeFromDevice(ctx, p.destroy) }

func (p *probe) destroy(ctx context.Context) error {
	if !p.gate.wait(ctx) {
		return verbs.ErrStuck
	}
	p.d.led.AddProbeCounts(p.slot, ledger.ProbeCounts{Acked: p.unacked})
	p.unacked = 0
	if err := p.d.runDestroy(ctx, p.setThreadState, ledger.CallDestroyCQ); err != nil {
		return err
	}
	p.d.forgetProbe(p)
	return nil
}

func (p *probe) setThreadState(c ledger.Call, now int64) { p.d.led.SetProbeCall(p.slot, c, now) }

// drawStages returns the durations of the current round. They depend only on the seed,
// the target of the probe and the number of the round.
func (p *probe) drawStages() stages {
	return drawStages(rand.New(rand.NewPCG(p.key, p.rounds)), p.c.Method)
}
