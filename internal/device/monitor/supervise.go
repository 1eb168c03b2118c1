package monitor

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/sys/status"
	"rdma_events/internal/sys/wake"
)

// job is the running Supervisor of a device. Device.mu guards its fields.
type job struct {
	sup      Supervisor
	run      func() error // blocks
	cancel   context.CancelFunc
	canceled bool // the Supervisor is to end, and has not ended yet
	restart  bool // start another Supervisor when this one has ended: the device has come back
}

// supervise makes a worker try to open the device now, unless the device is released.
func (m *Monitor) supervise(ctx context.Context, d *Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.released: // a later Review starts a worker
	case d.job == nil:
		d.job = m.newJob(ctx, d)
		first := d.job
		m.wg.Go(func() { m.runJobs(ctx, d, first) })
	case d.job.canceled:
		d.job.restart = true
	default:
		d.job.sup.Wake()
	}
}

// newJob returns a job with a new Supervisor for d. The caller holds d.mu.
func (m *Monitor) newJob(ctx context.Context, d *Device) *job {
	ctx, cancel := context.WithCancel(ctx)
	d.status = status.Status{}
	sup := m.cfg.NewSupervisor(d.name, d)
	return &job{sup: sup, cancel: cancel, run: func() error {
		defer cancel()
		return sup.Run(ctx)
	}}
}

// runJobs runs the Supervisors of a device, one after the other.
func (m *Monitor) runJobs(ctx context.Context, d *Device, j *job) {
	for j != nil {
		err := j.run()
		if err != nil && !errors.Is(err, context.Canceled) {
			d.log.Warn("supervision ended", "error", err)
		}
		j = m.nextJob(ctx, d, err)
	}
}

// nextJob ends the present job, whose Supervisor has returned err, and returns the next one, nil if there is none.
func (m *Monitor) nextJob(ctx context.Context, d *Device, err error) *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recordUnclosed(err)
	again := d.job.restart && ctx.Err() == nil
	d.restarts += d.status.Restarts
	d.crashes += d.status.Crashes
	d.status.Restarts, d.status.Crashes = 0, 0
	d.ledger, d.collectRings = nil, nil // its Supervisor has unmapped it
	d.job = nil
	if again {
		d.job = m.newJob(ctx, d)
	}
	return d.job
}

// removalLimit is the longest time for which discovery may still find a device that is being removed.
const removalLimit = 10 * time.Second

// retryInterval is the interval of retryDevices.
const retryInterval = removalLimit / 4

// repeatByHostClock calls f in intervals of the host's clock. It is the default of Config.Repeat.
func repeatByHostClock(ctx context.Context, interval time.Duration, f func()) {
	tick := wake.NewTicker(interval, time.Time{})
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Next()
			f()
		}
	}
}

// retryDevices looks for devices to open again, and for the reasons why others are absent. The Monitor calls it whether or not Gather is
// called.
func (m *Monitor) retryDevices() {
	t := m.clock.read()
	installed := m.cfg.LibrariesChanged()
	o := m.takeOverview(&t)
	for _, d := range o.devices {
		d.explainAbsence(o.found, &t)
		d.retryAndEmit(&t)
		if installed {
			d.retryUnwatchable()
		}
	}
}

func (d *Device) retryAndEmit(t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retryOpening(t)
	d.emitIfChanged(t)
}

// retryOpening starts another attempt to open a device if its worker and discovery have
// disagreed for so long that its removal cannot still be under way. The caller holds
// d.mu.
func (d *Device) retryOpening(t *moment) {
	d.checkFunction()
	d.confirmOverdueRemoval(t)
	if d.job == nil || d.job.canceled || t.mono-d.goneAt < int64(removalLimit) {
		return
	}
	switch {
	case !d.present && d.listed:
		// The worker reported a removal. A removal takes the node first, so a device that
		// still has its node is present.
		d.goneAt = t.mono
		d.job.sup.Wake()
	case d.present && d.reason == status.ReasonUnwatchable:
		// The Supervisor tries again by itself, and is woken when the device or the libraries change.
	case d.present && !d.watching && d.status.State == status.StateStopped:
		// The Supervisor missed the device for a moment, and discovery did not.
		d.goneAt = t.mono
		d.job.sup.Wake()
	case d.present && d.watching && !d.open:
		// Discovery found a successor of the device, but the worker has not ended. The worker
		// may have opened the successor before discovery found it.
		d.restartSupervision()
	}
}

// restartSupervision ends the supervision of a device, and starts another one. The caller holds d.mu.
func (d *Device) restartSupervision() {
	d.endSupervision()
	if d.job != nil {
		d.job.restart = true
	}
}

// endSupervision ends the supervision of a device. The caller holds d.mu.
func (d *Device) endSupervision() {
	if d.job != nil {
		d.job.canceled, d.job.restart = true, false
		d.job.cancel()
	}
}
