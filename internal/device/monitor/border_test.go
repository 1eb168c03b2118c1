package monitor

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// A device in switchdev mode has a port for each of its functions.
func TestEventsOfAllPortsOfASwitchAreCountedOnce(t *testing.T) {
	for name, all := range map[string]bool{"all are watched": true, "the first sixteen are": false} {
		t.Run(name, func(t *testing.T) {
			h, sup, led := startWithOpenDevice(t, func(c *Config) {
				if all {
					c.Ports = func(string, int, int) bool { return true }
				}
			})
			var want uint64
			for port := 1; port <= maxPort; port++ {
				for _, typ := range verbs.EventTypes(verbs.ScopePort) {
					led.Count(int32(typ), int32(port), 1, 1)
					h.batch(sup, eventItem(typ, port, 1, 0, 0))
					if all || port <= verbs.MaxPorts {
						want++
					}
				}
			}
			require.Equal(t, want, h.gather().Collector.AsyncEvents)
			require.Zero(t, findCount(findAsync(h.gather(), "mlx5_0", 0), verbs.EventType(ledger.Overflow)).Total)
			sup.Ended(status.End{Reason: status.ReasonCrashed})
			require.Equal(t, want, h.gather().Collector.AsyncEvents)
		})
	}
}

// A library that invents event types uses up the slots of the ledger. Events in the stream still have their type.
func TestEventsWithoutASlotAreCountedOnce(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, nil)
	for i := range int32(ledger.EventSlots - 1) {
		led.Count(1000+i, 0, 1, 1)
	}
	led.Count(int32(verbs.EventPortErr), 1, 3, 3)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 3, 0, 0))
	require.EqualValues(t, ledger.EventSlots-1+3, h.gather().Collector.AsyncEvents)
	led.Count(int32(verbs.EventPortErr), 1, 2, 1) // these do not come any more
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	s := h.gather()
	require.EqualValues(t, ledger.EventSlots-1+3+2, s.Collector.AsyncEvents)
	require.EqualValues(t, 1, findAsync(s, "mlx5_0", 0).Released)
}

// A bond fails over, sysfs cannot be read for a moment, or there is no subnet manager for a while.
func TestAnAttributeThatWasUnknownForAWhileHidesNoChange(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	var got []string
	for i, a := range []verbs.PortAttr{{NetDev: "eth0", SMLID: 3, Width: "4x"}, {}, {NetDev: "eth1", SMLID: 4, Width: "4x"}, {}} {
		a.State, a.LinkLayer = verbs.PortActive, verbs.LinkInfiniBand
		mono := int64(i+1) * sec
		h.mono.Store(mono)
		h.batch(sup, verbs.Item{Reading: &verbs.Reading{Port: 1, Mono: mono, Attr: a}})
		for _, c := range pointsOf[measure.AttrChange](h.sink.takePoints()) {
			got = append(got, c.Attr+" "+c.From+" "+c.To)
		}
	}
	require.Equal(t, []string{"sm_lid 3 4", "netdev eth0 eth1"}, got)
}

func TestAFirmwareThatWasUnknownForOnceHidesNoChange(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	var got []measure.AttrChange
	for _, firmware := range []string{"28.1", "", "28.2"} {
		sup.Ended(status.End{Reason: status.ReasonCrashed})
		it := openedItem("mlx5_0", 1)
		it.Opened.Firmware = firmware
		h.batch(sup, it)
		got = append(got, pointsOf[measure.AttrChange](h.sink.takePoints())...)
	}
	require.Len(t, got, 1)
	require.Equal(t, []string{"28.1", "28.2"}, []string{got[0].From, got[0].To})
}

// Batches have the worker's own reading of the wall clock.
func TestNoWorkerMovesTheClockOfOtherDevices(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0), foundDevice("mlx5_1", 1))
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
	h.openDevice(h.sup("mlx5_1", 0), "mlx5_1")
	h.sink.takePoints()
	h.mono.Store(10 * sec)
	for _, ahead := range []int64{24 * 3600 * sec, -24 * 3600 * sec} {
		h.sup("mlx5_0", 0).Batch(verbs.Batch{Wall: epoch + 10*sec + ahead, Mono: 10 * sec}, h.sup("mlx5_0", 0).readStatus())
		h.batch(h.sup("mlx5_1", 0), eventItem(verbs.EventPortErr, 1, 1, 10*sec, 10*sec))
		at := pointsOf[measure.Event](h.sink.takePoints())[0].At
		require.Less(t, at.Sub(time.Unix(0, epoch+10*sec)).Abs(), time.Microsecond)
	}
}

func TestNoCountOfAStreamMakesASumFall(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 10, 0, 0), eventItem(verbs.EventGIDChange, 1, 1<<63, 0, 0), eventItem(verbs.EventGIDChange, 2, 1<<63-5, 0, 0))
	require.EqualValues(t, 10, h.gather().Collector.AsyncEvents)
}

// A worker with damaged memory may write anything to its ledger.
func TestNoSlotOfALedgerMakesASeriesThatCannotBe(t *testing.T) {
	h, _, led := startWithOpenDevice(t, nil)
	for _, key := range [][3]int{{0, 0, 1}, {256, 0, 1}, {1, 1 << 30, 1}, {1, 0, 0}, {1, 0, 99}, {1, 0, 256 + 1}} {
		slot, err := led.AddProbe(key[0], key[1], key[2])
		require.NoError(t, err)
		led.AddProbeCounts(slot, ledger.ProbeCounts{Rounds: 5, LostCompletions: 5})
	}
	s := h.gather()
	require.Empty(t, s.Probes)
	require.Zero(t, s.Hosts[0].LostCompletions)
}

func TestNoCallOfALedgerHasLastedLongerThanTheHostHasRun(t *testing.T) {
	_, _, led := startWithOpenDevice(t, nil)
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: math.MinInt64 / 2})
	control, _ := led.ControlCalls()
	require.Equal(t, 20*sec, control.Lasted(20*sec))
	require.Zero(t, control.Since)
}

// state_from and state_to are tags, so a damaged worker must not create new values.
func TestStatesWithoutANameMakeFewSeries(t *testing.T) {
	names := map[string]bool{}
	for n := range 100_000 {
		names[verbs.PortState(n-50_000).String()] = true
	}
	require.Less(t, len(names), 40)
}

// Several GIDs change in one reading. The points of one action form a series, whose time stamps must still increase.
func TestChangesOfGIDsHaveTimesOfTheirOwn(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	table := func(n ...byte) verbs.Item {
		g := &verbs.GIDTable{Port: 1, Mono: h.mono.Load()}
		for i, end := range n {
			g.Entries = append(g.Entries, verbs.GID{Index: i, Type: verbs.GIDRoCEv2, Raw: [16]byte{15: end}})
		}
		return verbs.Item{GIDs: g}
	}
	times := map[time.Time]string{}
	for i, now := range [][]byte{{1}, {1, 2, 3, 4}, {1}, {2, 3, 4}, {}, {4, 3, 2, 1}} {
		h.mono.Store(int64(i+1) * sec)
		if i == 4 {
			h.wallShift.Add(-5 * sec)
		}
		h.batch(sup, table(now...))
		for _, c := range pointsOf[measure.GIDChange](h.sink.takePoints()) {
			require.NotEmpty(t, c.Key().Identity)
			require.Emptyf(t, times[c.At], "%s %s", c.Action, c.GID)
			times[c.At] = fmt.Sprint(c.Action, c.GID)
		}
	}
	require.Greater(t, len(times), 10)
}

// Pods and virtual machines get functions with names that never come back.
func TestAVirtualFunctionThatHasGoneIsForgottenAndAPhysicalOneIsNot(t *testing.T) {
	h := startMonitor(t, func(c *Config) { c.VirtualFunctions = verbs.VirtualAll })
	vf := foundDevice("mlx5_7", 7)
	vf.VirtualFunction = true
	h.reportFound(foundDevice("mlx5_0", 0), vf)
	for _, name := range []string{"mlx5_0", "mlx5_7"} {
		h.openDevice(h.sup(name, 0), name)
		h.batch(h.sup(name, 0), eventItem(verbs.EventPortErr, 1, 3, 0, 0))
		h.sup(name, 0).Ended(status.End{Reason: status.ReasonRemoved})
	}
	h.reportFound()
	h.mono.Add(int64(forgetAfter) - sec)
	require.Len(t, h.gather().Devices, 2)
	h.mono.Add(2 * sec)
	s := h.gather()
	require.Len(t, s.Devices, 1)
	require.Equal(t, "mlx5_0", s.Devices[0].Device)
	require.EqualValues(t, 6, s.Collector.AsyncEvents)
	h.reportFound(vf)
	require.True(t, findDevice(h.gather(), "mlx5_7").Present)
}

func TestAnotherCardUnderTheNameIsNoSlowerOne(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	best := func(guid string, rate float64) float64 {
		it := openedItem("mlx5_0", 1)
		it.Opened.NodeGUID = guid
		mono := h.mono.Add(sec)
		r := readingItem(1, mono, verbs.PortActive)
		r.Reading.Attr.RateGbps = rate
		h.batch(sup, it, r)
		return h.gather().Ports[0].RateBestGbps
	}
	require.EqualValues(t, 400, best("a", 400))
	require.EqualValues(t, 400, best("a", 100), "the same card: its port is slow now")
	require.EqualValues(t, 100, best("b", 100))
}
