package monitor

import (
	"context"
	"errors"
	"fmt"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// Release is a device that is released: see Config.Released.
type Release struct {
	Device string
	Open   bool   // its worker still runs
	Held   string // why a worker could not be ended, and may still have the device open; "": there is no such worker
}

// Review compares all devices with Config.Released. The workers of devices that are released have to close them; the other
// devices get workers again. Review does not wait for the workers. It returns once Run has handled the request, or with an error
// if ctx ends first.
func (m *Monitor) Review(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case m.reviews <- done:
	case <-ctx.Done():
		return fmt.Errorf("review releases: %w", ctx.Err())
	}
	<-done // no step of it blocks
	return nil
}

// Released returns the devices that are released, sorted by name.
func (m *Monitor) Released() []Release {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Release
	for _, d := range m.devices {
		if r, ok := d.releasedNow(); ok {
			all = append(all, r)
		}
	}
	return all
}

func (d *Device) releasedNow() (r Release, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A device of expect that was never there, and one that is gone, has nothing that could be closed.
	held := d.heldBy()
	return Release{d.name, d.job != nil, held}, d.released && (d.present || d.job != nil || held != "")
}

// serveReviews handles the requests of Review until ctx is done.
func (m *Monitor) serveReviews(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case done := <-m.reviews:
			m.review(ctx)
			close(done)
		}
	}
}

func (m *Monitor) review(ctx context.Context) {
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
		d.log.Info("device released: it is closed, and not opened until it is resumed or the time is over")
		d.shut(t)
		d.dismiss()
		return false
	}
	d.log.Info("release ended: the device is watched again")
	if !d.present {
		return d.listed // a worker has reported a removal, which may have been none: see retry
	}
	d.reason = status.ReasonStarting
	return d.settleNode(t) && d.found.Usable()
}

// noteAbandoned remembers the error with which a Supervisor ended if it had to leave its worker to the kernel. The end of a later
// worker does not clear it; the end of that worker does (heldBy). The caller holds d.mu.
func (d *Device) noteAbandoned(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		d.unclosed = err
	}
}

// heldBy returns why a worker could not be ended and may still have the device open, "" if there is none. The caller holds d.mu.
func (d *Device) heldBy() string {
	var abandoned interface{ Left() <-chan struct{} } // as of package process
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
