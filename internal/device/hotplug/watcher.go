package hotplug

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// settleLimit is a multiple of Config.Settle: the longest time for which continuous
// uevents can delay a scan.
const settleLimit = 5

// Watcher watches the RDMA devices of this host.
type Watcher struct {
	cfg   Config
	sysfs sysfs.FS
}

// New returns a Watcher. It starts nothing; Run does.
func New(cfg Config) *Watcher {
	cfg = cfg.withDefaults()
	return &Watcher{cfg: cfg, sysfs: sysfs.New(cfg.SysfsRoot)}
}

// Run calls report with all devices that are present, sorted by name: at once,
// and again after each change. It does not see devices that appear and disappear
// within Config.Settle. A device that is replaced under its name has another
// Index. Run makes the calls one after the other from the calling goroutine;
// report may keep the slice but not change it. If sysfs cannot be read, the last
// set stays valid and Config.Warn gets the error. Run blocks until ctx ends and
// returns ctx.Err(). It may be called more than once and concurrently.
func (w *Watcher) Run(ctx context.Context, report func([]verbs.Found)) error {
	ctx, cancel := context.WithCancel(ctx)
	changed := wake.New()
	adds := additions{count: map[string]int{}}
	var listener sync.WaitGroup
	defer listener.Wait()
	defer cancel()
	listener.Go(func() { w.keepSubscribed(ctx, &adds, changed) })

	rescan := wake.NewTicker(w.cfg.Rescan, time.Time{})
	defer rescan.Stop()
	problem := problemReporter{warn: w.cfg.Warn}
	without := nodelessDevices{sysfs: w.sysfs, types: w.cfg.Types}
	files := NodeFiles{Dev: w.cfg.DevRoot, Proc: w.cfg.ProcRoot}
	var last []verbs.Found
	for first := true; ; {
		found, err := scanDevices(w.sysfs, w.cfg.Indexes)
		if err == nil {
			err = without.markDevices(found, time.Now())
		}
		problem.report(scanProblem(err))
		if err == nil {
			files.markMissing(found)
			adds.setAdded(found)
			if first || !slices.Equal(found, last) {
				report(found)
				first, last = false, found
			}
		}
		if err := w.waitForScan(ctx, changed, rescan); err != nil {
			return err
		}
	}
}

// waitForScan returns nil when the next scan is due, or ctx.Err() when ctx ends.
func (w *Watcher) waitForScan(ctx context.Context, changed <-chan struct{}, rescan *wake.Ticker) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-rescan.C:
		rescan.Next()
		return nil
	case <-changed:
		return w.waitUntilQuiet(ctx, changed)
	}
}

// waitUntilQuiet returns nil when there has been no change for Config.Settle, or after settleLimit
// times that, or ctx.Err() when ctx ends.
func (w *Watcher) waitUntilQuiet(ctx context.Context, changed <-chan struct{}) error {
	limit := time.NewTimer(settleLimit * w.cfg.Settle)
	defer limit.Stop()
	quiet := time.NewTimer(w.cfg.Settle)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return nil
		case <-quiet.C:
			return nil
		case <-changed:
			quiet.Reset(w.cfg.Settle)
		}
	}
}

// keepSubscribed keeps a subscription to uevents until ctx ends. If the kernel refuses it or
// it fails, keepSubscribed tries again every Config.Rescan.
func (w *Watcher) keepSubscribed(ctx context.Context, adds *additions, changed wake.Signal) {
	problem := problemReporter{warn: w.cfg.Warn}
	retry := time.NewTicker(w.cfg.Rescan)
	defer retry.Stop()
	for ctx.Err() == nil {
		problem.report(wrapError("watch RDMA devices by scanning only", w.receiveChanges(ctx, adds, changed)))
		select {
		case <-ctx.Done():
		case <-retry.C:
		}
	}
}

// receiveChanges subscribes to uevents and signals changes until ctx ends or the subscription
// fails. It returns nil when ctx ends.
func (w *Watcher) receiveChanges(ctx context.Context, adds *additions, changed wake.Signal) error {
	source, err := w.cfg.Uevents()
	if err != nil {
		return err
	}
	changed.Send() // devices may have changed between the scan and the subscription
	return receiveUevents(ctx, source, func(u *uevent) {
		if u != nil {
			adds.countAdd(u)
		}
		if u == nil || u.concernsDevices() {
			changed.Send()
		}
	})
}

// additions counts the kernel's "add" uevents of devices, by name.
type additions struct {
	mu    sync.Mutex
	count map[string]int
}

// countAdd counts u if it announces a device.
func (a *additions) countAdd(u *uevent) {
	if u.action != "add" || u.subsystem != subsystemDevices || u.synthetic {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[path.Base(u.path)]++
}

// setAdded sets Found.Added, and drops the counts of devices that are not in found.
func (a *additions) setAdded(found []verbs.Found) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := make(map[string]int, len(found))
	for i := range found {
		name := found[i].Name
		found[i].Added = a.count[name]
		kept[name] = a.count[name]
	}
	a.count = kept
}

// scanProblem returns the warning about a failed scan, nil if err is nil.
func scanProblem(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("list RDMA devices: %w; the last list stays valid", withAdvice(err))
}

// withAdvice adds to an error of a resource that is short which limit to raise.
func withAdvice(err error) error {
	if advice := verbs.Shortage(err); advice != "" {
		return fmt.Errorf("cannot read: %w; %s", err, advice)
	}
	return err
}

func wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
