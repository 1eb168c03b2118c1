package live

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/sys/wake"
	"rdma_events/internal/telemetry/measure"
)

const (
	// holdTime is the time for which a record waits for earlier ones: records of different workers do not arrive in the order in
	// which they happened.
	holdTime = 100 * time.Millisecond
	// refreshInterval is the time between two updates of the probes.
	refreshInterval = time.Second
	// maxQueue is the maximum number of records that wait while the output is blocked.
	maxQueue = 100_000
)

// Config is the configuration of a Screen.
type Config struct {
	Out     io.Writer
	JSON    bool // one JSON object a line
	Colours bool // Out is a terminal: colours, and probes in place
	ASCII   bool // without block characters
	Probes  bool
	Apps    bool // show events and errors of applications
	// Pairs returns the current state of all pairs (timeline.NewPair), which are shown as a table instead of probes. It
	// is called every second, after gather. If it is nil, no table is shown.
	Pairs func() []timeline.Record
	// Every is the time between two tables if Out is not a terminal; 0: one second.
	Every time.Duration
	// Width and Height return the number of columns and lines of the terminal; nil: no limit.
	Width, Height func() int
	Now           func() time.Time
}

// Screen shows points. Emit and Log may be called concurrently and do not block.
type Screen struct {
	cfg   Config
	style timeline.Style
	wake  wake.Signal

	mu      sync.Mutex
	queue   []record
	dropped int
	changes *timeline.Changes
	apps    *timeline.Changes // changes of applications; empty without Config.Apps

	// The following fields are used only by the goroutine of Run.
	pending   []record // taken from queue and not shown yet
	block     terminalBlock
	methods   map[probePlace]verbs.Method
	lastTable time.Time // time of the last table
}

// record is a timeline record that waits to be shown.
type record struct {
	timeline.Record
	queued time.Time // when it was queued; Time is when it happened
}

// New returns a Screen. Points are shown only while Run runs.
func New(c Config) *Screen {
	apps := timeline.NewChanges()
	if c.Apps {
		apps = timeline.NewChanges(timeline.RegisterApplications, timeline.RegisterUnreadErrors)
	}
	return &Screen{
		cfg: c, wake: wake.New(), changes: timeline.NewChanges(timeline.RegisterDevices, timeline.RegisterFabric), apps: apps,
		style: timeline.Style{Colours: c.Colours, ASCII: c.ASCII},
		block: terminalBlock{width: c.Width, height: c.Height}, methods: make(map[probePlace]verbs.Method),
	}
}

// Run shows the points of Emit until ctx is done, and then the remaining ones. It calls gather every second, as a
// monitor requires. The points that gather returns contain the measurements of probes, the unread errors of
// applications, and the calls in which applications hang. Run returns an error only if a write fails.
func (s *Screen) Run(ctx context.Context, gather func(now time.Time) []measure.Point) error {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return s.writeOutput(s.takeDue(time.Time{}), nil)
		case <-s.wake:
			if due == nil {
				due = time.After(holdTime)
			}
			continue
		case <-due:
			due = nil
			if err := s.writeOutput(s.takeDue(s.cfg.Now().Add(-holdTime)), nil); err != nil {
				return err
			}
		case <-tick.C:
			now := s.cfg.Now()
			points := gather(now)
			s.emitApplications(points)
			if err := s.writeOutput(s.takeDue(now.Add(-holdTime)), s.newView(points, now)); err != nil {
				return err
			}
		}
		if due == nil && len(s.pending) > 0 {
			due = time.After(holdTime)
		}
	}
}

// takeDue returns the records that were queued until a time, and all records that happened before them, in the order in
// which they happened. It keeps the others in pending. A zero time stands for all records.
func (s *Screen) takeDue(until time.Time) []record {
	queue, dropped := s.drainQueue()
	s.pending = append(s.pending, queue...)
	slices.SortStableFunc(s.pending, func(a, b record) int { return a.Time.Compare(b.Time) })
	n := len(s.pending)
	for !until.IsZero() && n > 0 && s.pending[n-1].queued.After(until) {
		n--
	}
	due := s.pending[:n:n]
	s.pending = slices.Clone(s.pending[n:])
	if dropped > 0 {
		due = append(due, record{Record: timeline.Record{
			Time: s.cfg.Now(), Kind: timeline.KindLog, Level: "warning",
			Text: fmt.Sprintf("%d lines are dropped, because nobody read them in time", dropped),
		}})
	}
	return due
}

// drainQueue empties the queue and resets the count of dropped records.
func (s *Screen) drainQueue() (queue []record, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, dropped = s.queue, s.dropped
	s.queue, s.dropped = nil, 0
	return queue, dropped
}

// enqueue queues a record. The caller must hold s.mu.
func (s *Screen) enqueue(r timeline.Record) {
	if len(s.queue) >= maxQueue {
		s.dropped++
		return
	}
	s.queue = append(s.queue, record{r, s.cfg.Now()})
	s.wake.Send()
}

// Emit shows a point if it is a change (timeline.Changes). It does not keep the point.
func (s *Screen) Emit(p measure.Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last *timeline.Record
	if n := len(s.queue); n > 0 {
		last = &s.queue[n-1].Record
	}
	r, isNew := s.changes.RecordOf(p, last)
	if s.apps.Handles(p) {
		r, isNew = s.apps.RecordOf(p, nil)
	}
	if isNew {
		r.Why = "" // the log has the same text
		s.enqueue(r)
	}
}

// Log returns a logger whose lines are shown among the records, except for debug lines.
func (s *Screen) Log() *slog.Logger {
	return timeline.NewLog(slog.LevelInfo, func(r timeline.Record) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.enqueue(r)
	})
}
