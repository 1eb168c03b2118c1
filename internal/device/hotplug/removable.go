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
// method WaitRemoved of session.RemovalWatcher, which notices the removal of a
// device. cfg.Warn gets the reason if a removal may be noticed late or not at all.
func Removable(b verbs.Backend, cfg Config) verbs.Backend {
	cfg = cfg.withDefaults()
	return removable{Backend: b, sysfs: sysfs.New(cfg.SysfsRoot), cfg: cfg}
}

type removable struct {
	verbs.Backend
	sysfs sysfs.FS
	cfg   Config
}

// WaitRemoved returns nil once an open device is being removed, or ctx.Err() when
// ctx ends. While the removal cannot be watched, it tries again every Config.Rescan:
// it is more important to monitor the device than to close it in time.
func (r removable) WaitRemoved(ctx context.Context, device string) error {
	problem := complaint{warn: r.cfg.Warn}
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
		problem.set(fmt.Errorf("removal of %s may be detected late: %w", device, advised(err)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
		}
	}
}
