package monitor

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/status"
)

// job is the running Supervisor of a device. Its members are guarded by the
// device's lock.
type job struct {
	sup    Supervisor
	run    func() error // blocks
	cancel context.CancelFunc
	over   bool // told to end
	again  bool // the device came back in the meantime
}

// supervise sees to it that a worker tries to open the device now.
func (m *Monitor) supervise(ctx context.Context, d *Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
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
		if err := j.run(); err != nil && !errors.Is(err, context.Canceled) {
			d.log.Warn("supervision ended", "error", err)
		}
		j = m.nextJob(ctx, d)
	}
}

func (m *Monitor) nextJob(ctx context.Context, d *Device) *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.job.again && ctx.Err() == nil
	d.restarts += d.status.Restarts
	d.crashes += d.status.Crashes
	d.status.Restarts, d.status.Crashes = 0, 0
	d.led = nil // its Supervisor has unmapped it
	d.job = nil
	if again {
		d.job = m.newJob(ctx, d)
	}
	return d.job
}

// retry sees to a device about which its worker and discovery do not agree for
// so long that it cannot be on its way out. The caller holds d.mu.
func (d *Device) retry(t *moment) {
	const lingering = 10 * time.Second
	if d.job == nil || d.job.over || t.mono-d.goneAt < int64(lingering) {
		return
	}
	switch {
	case !d.present && d.listed:
		// The worker took it for removed. A removal takes the node first, so that a
		// device which has one is there.
		d.goneAt = t.mono
		d.job.sup.Wake()
	case d.present && d.watching && !d.open:
		// A successor was found, and no worker's end: it may be the successor that the
		// worker has open, since before discovery found it.
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
