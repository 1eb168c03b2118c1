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

// judgeEvery is how old the judgement of the host gets where Telegraf asks for metrics more rarely.
const judgeEvery = 15 * time.Second

// statusKeeper keeps the status of each interval in a file, which a goroutine of its own writes: no file system delays
// the metrics. Where intervals are long, it judges the host between them too. The zero value keeps nothing.
type statusKeeper struct {
	writer  *statusfile.Writer
	writing running
	judging running
	now     func() time.Time

	mu     sync.Mutex
	keeper *health.Keeper
	last   []measure.Point               // of the last interval
	rare   *time.Timer                   // runs out if no interval has come
	newer  map[measure.Key]measure.Point // of devices and ports, since the last interval
}

// start begins to keep the status in a directory. Without one, or if it cannot be used, all else goes on without the
// status.
func (s *statusKeeper) start(dir, version string, now func() time.Time, log *slog.Logger) {
	if dir == "" {
		return
	}
	host, err := hostName()
	if err == nil {
		s.writer, err = statusfile.NewWriter(dir, log)
	}
	if err != nil {
		log.Warn(err.Error() + "; `rdma-events status` and `health` miss the status of this plugin")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper, s.now = health.NewKeeper(version, host), now
	s.rare = time.NewTimer(judgeEvery)
	s.writing, s.judging = run(s.writer.Run), run(s.judgeWhenLate)
}

// remember keeps the state of a device or port, and only reads the point.
func (s *statusKeeper) remember(p measure.Point) {
	switch p.(type) {
	case *measure.Device, *measure.Port:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.newer != nil {
			s.newer[p.Key()] = p.Clone()
		}
	}
}

// keep hands over the points of an interval, which it only reads.
func (s *statusKeeper) keep(points []measure.Point, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeper == nil {
		return
	}
	s.rare.Reset(judgeEvery)
	s.last = s.last[:0]
	for _, p := range points {
		s.last = append(s.last, p.Clone()) // the emitter owns them
	}
	s.newer = map[measure.Key]measure.Point{}
	s.writer.Put(s.keeper.Observe(s.last, now))
}

// judgeWhenLate judges the host again whenever an interval is late, until ctx is done.
func (s *statusKeeper) judgeWhenLate(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.rare.C:
			s.judgeAgain()
		}
	}
}

// judgeAgain judges the host by the last interval and by what devices and ports have been since.
func (s *statusKeeper) judgeAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rare.Reset(judgeEvery)
	if s.newer == nil {
		return // there was no interval yet
	}
	for i, p := range s.last {
		if newer, ok := s.newer[p.Key()]; ok {
			s.last[i] = newer
			delete(s.newer, p.Key())
		}
	}
	for key, p := range s.newer { // a device that has come
		s.last = append(s.last, p)
		delete(s.newer, key)
	}
	s.writer.Put(s.keeper.Observe(s.last, s.now()))
}

// stop waits until the file is removed, or ctx is done.
func (s *statusKeeper) stop(ctx context.Context) {
	if s.writing.done == nil {
		return
	}
	s.judging.stop(ctx)
	s.writing.stop(ctx)
}
