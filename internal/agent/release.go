package agent

import (
	"context"
	"log/slog"

	"rdma_events/internal/agent/release"
	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// releases keeps released devices closed (package release), and answers the commands that release and resume them.
type releases struct {
	keeper  *release.Keeper
	monitor *monitor.Monitor // set by run
	server  *release.Server  // nil: the commands do not wait for these devices, which are closed within a second
	exist   bool             // there are directories where releases may be
	others  bool             // there are some besides that of the server, whose releases no command reports
	log     *slog.Logger
}

// openReleases reads which devices are released. dir is the directory of the plugin's status, "" for a program that is no plugin or
// has none. Releases of this host's devices do not concern simulated ones, unless their plugin has a directory.
func (c *Config) openReleases(dir string, log *slog.Logger) *releases {
	dirs := release.Dirs(dir)
	if !c.Simulated() {
		dirs = release.Dirs(append(dirs, statusfile.Dirs()...)...)
	}
	return &releases{log: log, keeper: release.NewKeeper(release.Config{
		Dirs: dirs, Now: clock.Boot, Boot: release.Boot(), Log: log,
	}), exist: len(dirs) > 0, others: len(dirs) > 1}
}

func (r *releases) released(f verbs.Found) bool {
	_, ok := r.keeper.Until(f)
	return ok
}

// listen makes the socket of the commands. Without it the devices are closed a second later.
func (r *releases) listen(dir string) {
	if dir == "" {
		return
	}
	var err error
	if r.server, err = release.Listen(dir, r); err != nil {
		r.server = nil
		r.log.Warn(err.Error() + "; `rdma-events release` and `resume` do not reach this plugin")
	}
}

// run keeps to the releases until ctx is done, which has to be after the workers have ended: a command finds the socket until then.
func (r *releases) run(ctx context.Context, m *monitor.Monitor) {
	r.monitor = m
	if r.server != nil {
		served := make(chan struct{})
		go func() {
			defer close(served)
			r.server.Serve(ctx)
		}()
		defer func() { <-served }()
	}
	r.keeper.Run(ctx, r.others || r.exist && r.server == nil, func() { _ = r.monitor.Review(ctx) }) // which fails when ctx is done
}

// close releases what run would have released.
func (r *releases) close() error {
	if r.server == nil {
		return nil
	}
	return r.server.Close()
}

// Review implements release.Host.
func (r *releases) Review(ctx context.Context) error {
	r.keeper.Reload()
	return r.monitor.Review(ctx)
}

// Released implements release.Host.
func (r *releases) Released() []release.Device {
	var all []release.Device
	for _, d := range r.monitor.Released() {
		if d.Open {
			d.Held = "" // a worker is closing it, which is to be awaited whatever the kernel holds besides
		}
		all = append(all, release.Device{Device: d.Device, Open: d.Open || d.Held != "", Held: d.Held})
	}
	return all
}

var _ release.Host = (*releases)(nil)
