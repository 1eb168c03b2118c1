package monitor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func TestFatalsAreAttributedOnce(t *testing.T) {
	type step struct {
		total uint64
		why   taking
		mono  int64
		want  fatals
	}
	limit := int64(fatalLimit)
	for name, steps := range map[string][]step{
		"none":    {{0, takingUnknown, sec, fatals{}}, {0, takingSure, sec, fatals{}}},
		"a fault": {{2, takingNot, sec, fatals{faults: 2}}, {2, takingSure, sec, fatals{faults: 2}}},
		"taken":   {{2, takingSure, sec, fatals{excused: 2}}, {2, takingNot, sec, fatals{excused: 2}}},
		"a fault in the end": {
			{1, takingUnknown, sec, fatals{waiting: sec}}, {2, takingUnknown, sec + limit - 1, fatals{waiting: sec}},
			{2, takingUnknown, sec + limit, fatals{faults: 2}}, {3, takingUnknown, 90 * sec, fatals{faults: 2, waiting: 90 * sec}},
		},
		"taken in the end": {
			{1, takingUnknown, sec, fatals{waiting: sec}}, {2, takingSure, 2 * sec, fatals{excused: 2}},
			{3, takingNot, 3 * sec, fatals{faults: 1, excused: 2}}, {4, takingSure, 4 * sec, fatals{faults: 1, excused: 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f fatals
			for i, s := range steps {
				f.decide(s.total, s.why, s.mono)
				require.Equal(t, s.want, f, "step %d", i)
			}
		})
	}
}

// vf is the address of a virtual function, and in is its instance.
const vf = "7870:00:02.0"

func in(instance uint64) verbs.PCIFunction {
	return verbs.PCIFunction{Driver: "mlx5_core", Instance: instance}
}

// goesAway makes the kernel take a device from its worker and remove it.
func (h *harness) goesAway(sup *fakeSupervisor) {
	h.t.Helper()
	h.taken(sup)
	h.finds()
}

// comesBack makes the device appear with another index, and its worker open it.
func (h *harness) comesBack(sup *fakeSupervisor, f verbs.Found) {
	h.t.Helper()
	h.finds(f)
	h.opens(sup, f.Name)
}

func startOnFunction(t *testing.T, f verbs.Found) (*harness, *bus, *fakeSupervisor) {
	t.Helper()
	var pci bus
	pci.set(f.OwningPCI(), in(7))
	h := start(t, func(c *Config) { c.Function = pci.get })
	h.finds(f)
	sup := h.sup(f.Name, 0)
	h.opens(sup, f.Name)
	h.mono.Store(sec)
	return h, &pci, sup
}

func requireCounts(t *testing.T, v measure.Device, removals, functionRemovals, fatals uint64) {
	t.Helper()
	require.Equal(t, []uint64{removals, functionRemovals, fatals}, []uint64{v.Removals, v.FunctionRemovals, v.Fatals},
		"removals, function_removals, fatals")
}

func TestServicingOfAVirtualFunctionIsNoFault(t *testing.T) {
	h, pci, sup := startOnFunction(t, on(vf, "mlx5_0", 0))
	for n := uint64(1); n <= 3; n++ {
		h.goesAway(sup)
		v := deviceView(h.gather(), "mlx5_0")
		require.Equal(t, status.ReasonRemoved, v.Reason)
		requireCounts(t, v, n, n-1, 0)
		h.mono.Add(2 * sec)
		pci.set(vf, verbs.PCIFunction{Absent: true})
		requireCounts(t, deviceView(h.gather(), "mlx5_0"), n, n, 0)
		h.mono.Add(20 * sec)
		pci.set(vf, in(7+n))
		requireCounts(t, deviceView(h.gather(), "mlx5_0"), n, n, 0)
		h.comesBack(sup, on(vf, "mlx5_0", int(n)))
		v = deviceView(h.gather(), "mlx5_0")
		require.True(t, v.Open)
		requireCounts(t, v, n, n, 0)
		h.runs(sup, h.mono.Load()+60*sec)
	}
	s := h.gather()
	requireCounts(t, deviceView(s, "mlx5_0"), 3, 3, 0)
	require.EqualValues(t, 3, count(async(s, "mlx5_0", 0), verbs.EventDeviceFatal).Total, "each event is counted")
	require.Len(t, of[measure.Event](h.sink.take()), 3, "and reported")
}

func TestFunctionThatIsBackBeforeAnybodyLooksWasRemoved(t *testing.T) {
	h, pci, sup := startOnFunction(t, on(vf, "mlx5_0", 0))
	h.goesAway(sup)
	pci.set(vf, in(8))
	h.comesBack(sup, on(vf, "mlx5_0", 1))
	h.runs(sup, h.mono.Load()+int64(time.Minute))
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 1, 1, 0)
}

func TestFirmwareThatRecoversIsAFault(t *testing.T) {
	h, _, sup := startOnFunction(t, on(vf, "mlx5_0", 0))
	h.goesAway(sup)
	h.mono.Add(3 * sec)
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 1, 0, 0)
	h.comesBack(sup, on(vf, "mlx5_0", 1))
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 1, 0, 1)
	h.goesAway(sup)
	h.mono.Add(int64(fatalLimit) - sec)
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 2, 0, 1)
	h.mono.Add(sec)
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 2, 0, 2)
}

func TestFatalWithoutARemovalIsAFault(t *testing.T) {
	h, pci, sup := startOnFunction(t, on(vf, "mlx5_0", 0))
	h.batch(sup, event(verbs.EventDeviceFatal, 0, 1, sec, sec))
	h.runs(sup, h.mono.Load()+int64(fatalLimit))
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 0, 0, 1)
	h.goesAway(sup)
	pci.set(vf, verbs.PCIFunction{Absent: true})
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 1, 1, 1)
}

// What the kernel says last is what counts: firmware that is lost first, and the function that is removed then.
func TestFatalBeforeTheRemovalOfTheFunctionIsNoFault(t *testing.T) {
	h, pci, sup := startOnFunction(t, on(vf, "mlx5_0", 0))
	h.batch(sup, event(verbs.EventDeviceFatal, 0, 1, sec, sec))
	h.runs(sup, 8*sec)
	h.goesAway(sup)
	h.mono.Add(2 * sec)
	pci.set(vf, verbs.PCIFunction{Absent: true})
	h.mono.Add(int64(time.Minute))
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 1, 1, 0)
}

func TestScalableFunctionGoesWithTheFunctionItIsOn(t *testing.T) {
	f := found("mlx5_2", 2)
	f.VirtualFunction, f.Scalable, f.Parent = true, true, "0000:3b:00.0"
	h, pci, sup := startOnFunction(t, f)
	h.goesAway(sup)
	pci.set(f.Parent, verbs.PCIFunction{Absent: true})
	requireCounts(t, deviceView(h.gather(), "mlx5_2"), 1, 1, 0)
}

func TestStateOfAFunctionThatIsNotKnownRemovesNothing(t *testing.T) {
	h, pci, sup := startOnFunction(t, on(vf, "mlx5_0", 0))
	pci.set(vf, verbs.PCIFunction{})
	h.goesAway(sup)
	h.mono.Add(int64(fatalLimit))
	h.gather()
	h.mono.Add(int64(fatalLimit))
	requireCounts(t, deviceView(h.gather(), "mlx5_0"), 1, 0, 1)
}

func TestFunctionOfADeviceThatCanMoveIsRemovedAtOnce(t *testing.T) {
	h, pci, sup := startOnFunction(t, here("mlx5_1", 1))
	h.goesAway(sup)
	requireCounts(t, deviceView(h.gather(), "mlx5_1"), 0, 0, 0)
	pci.set(function(1), verbs.PCIFunction{Absent: true})
	v := deviceView(h.gather(), "mlx5_1")
	require.False(t, v.Present, "it is in no other namespace")
	requireCounts(t, v, 1, 1, 0)
}

func TestMonitorThatEndsCountsTheFatalsThatWait(t *testing.T) {
	for name, row := range map[string]struct {
		now                      verbs.PCIFunction
		functionRemovals, fatals uint64
	}{
		"function stays":   {in(7), 0, 1},
		"function removed": {verbs.PCIFunction{Absent: true}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pci bus
				pci.set(vf, in(7))
				h := newHarness(t, func(c *Config) { c.Function = pci.get })
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- h.Run(ctx) }()
				h.finds(on(vf, "mlx5_0", 0))
				h.opens(h.sup("mlx5_0", 0), "mlx5_0")
				h.goesAway(h.sup("mlx5_0", 0))
				pci.set(vf, row.now)
				h.sink.take()
				cancel()
				require.NoError(t, <-done)
				emitted := of[measure.Device](h.sink.take())
				require.NotEmpty(t, emitted)
				requireCounts(t, emitted[len(emitted)-1], 1, row.functionRemovals, row.fatals)
			})
		})
	}
}

func TestFatalIsDecidedWithoutAGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, pci, sup := startOnFunction(t, on(vf, "mlx5_0", 0))
		h.goesAway(sup)
		pci.set(vf, verbs.PCIFunction{Absent: true})
		h.sink.take()
		time.Sleep(2 * retryInterval)
		emitted := of[measure.Device](h.sink.take())
		require.NotEmpty(t, emitted)
		requireCounts(t, emitted[len(emitted)-1], 1, 1, 0)
	})
}
