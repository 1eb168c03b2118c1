package agent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
)

type firstPoint chan measure.Point

// Write implements emit.Sink.
func (f firstPoint) Write(_ context.Context, p measure.Point, _ time.Time) uint64 {
	select {
	case f <- p:
	default:
	}
	return 0
}

// With hundreds of devices the judgement takes longer than all lines.
func TestTelegrafDoesNotWaitForTheJudgement(t *testing.T) {
	var status statusKeeper
	p := pipeline{status: &status, records: &recordKeeper{}, emitter: emit.New(100, time.Now)}
	emitted, done := make(firstPoint, 1), make(chan struct{})
	emitting := startGoroutine(func(ctx context.Context) { p.emitter.Run(ctx, emitted) })
	defer emitting.stop(t.Context())

	status.mu.Lock() // the judgement cannot begin
	go func() {
		defer close(done)
		p.handleInterval(&measure.Interval{Points: []measure.Point{&measure.Device{Device: "mlx5_0"}}, Own: &measure.Collector{}}, time.Now())
	}()
	select {
	case got := <-emitted:
		require.Equal(t, "mlx5_0", got.Key().Device)
	case <-time.After(10 * time.Second):
		t.Error("no point was emitted before the judgement")
	}
	status.mu.Unlock()
	<-done
}
