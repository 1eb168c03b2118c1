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

// look is how often a Keeper reads the files again, while a release is in effect or Run is to poll.
const look = time.Second

// Config is the configuration of a Keeper. Dirs and Now must be set.
type Config struct {
	Dirs []string     // where releases are
	Now  func() int64 // CLOCK_BOOTTIME, in ns; it may be called concurrently
	Boot string       // of Boot
	Log  *slog.Logger // nil: no log
}

// Keeper knows which devices of the host are released. Its methods may be called concurrently.
type Keeper struct {
	cfg    Config
	active wake.Signal // holds a token when Run has to look every second

	mu     sync.Mutex
	set    Set
	failed string // the last error of a look, which is logged
}

// NewKeeper returns a Keeper that has read the files.
func NewKeeper(c Config) *Keeper {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{cfg: c, active: wake.New()}
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
	if err != nil && text != k.failed {
		k.cfg.Log.Warn(text + "; it releases nothing")
	}
	k.failed = text
	if set.Active(now) {
		k.active.Send()
	}
}

// Run calls changed whenever Until may answer otherwise than before, except after a Reload by others: when a release has ended, and
// when a file was removed. With poll it also notices files that are written, without a Reload. It blocks until ctx is done.
func (k *Keeper) Run(ctx context.Context, poll bool, changed func()) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	if !poll {
		tick.Stop() // no process is to wake up every second for nothing
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.active:
			tick.Reset(look)
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

// Dirs returns directories without duplicates and without empty names.
func Dirs(dirs ...string) []string {
	var all []string
	for _, d := range dirs {
		if d != "" && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}
