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
		why   withdrawal
		mono  int64
		want  fatals
	}
	limit := int64(fatalLimit)
	for name, steps := range map[string][]step{
		"none":    {{0, withdrawalPossible, sec, fatals{}}, {0, withdrawalCertain, sec, fatals{}}},
		"a fault": {{2, withdrawalNone, sec, fatals{faults: 2}}, {2, withdrawalCertain, sec, fatals{faults: 2}}},
		"taken":   {{2, withdrawalCertain, sec, fatals{excused: 2}}, {2, withdrawalNone, sec, fatals{excused: 2}}},
		"a fault in the end": {
			{1, withdrawalPossible, sec, fatals{waiting: sec}}, {2, withdrawalPossible, sec + limit - 1, fatals{waiting: sec}},
			{2, withdrawalPossible, sec + limit, fatals{faults: 2}}, {3, withdrawalPossible, 90 * sec, fatals{faults: 2, waiting: 90 * sec}},
		},
		"taken in the end": {
			{1, withdrawalPossible, sec, fatals{waiting: sec}}, {2, withdrawalCertain, 2 * sec, fatals{excused: 2}},
			{3, withdrawalNone, 3 * sec, fatals{faults: 1, excused: 2}}, {4, withdrawalCertain, 4 * sec, fatals{faults: 1, excused: 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f fatals
			for i, s := range steps {
				f.attribute(s.total, s.why, s.mono)
				require.Equal(t, s.want, f, "step %d", i)
			}
		})
	}
}

// vf is the PCI address of a virtual function.
const vf = "7870:00:02.0"

func boundFunction(instance uint64) verbs.PCIFunction {
	return verbs.PCIFunction{Driver: "mlx5_core", Instance: instance}
}

// removeDevice acts as a kernel that withdraws a device from its worker and removes it.
func (h *harness) removeDevice(sup *fakeSupervisor) {
	h.t.Helper()
	h.reportMoveByKernel(sup)
	h.reportFound()
}

// reopenDevice makes the device appear with another index, and its worker open it.
func (h *harness) reopenDevice(sup *fakeSupervisor, f verbs.Found) {
	h.t.Helper()
	h.reportFound(f)
	h.openDevice(sup, f.Name)
}

func startOnFunction(t *testing.T, f verbs.Found) (*harness, *bus, *fakeSupervisor) {
	t.Helper()
	var pci bus
	pci.set(f.OwningPCI(), boundFunction(7))
	h := startMonitor(t, func(c *Config) { c.Function = pci.get })
	h.reportFound(f)
	sup := h.sup(f.Name, 0)
	h.openDevice(sup, f.Name)
	h.mono.Store(sec)
	return h, &pci, sup
}

func requireCounts(t *testing.T, v measure.Device, removals, functionRemovals, fatals uint64) {
	t.Helper()
	require.Equal(t, []uint64{removals, functionRemovals, fatals}, []uint64{v.Removals, v.FunctionRemovals, v.Fatals},
		"removals, function_removals, fatals")
}

func TestServicingOfAVirtualFunctionIsNoFault(t *testing.T) {
	h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
	for n := uint64(1); n <= 3; n++ {
		h.removeDevice(sup)
		v := findDevice(h.gather(), "mlx5_0")
		require.Equal(t, status.ReasonRemoved, v.Reason)
		requireCounts(t, v, n, n-1, 0)
		h.mono.Add(2 * sec)
		pci.set(vf, verbs.PCIFunction{Absent: true})
		requireCounts(t, findDevice(h.gather(), "mlx5_0"), n, n, 0)
		h.mono.Add(20 * sec)
		pci.set(vf, boundFunction(7+n))
		requireCounts(t, findDevice(h.gather(), "mlx5_0"), n, n, 0)
		h.reopenDevice(sup, deviceOn(vf, "mlx5_0", int(n)))
		v = findDevice(h.gather(), "mlx5_0")
		require.True(t, v.Open)
		requireCounts(t, v, n, n, 0)
		h.runUntil(sup, h.mono.Load()+60*sec)
	}
	s := h.gather()
	requireCounts(t, findDevice(s, "mlx5_0"), 3, 3, 0)
	require.EqualValues(t, 3, findCount(findAsync(s, "mlx5_0", 0), verbs.EventDeviceFatal).Total, "each event is counted")
	require.Len(t, pointsOf[measure.Event](h.sink.takePoints()), 3, "and reported")
}

func TestFunctionThatIsBackBeforeAnybodyLooksWasRemoved(t *testing.T) {
	h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
	h.removeDevice(sup)
	pci.set(vf, boundFunction(8))
	h.reopenDevice(sup, deviceOn(vf, "mlx5_0", 1))
	h.runUntil(sup, h.mono.Load()+int64(time.Minute))
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 1, 1, 0)
}

func TestFirmwareThatRecoversIsAFault(t *testing.T) {
	h, _, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
	h.removeDevice(sup)
	h.mono.Add(3 * sec)
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 1, 0, 0)
	h.reopenDevice(sup, deviceOn(vf, "mlx5_0", 1))
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 1, 0, 1)
	h.removeDevice(sup)
	h.mono.Add(int64(fatalLimit) - sec)
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 2, 0, 1)
	h.mono.Add(sec)
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 2, 0, 2)
}

func TestFatalWithoutARemovalIsAFault(t *testing.T) {
	h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
	h.batch(sup, eventItem(verbs.EventDeviceFatal, 0, 1, sec, sec))
	h.runUntil(sup, h.mono.Load()+int64(fatalLimit))
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 0, 0, 1)
	h.removeDevice(sup)
	pci.set(vf, verbs.PCIFunction{Absent: true})
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 1, 1, 1)
}

// The kernel's last report decides: here the firmware is lost first, and then the function is removed.
func TestFatalBeforeTheRemovalOfTheFunctionIsNoFault(t *testing.T) {
	h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
	h.batch(sup, eventItem(verbs.EventDeviceFatal, 0, 1, sec, sec))
	h.runUntil(sup, 8*sec)
	h.removeDevice(sup)
	h.mono.Add(2 * sec)
	pci.set(vf, verbs.PCIFunction{Absent: true})
	h.mono.Add(int64(time.Minute))
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 1, 1, 0)
}

func TestScalableFunctionGoesWithTheFunctionItIsOn(t *testing.T) {
	f := foundDevice("mlx5_2", 2)
	f.VirtualFunction, f.Scalable, f.Parent = true, true, "0000:3b:00.0"
	h, pci, sup := startOnFunction(t, f)
	h.removeDevice(sup)
	pci.set(f.Parent, verbs.PCIFunction{Absent: true})
	requireCounts(t, findDevice(h.gather(), "mlx5_2"), 1, 1, 0)
}

func TestStateOfAFunctionThatIsNotKnownRemovesNothing(t *testing.T) {
	h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
	pci.set(vf, verbs.PCIFunction{})
	h.removeDevice(sup)
	h.mono.Add(int64(fatalLimit))
	h.gather()
	h.mono.Add(int64(fatalLimit))
	requireCounts(t, findDevice(h.gather(), "mlx5_0"), 1, 0, 1)
}

func TestFunctionOfADeviceThatCanMoveIsRemovedAtOnce(t *testing.T) {
	h, pci, sup := startOnFunction(t, exclusiveDevice("mlx5_1", 1))
	h.removeDevice(sup)
	requireCounts(t, findDevice(h.gather(), "mlx5_1"), 0, 0, 0)
	pci.set(functionAddress(1), verbs.PCIFunction{Absent: true})
	v := findDevice(h.gather(), "mlx5_1")
	require.False(t, v.Present, "it is in no other namespace")
	requireCounts(t, v, 1, 1, 0)
}

func TestMonitorThatEndsCountsTheFatalsThatWait(t *testing.T) {
	for name, row := range map[string]struct {
		now                      verbs.PCIFunction
		functionRemovals, fatals uint64
	}{
		"function stays":   {boundFunction(7), 0, 1},
		"function removed": {verbs.PCIFunction{Absent: true}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pci bus
				pci.set(vf, boundFunction(7))
				h := newHarness(t, func(c *Config) { c.Function = pci.get })
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- h.Run(ctx) }()
				h.reportFound(deviceOn(vf, "mlx5_0", 0))
				h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
				h.removeDevice(h.sup("mlx5_0", 0))
				pci.set(vf, row.now)
				h.sink.takePoints()
				cancel()
				require.NoError(t, <-done)
				emitted := pointsOf[measure.Device](h.sink.takePoints())
				require.NotEmpty(t, emitted)
				requireCounts(t, emitted[len(emitted)-1], 1, row.functionRemovals, row.fatals)
			})
		})
	}
}

func TestFatalIsDecidedWithoutAGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
		h.removeDevice(sup)
		pci.set(vf, verbs.PCIFunction{Absent: true})
		h.sink.takePoints()
		time.Sleep(2 * retryInterval)
		emitted := pointsOf[measure.Device](h.sink.takePoints())
		require.NotEmpty(t, emitted)
		requireCounts(t, emitted[len(emitted)-1], 1, 1, 0)
	})
}
