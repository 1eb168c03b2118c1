package monitor

import (
	"context"
	"errors"
	"fmt"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// Release describes a released device (Config.Released).
type Release struct {
	Device string
	Open   bool   // its worker still runs
	Held   string // why a worker that may still have the device open could not be ended; "": there is no such worker
}

// Review applies Config.Released to all devices. It makes workers close the devices that are released, and starts workers for
// devices that no longer are. Review does not wait for the workers. It returns once Run has handled the request, or with an error
// if ctx ends first.
func (m *Monitor) Review(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case m.reviews <- done:
	case <-ctx.Done():
		return fmt.Errorf("review releases: %w", ctx.Err())
	}
	<-done // handling the request does not block
	return nil
}

// Released returns the devices that are released, sorted by name.
func (m *Monitor) Released() []Release {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Release
	for _, d := range m.devices {
		if r, ok := d.releaseState(); ok {
			all = append(all, r)
		}
	}
	return all
}

func (d *Device) releaseState() (r Release, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A device that is absent or was never seen has nothing to close.
	held := d.unclosedReason()
	return Release{d.name, d.job != nil, held}, d.released && (d.present || d.job != nil || held != "")
}

// serveReviews handles the requests of Review until ctx is done.
func (m *Monitor) serveReviews(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case done := <-m.reviews:
			m.reviewReleases(ctx)
			close(done)
		}
	}
}

func (m *Monitor) reviewReleases(ctx context.Context) {
	t := m.clock.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.devices {
		known, _ := d.identity()
		m.applyRelease(ctx, d, known, &t)
	}
}

// applyRelease releases a device with these properties, or resumes it. The caller holds m.mu.
func (m *Monitor) applyRelease(ctx context.Context, d *Device, f verbs.Found, t *moment) {
	f.Name = d.name // a device of expect may not have been seen
	if d.setReleased(m.cfg.Released(f), t) {
		m.supervise(ctx, d)
	}
}

// setReleased reports whether a worker should open the device now.
func (d *Device) setReleased(released bool, t *moment) (opens bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.released == released {
		return false
	}
	defer d.emitIfChanged(t)
	d.released = released
	if released {
		d.log.Info("device released: the worker closes it")
		d.markClosed(t)
		d.endSupervision()
		return false
	}
	d.log.Info("device resumed")
	if !d.present {
		return d.listed // only a worker has reported a removal, perhaps wrongly: see retryOpening
	}
	d.reason = status.ReasonStarting
	return d.settleNode(t) && d.found.Usable()
}

// recordUnclosed stores the error of a Supervisor that could not end its worker, because a thread of it hangs in the kernel. Only the
// end of that worker clears the error (unclosedReason). The caller holds d.mu.
func (d *Device) recordUnclosed(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		d.unclosed = err
	}
}

// unclosedReason returns why a worker that may still have the device open could not be ended, "" if there is no such worker. The
// caller holds d.mu.
func (d *Device) unclosedReason() string {
	var abandoned interface{ Left() <-chan struct{} } // an error of package process
	if errors.As(d.unclosed, &abandoned) {
		select {
		case <-abandoned.Left():
			d.unclosed = nil
		default:
		}
	}
	if d.unclosed == nil {
		return ""
	}
	return d.unclosed.Error()
}
