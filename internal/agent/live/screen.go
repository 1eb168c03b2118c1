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
	// hold is how long a record waits for others that happened before it: workers send what they
	// read in an order of their own.
	hold = 100 * time.Millisecond
	// interval is how often probes are shown.
	interval = time.Second
	// maxQueue limits the records that wait for a reader that does not read.
	maxQueue = 100_000
)

// Config is the configuration of a Screen.
type Config struct {
	Out     io.Writer
	JSON    bool // one object a line
	Colours bool // Out is a terminal: colours, and probes in place
	ASCII   bool // without block characters
	Probes  bool
	Apps    bool // what applications experience
	// Pairs returns the pairs of ports with other hosts as they are now (timeline.NewPair), of which a table is shown. It is
	// called every second, after gather. Nil: there is no table, else there are no probes.
	Pairs func() []timeline.Record
	// Every is the time between two tables where Out is no terminal; 0: one second.
	Every time.Duration
	// Width and Height return how many columns and lines the terminal has; nil: no limit.
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
	apps    *timeline.Changes // those of applications; without Config.Apps none

	// Used only by the goroutine of Run.
	held    []record // taken from queue, and not shown yet
	block   block
	current map[place]verbs.Method
	table   time.Time // of the last table
}

// record is one that waits to be shown.
type record struct {
	timeline.Record
	queued time.Time // when it came; Time is when it happened
}

// New returns a Screen, which shows nothing before Run.
func New(c Config) *Screen {
	apps := timeline.NewChanges()
	if c.Apps {
		apps = timeline.NewChanges(timeline.RegisterApplications, timeline.RegisterUnreadErrors)
	}
	return &Screen{
		cfg: c, wake: wake.New(), changes: timeline.NewChanges(timeline.RegisterDevices, timeline.RegisterFabric), apps: apps,
		style: timeline.Style{Colours: c.Colours, ASCII: c.ASCII},
		block: block{width: c.Width, height: c.Height}, current: make(map[place]verbs.Method),
	}
}

// Run shows the points of Emit until ctx is done, and then those that are left. It calls
// gather every second, as a monitor needs it; the points that gather returns include the
// measurements of probes, and what applications do not read and where they hang. Run returns the error of a failed write, else nil.
func (s *Screen) Run(ctx context.Context, gather func(now time.Time) []measure.Point) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return s.show(s.take(time.Time{}), nil)
		case <-s.wake:
			if due == nil {
				due = time.After(hold)
			}
			continue
		case <-due:
			due = nil
			if err := s.show(s.take(s.cfg.Now().Add(-hold)), nil); err != nil {
				return err
			}
		case <-tick.C:
			now := s.cfg.Now()
			points := gather(now)
			s.look(points)
			if err := s.show(s.take(now.Add(-hold)), s.present(points, now)); err != nil {
				return err
			}
		}
		if due == nil && len(s.held) > 0 {
			due = time.After(hold)
		}
	}
}

// take returns the records that were queued until a time, all if it is zero, and those that happened before them, in the
// order in which they happened. It keeps the others in held.
func (s *Screen) take(until time.Time) []record {
	queue, dropped := s.unqueue()
	s.held = append(s.held, queue...)
	slices.SortStableFunc(s.held, func(a, b record) int { return a.Time.Compare(b.Time) })
	n := len(s.held)
	for !until.IsZero() && n > 0 && s.held[n-1].queued.After(until) {
		n--
	}
	due := s.held[:n:n]
	s.held = slices.Clone(s.held[n:])
	if dropped > 0 {
		due = append(due, record{Record: timeline.Record{
			Time: s.cfg.Now(), Kind: timeline.KindLog, Level: "warning",
			Text: fmt.Sprintf("%d lines are dropped, because nobody read them in time", dropped),
		}})
	}
	return due
}

// unqueue empties the queue.
func (s *Screen) unqueue() (queue []record, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, dropped = s.queue, s.dropped
	s.queue, s.dropped = nil, 0
	return queue, dropped
}

// add queues a record. The caller holds s.mu.
func (s *Screen) add(r timeline.Record) {
	if len(s.queue) >= maxQueue {
		s.dropped++
		return
	}
	s.queue = append(s.queue, record{r, s.cfg.Now()})
	s.wake.Send()
}

// Emit shows a point that is news (timeline.Changes). It does not keep the point.
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
		r.Why = "" // the log has said it
		s.add(r)
	}
}

// Log returns a logger whose lines are shown among the other lines. Its debug lines are
// not shown.
func (s *Screen) Log() *slog.Logger {
	return timeline.NewLog(slog.LevelInfo, func(r timeline.Record) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(r)
	})
}
