package release

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// reloadInterval is the time between two reads of the files while a release is in effect or Run polls.
const reloadInterval = time.Second

// Config is the configuration of a Keeper. Dirs and Now must be set.
type Config struct {
	Dirs []string     // directories of releases
	Now  func() int64 // CLOCK_BOOTTIME, in ns; it may be called concurrently
	Boot string       // result of BootID
	Log  *slog.Logger // nil: no log
}

// Keeper tells which devices of the host are released. Its methods may be called concurrently.
type Keeper struct {
	cfg          Config
	startPolling wake.Signal // tells Run to read the files every second

	mu        sync.Mutex
	set       Set
	lastError string // last error of a read, which has been logged
}

// NewKeeper reads the files and returns a Keeper.
func NewKeeper(c Config) *Keeper {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{cfg: c, startPolling: wake.New()}
	k.Reload()
	return k
}

// Until returns whether a device is released now, and until when, in ns of CLOCK_BOOTTIME.
func (k *Keeper) Until(f verbs.Found) (until int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set.Until(f, k.cfg.Now())
}

// Reload reads the files.
func (k *Keeper) Reload() {
	now := k.cfg.Now()
	set, err := Read(k.cfg.Dirs, k.cfg.Boot, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set = set
	text := ""
	if err != nil {
		text = err.Error()
	}
	if err != nil && text != k.lastError {
		k.cfg.Log.Warn("releases: invalid file ignored", "error", text)
	}
	k.lastError = text
	if set.Active(now) {
		k.startPolling.Send()
	}
}

// Run calls changed whenever the result of Until may have changed, except through a Reload by another caller: when a
// release has ended, and when a file was removed. If poll is true, Run also notices new files without a Reload. It
// blocks until ctx is done.
func (k *Keeper) Run(ctx context.Context, poll bool, changed func()) {
	tick := time.NewTicker(reloadInterval)
	defer tick.Stop()
	if !poll {
		tick.Stop() // the process should not wake up every second for nothing
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.startPolling:
			tick.Reset(reloadInterval)
			continue
		case <-tick.C:
		}
		k.Reload()
		changed()
		if !poll && !k.isActive() {
			tick.Stop()
		}
	}
}

func (k *Keeper) isActive() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set.Active(k.cfg.Now())
}

// UniqueDirs returns the directories without duplicates and empty names.
func UniqueDirs(dirs ...string) []string {
	var all []string
	for _, d := range dirs {
		if d != "" && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}
