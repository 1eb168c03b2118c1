package hotplug

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

// Removable returns b, the backend of this host's devices, with the additional
// method WaitRemoved of session.RemovalWatcher, which detects the removal of a
// device. cfg.Warn receives the reason if a removal may be detected late or not at all.
func Removable(b verbs.Backend, cfg Config) verbs.Backend {
	cfg = cfg.withDefaults()
	return removable{Backend: b, sysfs: sysfs.New(cfg.SysfsRoot), cfg: cfg}
}

type removable struct {
	verbs.Backend
	sysfs sysfs.FS
	cfg   Config
}

// WaitRemoved blocks until an open device is being removed and returns nil, or until ctx
// ends and returns ctx.Err(). While the removal cannot be watched, it tries again every
// Config.Rescan: monitoring the device is more important than closing it in time.
func (r removable) WaitRemoved(ctx context.Context, device string) error {
	problem := problemReporter{warn: r.cfg.Warn}
	retry := time.NewTicker(r.cfg.Rescan)
	defer retry.Stop()
	for {
		node, err := r.sysfs.Node(device)
		if errors.Is(err, verbs.ErrNoDevice) {
			return nil // the device was open a moment ago
		}
		if err == nil {
			err = WatchRemoval(ctx, r.cfg, node)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		problem.report(fmt.Errorf("removal of %s may be detected late: %w", device, withAdvice(err)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
		}
	}
}
