package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/telemetry/measure"
)

// judgeInterval is the longest time between two judgements of the host. It applies if Telegraf asks for metrics less
// often.
const judgeInterval = 15 * time.Second

// statusKeeper writes the status of each interval to a file. A separate goroutine writes the file, so that a slow file
// system does not delay metrics. If intervals are long, statusKeeper also judges the host between them. The zero value
// does nothing.
type statusKeeper struct {
	writer  *statusfile.Writer
	writing goroutine
	judging goroutine
	now     func() time.Time

	mu         sync.Mutex
	keeper     *health.Keeper
	lastPoints []measure.Point               // of the last interval, with later changes
	lateTimer  *time.Timer                   // fires if the next interval is late
	changed    map[measure.Key]measure.Point // devices and ports that changed since the last interval; nil before the first one
}

// start starts to write the status to a directory. If dir is empty or cannot be used, the plugin runs without a status
// file.
func (s *statusKeeper) start(dir, version string, now func() time.Time, log *slog.Logger) {
	if dir == "" {
		return
	}
	host, err := hostName()
	if err == nil {
		s.writer, err = statusfile.NewWriter(dir, log)
	}
	if err != nil {
		log.Warn("status file: open failed, `rdma-events status` and `health` do not show this plugin", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper, s.now = health.NewKeeper(version, host), now
	s.lateTimer = time.NewTimer(judgeInterval)
	s.writing, s.judging = startGoroutine(s.writer.Run), startGoroutine(s.judgeWhenLate)
}

// rememberState stores a copy of the point if it is about a device or a port.
func (s *statusKeeper) rememberState(p measure.Point) {
	switch p.(type) {
	case *measure.Device, *measure.Port:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.changed != nil {
			s.changed[p.Key()] = p.Clone()
		}
	}
}

// storeInterval judges the host by the points of an interval and queues the status for writing. The caller must not
// use the points afterwards.
func (s *statusKeeper) storeInterval(points []measure.Point, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeper == nil {
		return
	}
	s.lateTimer.Reset(judgeInterval)
	s.lastPoints = points
	s.changed = map[measure.Key]measure.Point{}
	s.writer.Put(s.keeper.Observe(s.lastPoints, now))
}

// judgeWhenLate judges the host again whenever the next interval is late, until ctx is done.
func (s *statusKeeper) judgeWhenLate(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.lateTimer.C:
			s.judgeAgain()
		}
	}
}

// judgeAgain judges the host by the points of the last interval and the later changes of devices and ports.
func (s *statusKeeper) judgeAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lateTimer.Reset(judgeInterval)
	if s.changed == nil {
		return // there has been no interval yet
	}
	for i, p := range s.lastPoints {
		if newer, ok := s.changed[p.Key()]; ok {
			s.lastPoints[i] = newer
			delete(s.changed, p.Key())
		}
	}
	for key, p := range s.changed { // new devices
		s.lastPoints = append(s.lastPoints, p)
		delete(s.changed, key)
	}
	s.writer.Put(s.keeper.Observe(s.lastPoints, s.now()))
}

// stop ends the goroutines and waits until the file is removed or ctx is done.
func (s *statusKeeper) stop(ctx context.Context) {
	if s.writing.done == nil {
		return
	}
	s.judging.stop(ctx)
	s.writing.stop(ctx)
}
