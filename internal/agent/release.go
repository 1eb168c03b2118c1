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

// releaseService keeps released devices closed (package release), and answers the commands that release and resume
// them.
type releaseService struct {
	keeper       *release.Keeper
	monitor      *monitor.Monitor // set by run before Serve
	server       *release.Server  // nil if there is no socket; the commands then do not wait until devices are closed, which takes a second at most
	hasDirs      bool             // at least one directory may contain releases
	hasOtherDirs bool             // other directories than the server's may contain releases, which no command reports
	log          *slog.Logger
}

// openReleases reads which devices are released. dir is the directory of the plugin's status file, or "" for a program
// without one. Simulated devices are affected only by releases in that directory, not by releases of the host's devices.
func (c *Config) openReleases(dir string, log *slog.Logger) *releaseService {
	dirs := release.UniqueDirs(dir)
	if !c.Simulated() {
		dirs = release.UniqueDirs(append(dirs, statusfile.Dirs()...)...)
	}
	return &releaseService{log: log, keeper: release.NewKeeper(release.Config{
		Dirs: dirs, Now: clock.Boot, Boot: release.BootID(), Log: log,
	}), hasDirs: len(dirs) > 0, hasOtherDirs: len(dirs) > 1}
}

func (r *releaseService) isReleased(f verbs.Found) bool {
	_, ok := r.keeper.Until(f)
	return ok
}

// listen opens the socket for the commands. Without the socket, released devices are closed within a second.
func (r *releaseService) listen(dir string) {
	if dir == "" {
		return
	}
	var err error
	if r.server, err = release.Listen(dir, r); err != nil {
		r.server = nil
		r.log.Warn("release socket: open failed, `rdma-events release` and `resume` cannot reach this plugin", "error", err)
	}
}

// run applies the releases until ctx is done. ctx must outlive the workers, because commands use the socket until then.
func (r *releaseService) run(ctx context.Context, m *monitor.Monitor) {
	r.monitor = m
	if r.server != nil {
		served := make(chan struct{})
		go func() {
			defer close(served)
			r.server.Serve(ctx)
		}()
		defer func() { <-served }()
	}
	r.keeper.Run(ctx, r.hasOtherDirs || r.hasDirs && r.server == nil, func() { _ = r.monitor.Review(ctx) }) // it fails only when ctx is done
}

// close closes the socket if run has not been called.
func (r *releaseService) close() error {
	if r.server == nil {
		return nil
	}
	return r.server.Close()
}

// ApplyReleases implements release.PluginState.
func (r *releaseService) ApplyReleases(ctx context.Context) error {
	r.keeper.Reload()
	return r.monitor.Review(ctx)
}

// ReleasedDevices implements release.PluginState.
func (r *releaseService) ReleasedDevices() []release.Device {
	var all []release.Device
	for _, d := range r.monitor.Released() {
		if d.Open {
			d.Held = "" // the command must wait for the worker, whatever else holds the device
		}
		all = append(all, release.Device{Device: d.Device, Open: d.Open || d.Held != "", Held: d.Held})
	}
	return all
}

var _ release.PluginState = (*releaseService)(nil)
