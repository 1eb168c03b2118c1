package monitor

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func withEvidence(c *Config) { c.Evidence, c.CommandStuck = true, 5*time.Second }

// ethernetReading returns a reading of an active RoCE port. Only Ethernet has causes in the link of the network device.
func ethernetReading(mono int64) verbs.Item {
	it := readingItem(1, mono, verbs.PortActive)
	it.Reading.Attr.LinkLayer = verbs.LinkEthernet
	return it
}

// countersSnapshot returns a complete snapshot with one counter from each of two sources.
func countersSnapshot(why verbs.Trigger, at int64, retries, pauses uint64) *verbs.Snapshot {
	return &verbs.Snapshot{
		Port: 1, Trigger: why, At: at, Mono: at + 10*ms, Took: 4 * ms, Done: true, CountersAt: at + 11*ms,
		Counters: verbs.Counters{
			verbs.CountersHardware: {"local_ack_timeout_err": retries}, verbs.CountersNetDev: {"rx_prio3_pause": pauses},
		},
	}
}

// netDev adds a network device to a snapshot.
func netDev(s *verbs.Snapshot, up, carrier bool) *verbs.Snapshot {
	s.NetDev = &verbs.NetDev{Name: "eth0", AdminUp: up, Carrier: carrier, HasCarrier: up, CarrierChanges: 3, HasCarrierChanges: true}
	return s
}

func snapshotItem(s *verbs.Snapshot) verbs.Item { return verbs.Item{Snapshot: s} }

// passJudgeDelay lets judgeDelay pass, so that the waiting triggers are judged, and returns their evidence.
func (h *harness) passJudgeDelay(sup *fakeSupervisor) []measure.Evidence {
	h.t.Helper()
	require.Empty(h.t, pointsOf[measure.Evidence](h.sink.takePoints()), "nothing is judged before")
	h.mono.Add(judgeDelay + 10*ms)
	h.batch(sup)
	return pointsOf[measure.Evidence](h.sink.takePoints())
}

func TestEvidenceHasTheCauseAndWhatMoved(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.batch(sup, ethernetReading(0), snapshotItem(countersSnapshot(verbs.TriggerBase, 0, 7, 100)))
	h.mono.Store(41 * sec)
	snap := netDev(countersSnapshot("port_err", 41*sec, 9, 48313), true, false)
	snap.Link, snap.LinkAt, snap.Merged = &verbs.Link{ExtState: "no_cable"}, 41*sec+12*ms, 2
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, 41*sec, 41*sec), snapshotItem(snap))
	got := h.passJudgeDelay(sup)
	require.Len(t, got, 1)
	require.Equal(t, measure.Evidence{
		Device: "mlx5_0", Port: 1, Trigger: "port_err", Cause: cause.NoCable, Triggers: 3,
		HasSnapshot: true, AgeNS: 10 * ms, TookNS: 4 * ms, NetDev: got[0].NetDev, ExtState: "no_cable",
		HasBase: true, BaseAgeNS: 41 * sec,
		Deltas: cause.Deltas{
			{Source: verbs.CountersNetDev, Name: "rx_prio3_pause", By: 48213},
			{Source: verbs.CountersHardware, Name: "local_ack_timeout_err", By: 2},
		},
		Top: "rx_prio3_pause +48213, local_ack_timeout_err +2", At: time.Unix(0, epoch+41*sec),
	}, got[0])
	require.Equal(t, *snap.NetDev, *got[0].NetDev)
	require.EqualValues(t, 2, h.gather().Collector.EvidenceMerged)
	h.mono.Add(time.Minute.Nanoseconds())
	h.batch(sup)
	require.Empty(t, pointsOf[measure.Evidence](h.sink.takePoints()), "once")
}

func TestTheFirstReadingOfCountersIsNoDelta(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.batch(sup, ethernetReading(0), snapshotItem(countersSnapshot("gid_change", 5*ms, 7, 100)))
	got := h.passJudgeDelay(sup)
	require.Len(t, got, 1)
	require.False(t, got[0].HasBase)
	require.Empty(t, got[0].Top)
}

func TestEachSnapshotIsTheBaseOfTheNext(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.batch(sup, ethernetReading(0), snapshotItem(countersSnapshot("gid_change", 5*ms, 7, 100)))
	h.passJudgeDelay(sup)
	h.batch(sup, snapshotItem(countersSnapshot("gid_change", 20*sec, 8, 100)))
	h.mono.Store(20 * sec)
	got := h.passJudgeDelay(sup)
	require.Equal(t, "local_ack_timeout_err +1", got[0].Top)
	require.Equal(t, 20*sec-5*ms, got[0].BaseAgeNS)
}

// The plugin reads the clocks once for the event and once more for its evidence. The two readings differ by little, in either direction,
// or by much if somebody has set the wall clock in between.
func TestEvidenceIsNotOlderThanItsEvent(t *testing.T) {
	for shift, want := range map[int64]int64{0: 41*sec + 3*ms, -ms: 41*sec + 3*ms, 5 * ms: 41*sec + 5*ms, -3600 * sec: 41*sec - 3600*sec} {
		h, sup, _ := startWithOpenDevice(t, withEvidence)
		h.mono.Store(41*sec + 4*ms)
		h.batch(sup, eventItem(verbs.EventPortErr, 1, 3, 41*sec, 41*sec+3*ms), snapshotItem(countersSnapshot("port_err", 41*sec, 9, 48313)))
		events := pointsOf[measure.Event](h.sink.takePoints())
		require.Len(t, events, 1)
		require.Equal(t, time.Unix(0, epoch+41*sec+3*ms), events[0].At)
		h.wallShift.Store(shift)
		got := h.passJudgeDelay(sup)
		require.Len(t, got, 1)
		require.Equal(t, time.Unix(0, epoch+want), got[0].At, "clock set by %v", time.Duration(shift))
	}
}

func TestThePartsOfASnapshotAreOneEvidence(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: sec, Mono: sec + 10*ms}, false, false)
	second := netDev(countersSnapshot("port_err", sec, 3, 5), false, false)
	second.Done = false
	whole := netDev(countersSnapshot("port_err", sec, 3, 5), false, false)
	h.mono.Store(sec)
	h.batch(sup, ethernetReading(0), snapshotItem(countersSnapshot(verbs.TriggerBase, 0, 1, 1)),
		eventItem(verbs.EventPortErr, 1, 1, sec, sec), snapshotItem(first), snapshotItem(second), snapshotItem(whole))
	got := h.passJudgeDelay(sup)
	require.Len(t, got, 1)
	require.Equal(t, "rx_prio3_pause +4, local_ack_timeout_err +2", got[0].Top)
	require.Equal(t, cause.AdminDown, got[0].Cause)
	require.Equal(t, 4*ms, got[0].TookNS)
	require.Empty(t, got[0].LeftOut)
}

func TestASnapshotThatHangsIsJudgedByWhatCame(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: sec, Mono: sec + 10*ms}, true, false)
	h.mono.Store(sec)
	h.batch(sup, ethernetReading(0), eventItem(verbs.EventPortErr, 1, 1, sec, sec), snapshotItem(first))
	require.Empty(t, h.passJudgeDelay(sup), "the rest may come")
	h.mono.Store(sec + snapshotLimit)
	h.batch(sup)
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 1)
	require.Equal(t, cause.NoCarrier, got[0].Cause)
	require.Equal(t, "the rest: not answered within 6s", got[0].LeftOut)
	h.mono.Store(20 * sec)
	h.batch(sup, snapshotItem(countersSnapshot("port_err", sec, 1, 1)))
	require.Empty(t, h.passJudgeDelay(sup), "it came too late")
}

// The worker sends the counters before the parts that need the kernel's RTNL lock.
func TestCountersThatWereReadBeforeAHangAreCompared(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.batch(sup, ethernetReading(0), snapshotItem(countersSnapshot(verbs.TriggerBase, 0, 7, 100)))
	h.mono.Store(20 * sec)
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "gid_change", At: 20 * sec, Mono: 20*sec + 10*ms}, true, false)
	second := netDev(countersSnapshot("gid_change", 20*sec, 9, 0), true, false)
	delete(second.Counters, verbs.CountersNetDev)
	second.Done = false
	h.batch(sup, snapshotItem(first), snapshotItem(second))
	h.mono.Store(20*sec + snapshotLimit)
	h.batch(sup)
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 1)
	require.Equal(t, "local_ack_timeout_err +2", got[0].Top)
	require.Equal(t, 20*sec, got[0].BaseAgeNS)
	require.Equal(t, "the rest: not answered within 6s", got[0].LeftOut)
}

func TestAFlapIsExplainedByItsFirstChange(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(sec + 40*ms)
	h.batch(sup, ethernetReading(0), eventItem(verbs.EventPortErr, 1, 1, sec, sec), eventItem(verbs.EventPortActive, 1, 1, sec+40*ms, sec+40*ms),
		snapshotItem(netDev(countersSnapshot("port_err", sec, 1, 1), true, false)))
	require.Equal(t, cause.NoCarrier, h.passJudgeDelay(sup)[0].Cause)
}

func TestLinkThatFallsSoonAfterItCameUpIsExplained(t *testing.T) {
	for name, rise := range map[string]int64{"80 ms before": 2*sec - 80*ms, "1 ms before": 2*sec - ms} {
		t.Run(name, func(t *testing.T) {
			h, sup, _ := startWithOpenDevice(t, withEvidence)
			h.mono.Store(2 * sec)
			h.batch(sup, ethernetReading(0), eventItem(verbs.EventPortErr, 1, 1, sec, sec), eventItem(verbs.EventPortActive, 1, 1, rise, rise),
				eventItem(verbs.EventPortErr, 1, 1, 2*sec, 2*sec), snapshotItem(netDev(countersSnapshot("port_err", 2*sec, 1, 1), true, false)))
			require.Equal(t, cause.NoCarrier, h.passJudgeDelay(sup)[0].Cause)
		})
	}
}

func TestPortErrThatIsReadAfterAQueryFoundTheFallIsExplained(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	down := func(mono int64) verbs.Item {
		it := ethernetReading(mono)
		it.Reading.Attr.State = verbs.PortDown
		return it
	}
	h.mono.Store(2 * sec)
	h.batch(sup, ethernetReading(0), down(sec), down(sec+60*ms), eventItem(verbs.EventPortErr, 1, 1, sec+900*ms, sec+900*ms),
		snapshotItem(netDev(countersSnapshot("port_err", sec+900*ms, 1, 1), true, false)))
	require.Equal(t, cause.NoCarrier, h.passJudgeDelay(sup)[0].Cause)
}

func TestChangedAddressesAreACause(t *testing.T) {
	host := gidAt(3, "::ffff:10.4.0.1")
	before, after := gidAt(0, "fe80::200:ff:fe00:1"), gidAt(0, "fe80::200:ff:fe00:2")
	for want, tables := range map[cause.Cause][2][]verbs.GID{
		cause.AddressChange: {{before, host}, {before}},
		cause.MACChange:     {{before, host}, {after, host}},
		"":                  {{before, host}, {before, host}},
	} {
		h, sup, _ := startWithOpenDevice(t, withEvidence)
		h.batch(sup, ethernetReading(0), gidTableItem(10*ms, tables[0]...))
		h.mono.Store(30 * sec)
		// The table is read again after the snapshot.
		h.batch(sup, eventItem(verbs.EventGIDChange, 1, 1, 30*sec, 30*sec), snapshotItem(netDev(countersSnapshot("gid_change", 30*sec, 1, 1), true, true)))
		h.batch(sup, gidTableItem(30*sec+100*ms, tables[1]...))
		require.Equal(t, want, h.passJudgeDelay(sup)[0].Cause)
	}
}

func TestAnotherSubnetManagerIsACause(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	managed := func(mono int64, lid int) verbs.Item {
		it := readingItem(1, mono, verbs.PortActive)
		it.Reading.Attr.LinkLayer, it.Reading.Attr.SMLID = verbs.LinkInfiniBand, lid
		return it
	}
	h.mono.Store(sec)
	h.batch(sup, managed(10*ms, 1), eventItem(verbs.EventSMChange, 1, 1, sec, sec), snapshotItem(countersSnapshot("sm_change", sec, 1, 1)), managed(sec+10*ms, 7))
	require.Equal(t, cause.SMChange, h.passJudgeDelay(sup)[0].Cause)
}

func TestARemovalExplainsWhatCameBefore(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(sec)
	h.batch(sup, ethernetReading(0), eventItem(verbs.EventPortErr, 1, 1, sec, sec), snapshotItem(netDev(countersSnapshot("port_err", sec, 1, 1), false, false)))
	h.sink.takePoints()
	h.reportFound()
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 2)
	require.Equal(t, verbs.Trigger("port_err"), got[0].Trigger)
	require.Equal(t, cause.DriverRemoved, got[0].Cause)
	require.Equal(t, verbs.TriggerRemoved, got[1].Trigger)
	require.Equal(t, cause.DriverRemoved, got[1].Cause)
	require.Zero(t, got[1].Port)
	require.Equal(t, "all: the device is gone", got[1].LeftOut)
}

func TestRemovalThatAWorkerReportsIsExplainedOnceConfirmed(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(sec)
	h.batch(sup, ethernetReading(0), eventItem(verbs.EventPortErr, 1, 1, sec, sec), snapshotItem(netDev(countersSnapshot("port_err", sec, 1, 1), false, false)))
	h.sink.takePoints()
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.reportFound(foundDevice("mlx5_0", 0)) // sysfs still has it
	require.Empty(t, pointsOf[measure.Evidence](h.sink.takePoints()))
	h.reportFound()
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 2)
	require.Equal(t, []cause.Cause{cause.DriverRemoved, cause.DriverRemoved}, []cause.Cause{got[0].Cause, got[1].Cause})
}

func TestRemovalThatTheKernelDidNotMakeHasNoCause(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(sec)
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.openDevice(sup, "mlx5_0")
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 1)
	require.Equal(t, verbs.TriggerRemoved, got[0].Trigger)
	require.Empty(t, got[0].Cause)
	require.Contains(t, got[0].LeftOut, "the kernel has not removed")
}

func TestCountersOfADeviceThatCameBackAreNotCompared(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.batch(sup, snapshotItem(countersSnapshot(verbs.TriggerBase, 0, 7, 100)))
	h.reportFound()
	h.reportFound(foundDevice("mlx5_0", 1))
	h.openDevice(sup, "mlx5_0")
	h.sink.takePoints()
	h.batch(sup, snapshotItem(countersSnapshot("gid_change", 5*ms, 1, 1)))
	require.False(t, h.passJudgeDelay(sup)[0].HasBase)
}

func TestWhatAKilledWorkerSawIsJudged(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(sec)
	h.batch(sup, ethernetReading(0), eventItem(verbs.EventPortErr, 1, 1, sec, sec), snapshotItem(netDev(countersSnapshot("port_err", sec, 1, 1), true, false)))
	h.sink.takePoints()
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 1)
	require.Equal(t, cause.NoCarrier, got[0].Cause)
}

func TestDeviceFatalExplainsWhatFollows(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(3 * sec)
	h.batch(sup, ethernetReading(0), eventItem(verbs.EventDeviceFatal, 0, 1, sec, sec), snapshotItem(countersSnapshot("device_fatal", sec, 1, 1)),
		eventItem(verbs.EventPortErr, 1, 1, 3*sec, 3*sec), snapshotItem(netDev(countersSnapshot("port_err", 3*sec, 1, 1), true, false)))
	// The first trigger has already waited for a second.
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 1)
	require.Equal(t, cause.DeviceFatal, got[0].Cause)
	require.Zero(t, got[0].Port, "it is about the device")
	require.Equal(t, cause.DeviceFatal, h.passJudgeDelay(sup)[0].Cause)
}

// The thread that takes snapshots may itself hang, so the host does not wait for a snapshot.
func TestACommandThatIsStuckIsATriggerByItself(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withEvidence)
	h.batch(sup, ethernetReading(0), commandItem(verbs.CommandHWCounters, 40_000, ""))
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Thread: 7, Since: 10 * sec})
	h.mono.Store(15 * sec)
	h.batch(sup)
	h.mono.Store(15*sec + 200*ms)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, 15*sec+100*ms, 15*sec+100*ms),
		snapshotItem(netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: 15*sec + 100*ms, Mono: 15*sec + 110*ms, Done: true}, true, false)))
	got := h.passJudgeDelay(sup)
	require.Len(t, got, 2)
	require.Equal(t, verbs.TriggerCommand, got[0].Trigger)
	require.Equal(t, cause.CommandStuck, got[0].Cause)
	require.Equal(t, "all: the device does not answer", got[0].LeftOut)
	require.Equal(t, cause.CommandStuck, got[1].Cause, "the port's fall follows from it")
}

// A query hangs in another thread, so the worker can take a snapshot. It sends the snapshot in
// parts, perhaps before the host checks the call.
func TestTheSnapshotOfAStuckQueryBelongsToIt(t *testing.T) {
	part := verbs.Snapshot{Port: 1, Trigger: verbs.TriggerCommand, At: 15*sec - 2*ms, Mono: 15*sec + 10*ms}
	first := netDev(&part, true, true)
	last := *first
	last.Done, last.LeftOut = true, []string{"counters: the device is not answering another command"}
	for name, seen := range map[string]int64{"the host is first": 15 * sec, "the worker is first": 14 * sec} {
		t.Run(name, func(t *testing.T) {
			h, sup, led := startWithOpenDevice(t, withEvidence)
			led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Thread: 7, Since: 10 * sec})
			h.mono.Store(seen)
			h.batch(sup, ethernetReading(0))
			h.mono.Store(15*sec + 20*ms)
			h.batch(sup, snapshotItem(first))
			h.mono.Store(15*sec + 30*ms)
			h.batch(sup, snapshotItem(&last))
			got := h.passJudgeDelay(sup)
			require.Len(t, got, 1)
			require.True(t, got[0].NetDev.Carrier)
			require.Equal(t, last.LeftOut[0], got[0].LeftOut)
			require.Equal(t, cause.CommandStuck, got[0].Cause)
		})
	}
}

func TestEthtoolThatDoesNotAnswerIsLoggedOnce(t *testing.T) {
	var text strings.Builder
	h, sup, led := startWithOpenDevice(t, func(c *Config) {
		withEvidence(c)
		c.Log = slog.New(slog.NewTextHandler(&text, nil))
	})
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallEthtool, Port: 1, Thread: 7, Since: 10 * sec})
	for at := 11 * sec; at < 20*sec; at += sec {
		h.mono.Store(at)
		h.batch(sup)
	}
	require.Equal(t, 1, strings.Count(text.String(), `msg="ethtool not responding" device=mlx5_0 port=1 for=5s`), text.String())
	require.Empty(t, h.gather().Commands, "it is no command of the RDMA device")
}

func TestTriggersThatWaitAreBounded(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	for i := range int64(3 * maxWaitingTriggers) {
		h.batch(sup, snapshotItem(countersSnapshot("gid_change", i, 1, 1)))
	}
	require.Len(t, pointsOf[measure.Evidence](h.sink.takePoints()), 2*maxWaitingTriggers, "the oldest are judged early")
	require.Len(t, h.passJudgeDelay(sup), maxWaitingTriggers)
}

func TestASnapshotForWhatIsNoTriggerIsNotEmitted(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	for i, why := range []verbs.Trigger{"", "removed", "x y=1", "unknown_7"} {
		h.batch(sup, snapshotItem(countersSnapshot(why, int64(i), 1, 1)))
	}
	require.Empty(t, h.passJudgeDelay(sup))
}

func TestWithoutEvidenceThereIsNone(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, func(c *Config) { c.CommandStuck = 5 * time.Second })
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Thread: 7, Since: 10 * sec})
	h.mono.Store(15 * sec)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, sec, sec))
	require.Empty(t, h.passJudgeDelay(sup))
	h.reportFound()
	require.Empty(t, pointsOf[measure.Evidence](h.sink.takePoints()), "removed")
}

func TestALatePartIsDroppedAfterAnotherTriggerWasJudged(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withEvidence)
	h.batch(sup, ethernetReading(0), commandItem(verbs.CommandHWCounters, 40_000, ""))
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: 10 * sec, Mono: 10*sec + 10*ms}, true, false)
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Thread: 7, Since: 10*sec + 20*ms})
	h.mono.Store(10*sec + 30*ms)
	h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, 10*sec, 10*sec), snapshotItem(first))
	h.runUntil(sup, 15*sec+30*ms)
	h.batch(sup) // the reading of the counters is stuck: a trigger by itself
	h.mono.Store(17 * sec)
	h.batch(sup)
	require.Len(t, pointsOf[measure.Evidence](h.sink.takePoints()), 2)
	led.SetEvidenceCall(ledger.ThreadCall{})
	h.mono.Store(30 * sec)
	h.batch(sup, snapshotItem(netDev(countersSnapshot("port_err", 10*sec, 1, 1), true, false)))
	require.Empty(t, h.passJudgeDelay(sup), "it came too late")
}

func TestWhatHappenedBeforeADeviceCameBackIsNoCause(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(sec)
	h.batch(sup, ethernetReading(0), eventItem(verbs.EventDeviceFatal, 0, 1, sec, sec))
	h.reportFound()
	h.mono.Store(2 * sec)
	h.reportFound(foundDevice("mlx5_0", 1))
	h.openDevice(sup, "mlx5_0")
	h.sink.takePoints()
	h.mono.Store(4 * sec)
	h.batch(sup, ethernetReading(2*sec+100*ms), eventItem(verbs.EventPortErr, 1, 1, 4*sec, 4*sec),
		snapshotItem(netDev(countersSnapshot("port_err", 4*sec, 1, 1), false, false)))
	require.Equal(t, cause.AdminDown, h.passJudgeDelay(sup)[0].Cause)
}

func TestALaterFallDoesNotHideAChangeOfAddresses(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.batch(sup, ethernetReading(0), gidTableItem(10*ms, gidAt(0, "fe80::200:ff:fe00:1"), gidAt(3, "::ffff:10.4.0.1")))
	// The worker's batches are delayed by some seconds.
	h.mono.Store(36 * sec)
	h.batch(sup, eventItem(verbs.EventGIDChange, 1, 1, 30*sec, 30*sec), snapshotItem(netDev(countersSnapshot("gid_change", 30*sec, 1, 1), true, true)),
		gidTableItem(30*sec+100*ms, gidAt(0, "fe80::200:ff:fe00:1")), eventItem(verbs.EventPortErr, 1, 1, 35*sec, 35*sec))
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 1)
	require.Equal(t, cause.AddressChange, got[0].Cause)
}

func TestASnapshotThatThePaceHeldUpEndsWithItsWorker(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(40 * sec)
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: 10 * sec, Mono: 40 * sec}, true, false)
	h.batch(sup, ethernetReading(0), snapshotItem(first))
	h.mono.Store(40*sec + 100*ms)
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 1)
	require.Equal(t, "the rest: the worker ended before", got[0].LeftOut)
}
