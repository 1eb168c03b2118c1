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
	sup    Supervisor
	run    func() error // blocks
	cancel context.CancelFunc
	over   bool // canceled, and not ended yet
	again  bool // the device came back in the meantime
}

// supervise makes a worker try to open the device now.
func (m *Monitor) supervise(ctx context.Context, d *Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.released: // a later Review starts a worker
	case d.job == nil:
		d.job = m.newJob(ctx, d)
		first := d.job
		m.wg.Go(func() { m.work(ctx, d, first) })
	case d.job.over:
		d.job.again = true
	default:
		d.job.sup.Wake()
	}
}

func (m *Monitor) newJob(ctx context.Context, d *Device) *job {
	ctx, cancel := context.WithCancel(ctx)
	d.status = status.Status{}
	sup := m.cfg.NewSupervisor(d.name, d)
	return &job{sup: sup, cancel: cancel, run: func() error {
		defer cancel()
		return sup.Run(ctx)
	}}
}

// work runs the Supervisors of a device, one after the other.
func (m *Monitor) work(ctx context.Context, d *Device, j *job) {
	for j != nil {
		err := j.run()
		if err != nil && !errors.Is(err, context.Canceled) {
			d.log.Warn("supervision ended", "error", err)
		}
		j = m.nextJob(ctx, d, err)
	}
}

// nextJob returns the job after one whose Supervisor has returned err, nil if there is none.
func (m *Monitor) nextJob(ctx context.Context, d *Device, err error) *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noteAbandoned(err)
	again := d.job.again && ctx.Err() == nil
	d.restarts += d.status.Restarts
	d.crashes += d.status.Crashes
	d.status.Restarts, d.status.Crashes = 0, 0
	d.led, d.collectRings = nil, nil // its Supervisor has unmapped it
	d.job = nil
	if again {
		d.job = m.newJob(ctx, d)
	}
	return d.job
}

// lingering is how long a removal may be under way while discovery still finds the device.
const lingering = 10 * time.Second

// retryInterval is how often retryAll looks for devices to try again.
const retryInterval = lingering / 4

// retryAll tries devices again (retry) until ctx ends, whether or not Gather is called.
func (m *Monitor) retryAll(ctx context.Context) {
	tick := wake.NewTicker(retryInterval, time.Time{})
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Next()
			t := m.clock.read()
			installed := m.cfg.LibrariesChanged()
			o := m.overviewNow(&t)
			for _, d := range o.devices {
				d.explainAbsence(o.found, &t)
				d.retryNow(&t)
				if installed {
					d.retryUnwatchable()
				}
			}
		}
	}
}

func (d *Device) retryNow(t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retry(t)
	d.emitIfChanged(t)
}

// retry starts another attempt to open a device if its worker and discovery have
// disagreed for so long that its removal cannot still be under way. The caller holds
// d.mu.
func (d *Device) retry(t *moment) {
	d.lookAtFunction()
	d.confirmRemovalInTime(t)
	if d.job == nil || d.job.over || t.mono-d.goneAt < int64(lingering) {
		return
	}
	switch {
	case !d.present && d.listed:
		// The worker reported a removal. A removal takes the node first, so a device that
		// still has its node is present.
		d.goneAt = t.mono
		d.job.sup.Wake()
	case d.present && d.reason == status.ReasonUnwatchable:
		// Its Supervisor tries again by itself, and others wake it after a change.
	case d.present && !d.watching && d.status.State == status.StateStopped:
		// The Supervisor missed the device for a moment, and discovery did not.
		d.goneAt = t.mono
		d.job.sup.Wake()
	case d.present && d.watching && !d.open:
		// Discovery found a successor, but the worker has not ended. It may have opened
		// the successor before discovery found it.
		d.dismiss()
		d.job.again = true
	}
}

// dismiss ends the supervision of a device. The caller holds d.mu.
func (d *Device) dismiss() {
	if d.job != nil {
		d.job.over, d.job.again = true, false
		d.job.cancel()
	}
}
