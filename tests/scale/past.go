package scale

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

// lookback is a field that rules query for hours before the raw hour.
type lookback struct {
	measurement, field string // of whole numbers
	hours              int
}

func lookbacks() []lookback {
	return []lookback{{"rdma_port", "up", 24}, {"rdma_collector", "uptime_ns", 24}, {"rdma_cq_probe", "wake_ns_p99", 4}}
}

// past returns the stage that repeats the raw hour as far back as rules query. It
// writes only the fields that the queries of rules read there.
func (p *progress) past() stage {
	return stage{"past of rules", time.Hour, &p.Past, p.writePast}
}

func (p *progress) writePast(ctx context.Context, db *influx.Server, h history.Host) error {
	w := db.NewWriter(ctx, place.Database)
	for _, l := range lookbacks() {
		series, err := db.Query(ctx, place.Database, fmt.Sprintf(`SELECT %q FROM %q WHERE "host" = '%s' AND time > %d AND time <= %d GROUP BY *`,
			l.field, l.measurement, h.Name, p.End.Add(-time.Hour).UnixNano(), p.End.UnixNano()))
		if err != nil {
			return err
		}
		for i := range series {
			if err := l.repeat(w, &series[i]); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// repeat writes a series once for each hour before its own.
func (l *lookback) repeat(w io.Writer, s *influx.Series) error {
	head := l.measurement
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		if s.Tags[key] != "" {
			head += "," + key + "=" + s.Tags[key] // no tag here has a character that must be escaped
		}
	}
	values, times := s.Numbers(l.field)
	for back := 1; back < l.hours; back++ {
		for i, at := range times {
			before := at.Add(-time.Duration(back) * time.Hour).UnixNano()
			if _, err := fmt.Fprintf(w, "%s %s=%di %d\n", head, l.field, int64(values[i]), before); err != nil {
				return err
			}
		}
	}
	return nil
}
