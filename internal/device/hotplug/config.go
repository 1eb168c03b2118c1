package hotplug

import "time"

// Config has the paths, sources and intervals of this package. The zero Config suits
// a running system.
type Config struct {
	SysfsRoot string // default "/sys"
	DevRoot   string // default "/dev"
	ProcRoot  string // default "/proc"

	// Uevents opens a subscription to the kernel's uevents; default
	// SubscribeUevents. It is called again after a failure.
	Uevents func() (Source, error)
	// UeventsReach reports whether the kernel's uevents reach this process; default
	// UeventsReach. If they do, WatchRemoval uses inotify only after the subscription fails.
	UeventsReach func() bool
	// Indexes returns the kernel's device indexes by name; default
	// QueryIndexes.
	Indexes func() (map[string]int, error)
	// Types returns the kernel's types of devices by name; default QueryTypes. It
	// is called if a device has no node.
	Types func() (map[string]Type, error)

	// Settle is the time without a further uevent after which a Watcher scans; default
	// 300 ms. Continuous uevents delay the scan by five times Settle at most. The
	// delay lets udev rename a device that has just appeared.
	Settle time.Duration
	// Rescan is the interval of scans without a uevent; default 10 s.
	Rescan time.Duration

	// Warn receives, once per cause, the reason why changes may be detected late. It may
	// be called by several goroutines and must not block. Default: a function that does nothing.
	Warn func(error)
}

// Source is a subscription to uevents.
type Source interface {
	// Receive blocks until the next message, which is valid until the next call. It
	// returns netlink.ErrOverrun if messages were lost; more may follow. Close wakes it.
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

// problemReporter passes an error to warn if it differs from the last one.
type problemReporter struct {
	warn func(error)
	last string
}

// report handles the present error, nil if there is none.
func (c *problemReporter) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if err != nil && text != c.last {
		c.warn(err)
	}
	c.last = text
}
