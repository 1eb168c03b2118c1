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

func eventStorm(mono int64) verbs.Batch {
	b := verbs.Batch{Wall: epoch + mono, Mono: mono}
	for i := range int64(50) {
		b.Items = append(b.Items, eventItem(verbs.EventPortErr, 1, 1, mono-2*i, mono-2*i),
			eventItem(verbs.EventPortActive, 1, 1, mono-2*i, mono-2*i))
	}
	return b
}

// newOpenDevice returns the only device of a Monitor, which is open, and the number of points that the Monitor has emitted.
func newOpenDevice(t testing.TB) (d *Device, points *int) {
	t.Helper()
	mono := int64(0)
	points = new(int)
	m := New(Config{
		Emit: func(measure.Point) { *points++ }, Window: 3 * time.Second,
		Now: func() (int64, int64, int64) { mono += ms; return epoch + mono, mono, mono },
	})
	d = m.ensureDevice("mlx5_0")
	at := m.clock.read()
	d.handleFound(foundDevice("mlx5_0", 0), &at)
	d.Batch(verbs.Batch{Items: []verbs.Item{openedItem("mlx5_0", 2), readingItem(1, 0, verbs.PortActive)}}, status.Status{})
	return d, points
}

func TestABatchAllocatesItsPointsAlone(t *testing.T) {
	d, points := newOpenDevice(t)
	b := eventStorm(sec)
	for range 4_000 {
		d.Batch(b, status.Status{}) // until every slice of the delivery window has been used
	}
	*points = 0
	d.Batch(b, status.Status{})
	want := *points
	require.EqualValues(t, want, testing.AllocsPerRun(1000, func() { d.Batch(b, status.Status{}) }))
}

func BenchmarkBatchOf100Runs(b *testing.B) {
	d, _ := newOpenDevice(b)
	batch := eventStorm(sec)
	b.ReportAllocs()
	for b.Loop() {
		d.Batch(batch, status.Status{})
	}
}

// newFleet returns a Monitor of many devices with two ports each. Each port was probed once a second for the whole window.
func newFleet(t testing.TB, devices int) *Monitor {
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
		d.Batch(verbs.Batch{Items: []verbs.Item{openedItem(d.name, 2)}}, status.Status{})
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
	s := sortPoints(newFleet(t, 256).Gather(time.Unix(0, epoch)))
	require.Len(t, s.Devices, 256)
	require.Len(t, s.Async, 3*256)
	require.Len(t, s.Ports, 2*256)
	require.Len(t, s.Probes, 2*256)
	require.EqualValues(t, 291, s.Probes[511].WakeP.Count, "29 slices of 10 s and the one begun")
}

func BenchmarkGatherOf256Devices(b *testing.B) {
	m := newFleet(b, 256)
	b.ReportAllocs()
	for b.Loop() {
		m.Gather(time.Unix(0, epoch))
	}
}
