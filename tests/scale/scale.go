package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"rdma_events/assets/influxdb"
	"rdma_events/tests/grafana"
	"rdma_events/tests/influx"
)

// ErrSlow is wrapped by the error of Run if a query of the Overview dashboard or of an
// alert rule took longer than Limit.
var ErrSlow = errors.New("a query is too slow")

// Limit is how long a query may take.
const Limit = 2 * time.Second

// Config describes a run.
type Config struct {
	Plan    Plan
	Root    string        // of the repository, with programs in build/tools
	For     time.Duration // how long to fill; 0: until it is full
	Out     io.Writer
	Now     func() time.Time
	Measure bool // even when it is not full
	// Cold is the time without writes after which the server compacts a shard fully;
	// by default that is four hours. Settling takes twice as long as Cold.
	Cold time.Duration
	// Only is InfluxDB or Prometheus; "" is both.
	Only string
}

// The engines.
const (
	InfluxDB   = "influxdb"
	Prometheus = "prometheus"
)

// Run fills the databases in Plan.Dir, and measures each once it is full. It blocks
// until then, or until ctx or For ends the filling of the InfluxDB. In that case it
// returns nil unless Measure is set, and another Run continues. The error wraps
// ErrSlow if a query took too long.
func Run(ctx context.Context, c Config) error {
	say := func(format string, args ...any) { fmt.Fprintf(c.Out, format, args...) }
	var slow error
	if c.Only != Prometheus {
		full, err := c.runInfluxDB(ctx, say)
		if err != nil && !errors.Is(err, ErrSlow) || !full {
			return err
		}
		slow = err
	}
	if c.Only != InfluxDB {
		return errors.Join(slow, c.runPrometheus(ctx, say))
	}
	return slow
}

// runInfluxDB returns whether the InfluxDB has been measured.
func (c *Config) runInfluxDB(ctx context.Context, say func(string, ...any)) (measured bool, err error) {
	dir := filepath.Join(c.Plan.Dir, "influxdb")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	p, err := loadProgress(c.Plan, c.Now())
	if err != nil {
		return false, err
	}
	db, err := influx.Open(ctx, influx.Config{Program: filepath.Join(c.Root, "build/tools/influxd"), Dir: dir, Cold: c.Cold})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := prepareDatabase(ctx, db); err != nil {
		return false, err
	}
	filling, stop := ctx, context.CancelFunc(func() {})
	if c.For > 0 {
		filling, stop = context.WithTimeout(ctx, c.For)
	}
	defer stop()
	if err := c.fill(ctx, filling, db, p, say); err != nil {
		return false, err
	}
	if !p.full() && !c.Measure {
		say("not full yet: run it again\n")
		return false, nil
	}
	if err := awaitCompaction(ctx, dir, 2*c.Cold); err != nil {
		return false, err
	}
	return true, c.measure(ctx, db, p, say)
}

// fill runs the stages. The end of filling stops the writing of hosts; the end of
// ctx also stops the waiting for compaction.
func (c *Config) fill(ctx, filling context.Context, db *influx.Server, p *progress, say func(string, ...any)) error {
	spans := p.spans()
	if err := p.fill(filling, db, p.stage(spans[0]), say); err != nil {
		return err
	}
	if p.Raw < p.Plan.Hosts {
		return nil
	}
	if p.RawBytes == 0 {
		if err := c.weigh(ctx, p); err != nil {
			return err
		}
	}
	if err := p.fill(filling, db, p.past(), say); err != nil {
		return err
	}
	return p.fill(filling, db, p.stage(spans[1]), say)
}

// weigh stores the size of the raw hour while its policy has no other data.
func (c *Config) weigh(ctx context.Context, p *progress) error {
	if err := awaitCompaction(ctx, filepath.Join(c.Plan.Dir, "influxdb"), 2*c.Cold); err != nil {
		return err
	}
	var err error
	if p.RawBytes, err = dirSize(filepath.Join(c.Plan.Dir, "influxdb/data", place.Database, p.spans()[0].policy)); err != nil {
		return err
	}
	return p.save()
}

// awaitCompaction waits until the server has compacted the data: until the size of its files
// has stayed the same for the duration still.
func awaitCompaction(ctx context.Context, dir string, still time.Duration) error {
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	last, same := int64(0), 0
	for same < int(still/time.Second) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
		now, err := dirSize(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // compaction removes files
			return err
		}
		if same++; now != last {
			last, same = now, 0
		}
	}
	return nil
}

// prepareDatabase creates the database and its retention policies. It drops the continuous
// queries again: otherwise the server would run them during the measurement.
func prepareDatabase(ctx context.Context, db *influx.Server) error {
	if _, err := db.Query(ctx, "", influxdb.Downsampling); err != nil {
		return err
	}
	got, err := db.Query(ctx, "", "SHOW CONTINUOUS QUERIES")
	if err != nil {
		return err
	}
	for i := range got {
		for _, name := range got[i].Column("name") {
			if _, err := db.Query(ctx, "", fmt.Sprintf("DROP CONTINUOUS QUERY %q ON %q", name, place.Database)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Config) measure(ctx context.Context, db *influx.Server, p *progress, say func(string, ...any)) error {
	series, err := seriesCount(ctx, db)
	if err != nil {
		return err
	}
	say("\n%d hosts with %d devices: %d series\n", p.Raw, p.Plan.Devices, series)
	for _, s := range p.spans() {
		bytes := s.bytes
		if bytes == 0 {
			if bytes, err = dirSize(filepath.Join(c.Plan.Dir, "influxdb/data", place.Database, s.policy)); err != nil {
				return err
			}
		}
		perDay := float64(bytes) / float64(*s.done*p.Plan.Devices) * float64(24*time.Hour) / float64(s.length)
		say("%s: %.1f MB, %.0f kB per device and day\n", s.name, float64(bytes)/1e6, perDay/1e3)
	}
	var worst time.Duration
	for _, s := range p.spans() {
		all, err := askOverview(ctx, db, c.Root, s.policy, grafana.Range{From: p.End.Add(-s.length), To: p.End})
		if err != nil {
			return err
		}
		worst = max(worst, slowestQuery(all))
		say("\nOverview, %s (policy %s), slowest %.2f s, %d queries\n\n%s", s.name, s.policy, slowestQuery(all).Seconds(), len(all), answerTable(all))
	}
	all, err := askRules(ctx, db, c.Root, p.End)
	if err != nil {
		return err
	}
	worst = max(worst, slowestQuery(all))
	say("\nRules, slowest %.2f s, together %.2f s\n\n%s\n", slowestQuery(all).Seconds(), totalTime(all).Seconds(), answerTable(all))
	if err := runContinuousQueries(ctx, db, p.End, say); err != nil {
		return err
	}
	say("memory of influxd: %d MB\n", residentMemory(db.PID())>>20)
	if worst > Limit {
		return fmt.Errorf("%w: %.2f s, want %v", ErrSlow, worst.Seconds(), Limit)
	}
	return nil
}
