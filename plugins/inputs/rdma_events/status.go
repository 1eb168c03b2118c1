package rdma_events

import (
	"context"
	"log/slog"
	"os"
	"time"

	"rdma_events/internal/health"
	"rdma_events/internal/measure"
	"rdma_events/internal/statusfile"
)

// statusKeeper keeps the status of each interval in a file, which a goroutine of its own writes: no file system delays
// the metrics. The zero value keeps nothing.
type statusKeeper struct {
	keeper  *health.Keeper
	writer  *statusfile.Writer
	writing running
}

// start begins to keep the status in a directory. Without one, or if it cannot be used, all else goes on without the
// status.
func (s *statusKeeper) start(dir, version string, log *slog.Logger) {
	if dir == "" {
		return
	}
	host, err := os.Hostname()
	if err == nil {
		s.writer, err = statusfile.NewWriter(dir, log)
	}
	if err != nil {
		log.Warn(err.Error() + "; `rdma-events status` and `health` miss the status of this plugin")
		return
	}
	s.keeper = health.NewKeeper(version, host)
	s.writing = run(s.writer.Run)
}

// keep hands over the points of an interval, which it only reads.
func (s *statusKeeper) keep(points []measure.Point, now time.Time) {
	if s.keeper != nil {
		status := s.keeper.Observe(points, now)
		status.AddExpectations(points)
		s.writer.Put(status)
	}
}

// stop waits until the file is removed, or ctx is done.
func (s *statusKeeper) stop(ctx context.Context) {
	if s.keeper != nil {
		s.writing.stop(ctx)
	}
}
