package recorder

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/clock"
)

func benchConfig(b *testing.B) Config {
	c := newConfig(b.TempDir())
	c.SizeMiB = DefaultSizeMiB
	c.Clock = clock.WallAndBoot
	return c
}

// BenchmarkAdd is what a caller pays, for an entry that is queued. Its data exists already.
func BenchmarkAdd(b *testing.B) {
	r, err := Open(benchConfig(b))
	require.NoError(b, err)
	e := Entry{Kind: "event", Device: "mlx5_0", Port: 1, Data: &number{7}}
	b.ReportAllocs()
	var spare []stamped
	for i := 0; b.Loop(); i++ {
		if i%maxQueued == 0 {
			b.StopTimer()
			spare = r.queue.takeAll(spare).entries
			b.StartTimer()
		}
		r.Add(e)
	}
	require.Zero(b, r.Counts().Lost)
	b.StopTimer()
	require.NoError(b, closeNow(r))
}

// BenchmarkWrite is what the writer's goroutine pays for a record, in batches of 100, without syncs of its own.
func BenchmarkWrite(b *testing.B) {
	for _, counters := range []int{0, 30} {
		b.Run(fmt.Sprintf("counters=%d", counters), func(b *testing.B) {
			r, err := Open(benchConfig(b))
			require.NoError(b, err)
			require.NoError(b, r.writer.open())
			changed := map[string]int64{}
			for i := range counters {
				changed[fmt.Sprintf("rx_prio%d_pause_duration", i)] = int64(i) << 30
			}
			e := Entry{Kind: "evidence", Device: "mlx5_0", Port: 1, Data: map[string]any{"cause": "no_carrier", "changed": changed}}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Add(e)
				if i%100 == 99 {
					require.NoError(b, r.writer.writeQueued())
				}
			}
			require.NoError(b, r.writer.writeQueued())
			b.ReportMetric(float64(r.writer.sequence), "records")
			require.NoError(b, closeNow(r))
		})
	}
}
