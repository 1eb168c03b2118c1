package agent

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/telemetry/measure"
)

// judgeInterval is the longest time between two judgements of the host. It applies if Telegraf asks for metrics less
// often.
const judgeInterval = 15 * time.Second

// statusKeeper judges the host at each interval. It emits the problems, and writes the status to a file. A separate
// goroutine writes the file, so that a slow file system does not delay metrics. If intervals are long, statusKeeper also
// judges the host between them. The zero value does nothing.
type statusKeeper struct {
	writer  *statusfile.Writer // nil: there is no status file
	writing goroutine
	judging goroutine
	now     func() time.Time
	emit    func(measure.Point)

	mu         sync.Mutex
	hasPast    bool // the status file carries what is known of the past from one plugin to the next
	keeper     *health.Keeper
	problems   *health.Reports
	lastPoints []measure.Point               // of the last interval, with later changes
	lateTimer  *time.Timer                   // fires if the next interval is late
	changed    map[measure.Key]measure.Point // states that have changed and are not in lastPoints; nil before start
}

// start starts to judge the host and to write the status to a directory. If dir is empty or cannot be used, the plugin
// runs without a status file. Simulated devices have no past. emit must not block.
func (s *statusKeeper) start(dir, version string, simulated bool, emit func(measure.Point), now func() time.Time, log *slog.Logger) {
	host, err := hostName()
	if err == nil && dir != "" {
		s.writer, err = statusfile.NewWriter(dir, log)
	}
	if err != nil && dir != "" {
		s.writer = nil
		log.Warn("status file: open failed, `rdma-events status` and `health` do not show this plugin", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper, s.problems, s.emit, s.now = health.NewKeeper(version, host), health.NewReports(), emit, now
	s.hasPast = s.writer != nil && !simulated
	if s.hasPast {
		s.keeper.Restore(statusfile.ReadHistory(dir), now())
	}
	s.changed = map[measure.Key]measure.Point{}
	s.lateTimer = time.NewTimer(judgeInterval)
	s.judging = startGoroutine(s.judgeWhenLate)
	if s.writer != nil {
		s.writing = startGoroutine(s.writer.Run)
	}
}

// rememberState stores a copy of the point if it has a state whose changes are emitted at once.
func (s *statusKeeper) rememberState(p measure.Point) {
	if !health.IsState(p) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		s.changed[p.Key()] = p.Clone()
	}
}

// storeInterval judges the host by the points of an interval and by the states that have changed since now, when the gathering
// began. It emits the problems and queues the status for writing. The caller must not use the points afterwards.
func (s *statusKeeper) storeInterval(points []measure.Point, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeper == nil {
		return
	}
	s.lateTimer.Reset(judgeInterval)
	s.lastPoints = points
	s.dropOldChanges(now)
	newest := s.applyChanges()
	status := s.keeper.Observe(s.lastPoints, now)
	if newest.After(now) {
		status.Time = newest.Round(0)
	}
	s.publishStatus(status, now)
}

// dropOldChanges drops the changes that an interval gathered from now on contains. The caller holds s.mu.
func (s *statusKeeper) dropOldChanges(now time.Time) {
	gathered := map[measure.Key]time.Time{}
	for _, p := range s.lastPoints {
		gathered[p.Key()] = p.Time()
	}
	maps.DeleteFunc(s.changed, func(key measure.Key, p measure.Point) bool {
		at, ok := gathered[key]
		if !ok {
			at = now
		}
		return !p.Time().After(at)
	})
}

// applyChanges moves the changes to the points of the last interval. It returns the time of the newest change, or zero if there is none. The
// caller holds s.mu.
func (s *statusKeeper) applyChanges() (newest time.Time) {
	for _, p := range s.changed {
		if p.Time().After(newest) {
			newest = p.Time()
		}
	}
	for i, p := range s.lastPoints {
		if newer, ok := s.changed[p.Key()]; ok {
			if c, is := newer.(*measure.Command); is { // a change has no percentiles
				c.TookP = p.(*measure.Command).TookP
			}
			s.lastPoints[i] = newer
			delete(s.changed, p.Key())
		}
	}
	for key, p := range s.changed { // new devices
		s.lastPoints = append(s.lastPoints, p)
		delete(s.changed, key)
	}
	return newest
}

// publishStatus emits the problems of a status and queues the status for writing. The caller holds s.mu.
func (s *statusKeeper) publishStatus(status *health.Status, now time.Time) {
	for _, p := range s.problems.Points(status.Problems, now) {
		s.emit(p)
	}
	if s.writer == nil {
		return
	}
	var past []health.AlertHistory
	if s.hasPast {
		past = s.keeper.History()
	}
	s.writer.Put(status, past)
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

// judgeAgain judges the host by the points of the last interval and the later changes of states.
func (s *statusKeeper) judgeAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lateTimer.Reset(judgeInterval)
	if s.lastPoints == nil {
		return // there has been no interval yet
	}
	s.applyChanges()
	now := s.now()
	s.publishStatus(s.keeper.ObserveBetween(s.lastPoints, now), now)
}

// stopJudging ends the judgement between intervals, which emits points. It waits for it until ctx is done.
func (s *statusKeeper) stopJudging(ctx context.Context) {
	if s.judging.done != nil {
		s.judging.stop(ctx)
	}
}

// stop ends the goroutines and waits until the file is removed or ctx is done.
func (s *statusKeeper) stop(ctx context.Context) {
	s.stopJudging(ctx)
	if s.writing.done != nil {
		s.writing.stop(ctx)
	}
}
