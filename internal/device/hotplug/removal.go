package hotplug

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// After a node has vanished from /dev, waitUntilGone checks whether the device is still
// there: first after confirmFirst, then each time after twice the last delay, up to
// confirmLast. The kernel deletes the node before the device, and udev or an administrator
// may only replace the node. The check every Config.Rescan finds a later removal.
const (
	confirmFirst = 10 * time.Millisecond
	confirmLast  = 640 * time.Millisecond
)

// WatchRemoval blocks until the device of an uverbs node ("uverbs0") is being
// removed and then returns nil. The caller, which holds the device open, must then
// close it at once: many drivers wait for that, and the whole removal waits with
// them. When ctx ends, WatchRemoval returns ctx.Err(). The only other error is that
// of an empty node.
//
// Each of these counts as a removal: the kernel's uevent; the loss of the node, if the
// device is also gone from sysfs; and the loss of the whole /dev/infiniband, which
// needs no confirmation. WatchRemoval also finds a removal before the call, unless another
// device has the same node by then.
//
// Uevents report the first. Inotify reports the other two. It is used only if
// uevents cannot be received or do not reach the process (Config.UeventsReach),
// because all programs of a user together may have only 128 inotify instances.
// In any case WatchRemoval checks for the device every Config.Rescan. It calls
// Config.Warn with the error of each source that does not work.
//
// Any number of calls may run concurrently.
func WatchRemoval(ctx context.Context, cfg Config, node string) error {
	if node == "" {
		return errors.New("watch removal: no uverbs node is named")
	}
	return newRemoval(cfg.withDefaults(), node).run(ctx)
}

// hint is a message from a source.
type hint int

const (
	hintNone    hint = iota
	hintDoubt        // check whether the device is still there
	hintRemoved      // the device is being removed
)

// removal is the state of one call of WatchRemoval.
type removal struct {
	cfg   Config
	node  string
	dir   string      // the directory of uverbs nodes in /dev
	class string      // the directory of uverbs devices in sysfs
	known os.FileInfo // the device in sysfs; nil if there is no sysfs, or the device is already gone from it

	hints         chan hint
	lost          chan error // errors of the sources that ended; has space for one of each
	problems      []error    // the errors of the sources that do not work
	startFallback func()     // starts inotify when uevents fail; nil once called
}

func newRemoval(cfg Config, node string) *removal {
	return &removal{
		cfg:   cfg,
		node:  node,
		dir:   filepath.Join(cfg.DevRoot, "infiniband"),
		class: filepath.Join(cfg.SysfsRoot, "class/infiniband_verbs"),
		hints: make(chan hint),
		lost:  make(chan error, 2),
	}
}

// run subscribes first and then checks for the device, so that it misses no
// removal in between.
func (r *removal) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()
	r.startUevents(ctx, &sources)
	r.startFallback = func() { r.startInotify(ctx, &sources) }
	if len(r.problems) > 0 || !r.cfg.UeventsReach() {
		r.useFallback()
	}

	r.known, _ = os.Stat(filepath.Join(r.class, r.node)) // known stays nil if the device is already gone
	if r.isGone() {
		return nil
	}
	if len(r.problems) > 0 {
		r.warnAboutSources()
	}
	return r.waitUntilGone(ctx)
}

// waitUntilGone returns nil as soon as it finds the device removed, or ctx.Err() when ctx ends.
func (r *removal) waitUntilGone(ctx context.Context) error {
	rescan := time.NewTicker(r.cfg.Rescan)
	defer rescan.Stop()
	// confirm is the timer of the checks after a node has vanished. It runs from the
	// start: the node may have vanished before inotify began to watch, and the device
	// after the check in watch.
	delay := confirmFirst
	confirm := time.NewTimer(delay)
	defer confirm.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case h := <-r.hints:
			if h == hintRemoved {
				return nil
			}
			delay = confirmFirst
			confirm.Reset(delay)
			continue
		case err := <-r.lost:
			r.problems = append(r.problems, err)
			r.useFallback()
			r.warnAboutSources()
			delay = confirmFirst // a removal may have begun before inotify started
			confirm.Reset(delay)
			continue
		case <-confirm.C:
			if delay *= 2; delay <= confirmLast {
				confirm.Reset(delay)
			}
		case <-rescan.C:
		}
		if r.isGone() {
			return nil
		}
	}
}

// useFallback starts inotify at its first call. Only the goroutine of run calls it.
func (r *removal) useFallback() {
	if r.startFallback != nil {
		r.startFallback()
		r.startFallback = nil
	}
}

// isGone reports whether the device is removed. sysfs decides if it can be read: an
// administrator may unlink a node in /dev, and in a container the node may remain after
// the device is removed.
func (r *removal) isGone() bool {
	now, err := os.Stat(filepath.Join(r.class, r.node))
	switch {
	case err == nil:
		return r.known != nil && !os.SameFile(r.known, now)
	case !errors.Is(err, fs.ErrNotExist):
		return false
	case r.known != nil:
		return true
	}
	if _, err := os.Stat(r.class); err == nil {
		return true
	}
	_, err = os.Stat(filepath.Join(r.dir, r.node))
	return errors.Is(err, fs.ErrNotExist)
}

// warnAboutSources reports in one line which ways to detect the removal are left.
func (r *removal) warnAboutSources() {
	if len(r.problems) == 1 {
		r.cfg.Warn(fmt.Errorf("only one way to detect removal of %s works: %w", r.node, r.problems[0]))
		return
	}
	r.cfg.Warn(fmt.Errorf("watch removal of %s by looking every %v only: %w; %w", r.node, r.cfg.Rescan, r.problems[0], r.problems[1]))
}

func (r *removal) startUevents(ctx context.Context, sources *sync.WaitGroup) {
	source, err := r.cfg.Uevents()
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	sources.Go(func() {
		err := receiveUevents(ctx, source, func(u *uevent) {
			switch {
			case u == nil:
				r.sendHint(ctx, hintDoubt)
			case u.removesNode(r.node):
				r.sendHint(ctx, hintRemoved)
			}
		})
		if err != nil {
			r.lost <- err
		}
	})
}

func (r *removal) startInotify(ctx context.Context, sources *sync.WaitGroup) {
	watcher, err := watchDir(r.dir)
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	sources.Go(func() {
		defer func() { _ = watcher.Close() }()
		if err := r.followDir(ctx, watcher); err != nil {
			r.lost <- fmt.Errorf("watch %s: %w", r.dir, err)
		}
	})
}

func watchDir(dir string) (*fsnotify.Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("open inotify: %w", err)
	}
	if err := watcher.Add(dir); err != nil {
		_ = watcher.Close()
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	return watcher, nil
}

// followDir sends hints about the node until ctx ends or inotify fails. It returns
// nil when ctx ends.
func (r *removal) followDir(ctx context.Context, watcher *fsnotify.Watcher) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-watcher.Events:
			if !ok {
				return os.ErrClosed
			}
			r.sendHint(ctx, r.classify(event))
		case err, ok := <-watcher.Errors:
			switch {
			case !ok:
				return os.ErrClosed
			case !errors.Is(err, fsnotify.ErrEventOverflow):
				return err
			}
			r.sendHint(ctx, hintDoubt)
		}
	}
}

// classify returns the hint that an event of the directory gives about the node: hintDoubt
// for the loss of the node, hintRemoved for the loss of the directory.
func (r *removal) classify(event fsnotify.Event) hint {
	if !event.Has(fsnotify.Remove) && !event.Has(fsnotify.Rename) {
		return hintNone
	}
	switch filepath.Clean(event.Name) {
	case r.dir:
		return hintRemoved // devtmpfs deletes the directory together with the last node
	case filepath.Join(r.dir, r.node):
		return hintDoubt
	}
	return hintNone
}

func (r *removal) sendHint(ctx context.Context, h hint) {
	if h == hintNone {
		return
	}
	select {
	case r.hints <- h:
	case <-ctx.Done():
	}
}
