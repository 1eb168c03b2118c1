package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func storm(mono int64) verbs.Batch {
	b := verbs.Batch{Wall: epoch + mono, Mono: mono}
	for i := range int64(50) {
		b.Items = append(b.Items, event(verbs.EventPortErr, 1, 1, mono-2*i, mono-2*i),
			event(verbs.EventPortActive, 1, 1, mono-2*i, mono-2*i))
	}
	return b
}

// lone returns the only device of a Monitor, and the number of points emitted.
func lone(t testing.TB) (d *Device, points *int) {
	t.Helper()
	mono := int64(0)
	points = new(int)
	m := New(Config{
		Emit: func(measure.Point) { *points++ }, Window: 3 * time.Second,
		Now: func() (int64, int64, int64) { mono += ms; return epoch + mono, mono, mono },
	})
	d = m.ensureDevice("mlx5_0")
	at := m.clock.read()
	d.handleFound(found("mlx5_0", 0), &at)
	d.Batch(verbs.Batch{Items: []verbs.Item{opened("mlx5_0", 2), reading(1, 0, verbs.PortActive)}}, status.Status{})
	return d, points
}

func TestABatchAllocatesItsPointsAlone(t *testing.T) {
	d, points := lone(t)
	b := storm(sec)
	for range 4_000 {
		d.Batch(b, status.Status{}) // until every slice of the delivery window has been used
	}
	*points = 0
	d.Batch(b, status.Status{})
	want := *points
	require.EqualValues(t, want, testing.AllocsPerRun(1000, func() { d.Batch(b, status.Status{}) }))
}

func BenchmarkBatchOf100Runs(b *testing.B) {
	d, _ := lone(b)
	batch := storm(sec)
	b.ReportAllocs()
	for b.Loop() {
		d.Batch(batch, status.Status{})
	}
}

// fleet returns a Monitor of many devices with two ports each. The probe of each port
// has run once a second for its whole window.
func fleet(t testing.TB, devices int) *Monitor {
	t.Helper()
	mono := int64(0)
	m := New(Config{
		Emit: func(measure.Point) {}, Window: 5 * time.Minute,
		Now: func() (int64, int64, int64) { return epoch + mono, mono, mono },
	})
	at := m.clock.read()
	for i := range devices {
		d := m.ensureDevice(fmt.Sprintf("mlx5_%d", i))
		d.handleFound(verbs.Found{Name: d.name, Index: i, Node: "uverbs"}, &at)
		mono = 0
		d.Batch(verbs.Batch{Items: []verbs.Item{opened(d.name, 2)}}, status.Status{})
		for mono < 300*sec {
			mono += sec
			var items []verbs.Item
			for port := range 2 {
				items = append(items, verbs.Item{Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: port + 1, Method: verbs.MethodRCWrite}, Round: verbs.Round{
					Start: mono, Wake: 40_000 + mono/1e6%9973, Ack: 300, Hold: 900, Total: 60_000 + mono/1e6%7919,
				}}})
			}
			d.Batch(verbs.Batch{Wall: epoch + mono, Mono: mono, Items: items}, status.Status{})
		}
	}
	return m
}

func TestGatherOf256DevicesIsComplete(t *testing.T) {
	s := sortPoints(fleet(t, 256).Gather(time.Unix(0, epoch)))
	require.Len(t, s.Devices, 256)
	require.Len(t, s.Async, 3*256)
	require.Len(t, s.Ports, 2*256)
	require.Len(t, s.Probes, 2*256)
	require.EqualValues(t, 291, s.Probes[511].WakeP.Count, "29 slices of 10 s and the one begun")
}

func BenchmarkGatherOf256Devices(b *testing.B) {
	m := fleet(b, 256)
	b.ReportAllocs()
	for b.Loop() {
		m.Gather(time.Unix(0, epoch))
	}
}
