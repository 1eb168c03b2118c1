package hotplug

import "time"

// Config has the paths, sources and intervals of this package. The zero Config is
// that of a running system.
type Config struct {
	SysfsRoot string // default "/sys"
	DevRoot   string // default "/dev"
	ProcRoot  string // default "/proc"

	// Uevents opens a subscription to the kernel's uevents; default
	// SubscribeUevents. It is called again after a failure.
	Uevents func() (Source, error)
	// UeventsReach reports whether the kernel's uevents reach this process; default
	// UeventsReach. Where they do, WatchRemoval uses inotify only when they fail.
	UeventsReach func() bool
	// Indexes returns the kernel's device indexes by name; default
	// QueryIndexes.
	Indexes func() (map[string]int, error)
	// Types returns the kernel's types of devices by name; default QueryTypes. It
	// is called for devices without a node.
	Types func() (map[string]Type, error)

	// Settle is how long a Watcher waits after a uevent for the next one
	// before it scans, five times that at most; default 300 ms. udev renames a
	// device soon after it has appeared.
	Settle time.Duration
	// Rescan is the interval of scans without a uevent; default 10 s.
	Rescan time.Duration

	// Warn gets, once per cause, the reason that changes may be noticed late. It may
	// be called by several goroutines and must not block. Default: nothing.
	Warn func(error)
}

// Source is a subscription to uevents.
type Source interface {
	// Receive blocks for the next message, which is valid until the next call.
	// netlink.ErrOverrun: messages were lost, and more may follow. Close wakes it.
	Receive() ([]byte, error)
	// Close ends the subscription. Any goroutine may call it, once.
	Close() error
}

func (c Config) withDefaults() Config {
	if c.SysfsRoot == "" {
		c.SysfsRoot = "/sys"
	}
	if c.DevRoot == "" {
		c.DevRoot = "/dev"
	}
	if c.Uevents == nil {
		c.Uevents = SubscribeUevents
	}
	if c.UeventsReach == nil {
		c.UeventsReach = UeventsReach
	}
	if c.Indexes == nil {
		c.Indexes = QueryIndexes
	}
	if c.Types == nil {
		c.Types = QueryTypes
	}
	if c.Settle <= 0 {
		c.Settle = 300 * time.Millisecond
	}
	if c.Rescan <= 0 {
		c.Rescan = 10 * time.Second
	}
	if c.Warn == nil {
		c.Warn = func(error) {}
	}
	return c
}

// complaint passes an error to warn if it differs from the one before.
type complaint struct {
	warn func(error)
	last string
}

func (c *complaint) set(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if err != nil && text != c.last {
		c.warn(err)
	}
	c.last = text
}
