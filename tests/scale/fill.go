package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"rdma_events/assets/influxdb"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

// place is the database and the policies that the dashboards and assets/influxdb
// use.
var place = influxdb.Own()

// Plan describes the data to write.
type Plan struct {
	Dir            string // for the database and the progress of filling it
	Hosts, Devices int
	Interval       time.Duration // Telegraf's
	Exact          bool          // raw points are stamped with whole intervals
	Seed           int64
}

// progress is stored in Dir, so that filling can stop and continue later.
type progress struct {
	Plan     Plan
	End      time.Time // of hour and day
	RawBytes int64     // of the hour's files, before the past is written; 0 if not known yet

	Raw, Past, Long int // hosts filled in
}

// span is a span of time to fill: an hour of raw points, or a day of the points
// that continuous queries keep.
type span struct {
	name     string
	policy   string
	length   time.Duration
	interval time.Duration
	probes   time.Duration // between two rounds; one a second would take too long for a day
	exact    bool
	done     *int
	bytes    int64
}

func (p *progress) spans() []span {
	return []span{
		{"raw hour", place.Raw, time.Hour, p.Plan.Interval, time.Second, p.Plan.Exact, &p.Raw, p.RawBytes},
		{"down-sampled day", place.Long, 24 * time.Hour, 5 * time.Minute, 30 * time.Second, true, &p.Long, 0},
	}
}

// stage is a part of the filling, host by host.
type stage struct {
	name string
	span time.Duration // over which the faults of the hosts are spread
	done *int
	host func(context.Context, *influx.Server, history.Host) error
}

func (p *progress) stage(s span) stage {
	return stage{s.name, s.length, s.done, func(ctx context.Context, db *influx.Server, h history.Host) error {
		return p.writeHost(ctx, db, s, h)
	}}
}

func (p *progress) file() string { return filepath.Join(p.Plan.Dir, "progress.json") }

func loadProgress(plan Plan, now time.Time) (*progress, error) {
	p := &progress{Plan: plan, End: now.Truncate(time.Hour)}
	text, err := os.ReadFile(p.file())
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read progress: %w", err)
	}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("read progress in %s: %w", p.file(), err)
	}
	if p.Plan != plan {
		return nil, fmt.Errorf("%s was filled with %+v: give the same, or remove it", plan.Dir, p.Plan)
	}
	return p, nil
}

func (p *progress) save() error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(p.file(), text, 0o600)
}

func (p *progress) full() bool { return min(p.Raw, p.Past, p.Long) == p.Plan.Hosts }

// step is the number of hosts that are written before progress is stored.
const step = 20

// fill writes hosts until all are written or ctx ends. The end of ctx is no error.
func (p *progress) fill(ctx context.Context, db *influx.Server, s stage, say func(string, ...any)) error {
	hosts := history.Fleet{Hosts: p.Plan.Hosts, Devices: p.Plan.Devices, Span: s.span, Seed: p.Plan.Seed}.All()
	began, from := time.Now(), *s.done
	for *s.done < len(hosts) && ctx.Err() == nil {
		// A step that has begun is completed: writing a point twice makes one point, but takes time.
		n := min(step, len(hosts)-*s.done)
		if err := onAllCPUs(db, s, hosts[*s.done:*s.done+n]); err != nil {
			return err
		}
		*s.done += n
		if err := p.save(); err != nil {
			return fmt.Errorf("keep progress: %w", err)
		}
	}
	if *s.done > from {
		say("%s: %d of %d hosts, %.2f s each\n", s.name, *s.done, len(hosts), time.Since(began).Seconds()/float64(*s.done-from))
	}
	return nil
}

func onAllCPUs(db *influx.Server, s stage, hosts []history.Host) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	next := make(chan history.Host)
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for h := range next {
				if err := s.host(ctx, db, h); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, h := range hosts {
		next <- h
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

func (p *progress) writeHost(ctx context.Context, db *influx.Server, s span, h history.Host) error {
	c := history.Config{
		Start: p.End.Add(-s.length), End: p.End, Interval: s.interval, ProbeInterval: s.probes, Exact: s.exact,
		Hosts: []history.Host{h},
	}
	w := db.NewWriter(ctx, place.Database).In(s.policy)
	if err := c.Write(ctx, w); err != nil {
		return err
	}
	return w.Flush()
}
