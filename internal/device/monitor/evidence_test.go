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

func explaining(c *Config) { c.Evidence, c.CommandStuck = true, 5*time.Second }

// ethernet is a reading of an active RoCE port, on which the causes of links depend.
func ethernet(mono int64) verbs.Item {
	it := reading(1, mono, verbs.PortActive)
	it.Reading.Attr.LinkLayer = verbs.LinkEthernet
	return it
}

// counted is a snapshot with one counter of each of two sources.
func counted(why verbs.Trigger, at int64, retries, pauses uint64) *verbs.Snapshot {
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

func item(s *verbs.Snapshot) verbs.Item { return verbs.Item{Snapshot: s} }

// explained passes a second, within which what explains a trigger may come.
func (h *harness) explained(sup *fakeSupervisor) []measure.Evidence {
	h.t.Helper()
	require.Empty(h.t, of[measure.Evidence](h.sink.take()), "nothing is judged before")
	h.mono.Add(holdEvidence + 10*ms)
	h.batch(sup)
	return of[measure.Evidence](h.sink.take())
}

func TestEvidenceHasTheCauseAndWhatMoved(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.batch(sup, ethernet(0), item(counted(verbs.TriggerBase, 0, 7, 100)))
	h.mono.Store(41 * sec)
	snap := netDev(counted("port_err", 41*sec, 9, 48313), true, false)
	snap.Link, snap.LinkAt, snap.Merged = &verbs.Link{ExtState: "no_cable"}, 41*sec+12*ms, 2
	h.batch(sup, event(verbs.EventPortErr, 1, 1, 41*sec, 41*sec), item(snap))
	got := h.explained(sup)
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
	require.Empty(t, of[measure.Evidence](h.sink.take()), "once")
}

func TestTheFirstReadingOfCountersIsNoDelta(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.batch(sup, ethernet(0), item(counted("gid_change", 5*ms, 7, 100)))
	got := h.explained(sup)
	require.Len(t, got, 1)
	require.False(t, got[0].HasBase)
	require.Empty(t, got[0].Top)
}

func TestEachSnapshotIsTheBaseOfTheNext(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.batch(sup, ethernet(0), item(counted("gid_change", 5*ms, 7, 100)))
	h.explained(sup)
	h.batch(sup, item(counted("gid_change", 20*sec, 8, 100)))
	h.mono.Store(20 * sec)
	got := h.explained(sup)
	require.Equal(t, "local_ack_timeout_err +1", got[0].Top)
	require.Equal(t, 20*sec-5*ms, got[0].BaseAgeNS)
}

func TestThePartsOfASnapshotAreOneEvidence(t *testing.T) {
	h, sup, _ := one(t, explaining)
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: sec, Mono: sec + 10*ms}, false, false)
	second := netDev(counted("port_err", sec, 3, 5), false, false)
	second.Done = false
	whole := netDev(counted("port_err", sec, 3, 5), false, false)
	h.mono.Store(sec)
	h.batch(sup, ethernet(0), item(counted(verbs.TriggerBase, 0, 1, 1)),
		event(verbs.EventPortErr, 1, 1, sec, sec), item(first), item(second), item(whole))
	got := h.explained(sup)
	require.Len(t, got, 1)
	require.Equal(t, "rx_prio3_pause +4, local_ack_timeout_err +2", got[0].Top)
	require.Equal(t, cause.AdminDown, got[0].Cause)
	require.Equal(t, 4*ms, got[0].TookNS)
	require.Empty(t, got[0].LeftOut)
}

func TestASnapshotThatHangsIsJudgedByWhatCame(t *testing.T) {
	h, sup, _ := one(t, explaining)
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: sec, Mono: sec + 10*ms}, true, false)
	h.mono.Store(sec)
	h.batch(sup, ethernet(0), event(verbs.EventPortErr, 1, 1, sec, sec), item(first))
	require.Empty(t, h.explained(sup), "the rest may come")
	h.mono.Store(sec + evidenceLimit)
	h.batch(sup)
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 1)
	require.Equal(t, cause.NoCarrier, got[0].Cause)
	require.Equal(t, "the rest: not answered within 6s", got[0].LeftOut)
	h.mono.Store(20 * sec)
	h.batch(sup, item(counted("port_err", sec, 1, 1)))
	require.Empty(t, h.explained(sup), "it came too late")
}

// The counters come before what waits for the kernel's RTNL lock.
func TestCountersThatWereReadBeforeAHangAreCompared(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.batch(sup, ethernet(0), item(counted(verbs.TriggerBase, 0, 7, 100)))
	h.mono.Store(20 * sec)
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "gid_change", At: 20 * sec, Mono: 20*sec + 10*ms}, true, false)
	second := netDev(counted("gid_change", 20*sec, 9, 0), true, false)
	delete(second.Counters, verbs.CountersNetDev)
	second.Done = false
	h.batch(sup, item(first), item(second))
	h.mono.Store(20*sec + evidenceLimit)
	h.batch(sup)
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 1)
	require.Equal(t, "local_ack_timeout_err +2", got[0].Top)
	require.Equal(t, 20*sec, got[0].BaseAgeNS)
	require.Equal(t, "the rest: not answered within 6s", got[0].LeftOut)
}

func TestAFlapIsExplainedByItsFirstChange(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.mono.Store(sec + 40*ms)
	h.batch(sup, ethernet(0), event(verbs.EventPortErr, 1, 1, sec, sec), event(verbs.EventPortActive, 1, 1, sec+40*ms, sec+40*ms),
		item(netDev(counted("port_err", sec, 1, 1), true, false)))
	require.Equal(t, cause.NoCarrier, h.explained(sup)[0].Cause)
}

func TestChangedAddressesAreACause(t *testing.T) {
	host := gidAt(3, "::ffff:10.4.0.1")
	before, after := gidAt(0, "fe80::200:ff:fe00:1"), gidAt(0, "fe80::200:ff:fe00:2")
	for want, tables := range map[cause.Cause][2][]verbs.GID{
		cause.AddressChange: {{before, host}, {before}},
		cause.MACChange:     {{before, host}, {after, host}},
		"":                  {{before, host}, {before, host}},
	} {
		h, sup, _ := one(t, explaining)
		h.batch(sup, ethernet(0), gids(10*ms, tables[0]...))
		h.mono.Store(30 * sec)
		// The table is read again after the snapshot.
		h.batch(sup, event(verbs.EventGIDChange, 1, 1, 30*sec, 30*sec), item(netDev(counted("gid_change", 30*sec, 1, 1), true, true)))
		h.batch(sup, gids(30*sec+100*ms, tables[1]...))
		require.Equal(t, want, h.explained(sup)[0].Cause)
	}
}

func TestAnotherSubnetManagerIsACause(t *testing.T) {
	h, sup, _ := one(t, explaining)
	managed := func(mono int64, lid int) verbs.Item {
		it := reading(1, mono, verbs.PortActive)
		it.Reading.Attr.LinkLayer, it.Reading.Attr.SMLID = verbs.LinkInfiniBand, lid
		return it
	}
	h.mono.Store(sec)
	h.batch(sup, managed(10*ms, 1), event(verbs.EventSMChange, 1, 1, sec, sec), item(counted("sm_change", sec, 1, 1)), managed(sec+10*ms, 7))
	require.Equal(t, cause.SMChange, h.explained(sup)[0].Cause)
}

func TestARemovalExplainsWhatCameBefore(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.mono.Store(sec)
	h.batch(sup, ethernet(0), event(verbs.EventPortErr, 1, 1, sec, sec), item(netDev(counted("port_err", sec, 1, 1), false, false)))
	h.sink.take()
	h.finds()
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 2)
	require.Equal(t, verbs.Trigger("port_err"), got[0].Trigger)
	require.Equal(t, cause.DriverRemoved, got[0].Cause)
	require.Equal(t, verbs.TriggerRemoved, got[1].Trigger)
	require.Equal(t, cause.DriverRemoved, got[1].Cause)
	require.Zero(t, got[1].Port)
	require.Equal(t, "all: the device is gone", got[1].LeftOut)
}

func TestRemovalThatAWorkerReportsIsExplainedOnceConfirmed(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.mono.Store(sec)
	h.batch(sup, ethernet(0), event(verbs.EventPortErr, 1, 1, sec, sec), item(netDev(counted("port_err", sec, 1, 1), false, false)))
	h.sink.take()
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.finds(found("mlx5_0", 0)) // sysfs still has it
	require.Empty(t, of[measure.Evidence](h.sink.take()))
	h.finds()
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 2)
	require.Equal(t, []cause.Cause{cause.DriverRemoved, cause.DriverRemoved}, []cause.Cause{got[0].Cause, got[1].Cause})
}

func TestRemovalThatTheKernelDidNotMakeHasNoCause(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.mono.Store(sec)
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.opens(sup, "mlx5_0")
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 1)
	require.Equal(t, verbs.TriggerRemoved, got[0].Trigger)
	require.Empty(t, got[0].Cause)
	require.Contains(t, got[0].LeftOut, "the kernel has not removed")
}

func TestCountersOfADeviceThatCameBackAreNotCompared(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.batch(sup, item(counted(verbs.TriggerBase, 0, 7, 100)))
	h.finds()
	h.finds(found("mlx5_0", 1))
	h.opens(sup, "mlx5_0")
	h.sink.take()
	h.batch(sup, item(counted("gid_change", 5*ms, 1, 1)))
	require.False(t, h.explained(sup)[0].HasBase)
}

func TestWhatAKilledWorkerSawIsJudged(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.mono.Store(sec)
	h.batch(sup, ethernet(0), event(verbs.EventPortErr, 1, 1, sec, sec), item(netDev(counted("port_err", sec, 1, 1), true, false)))
	h.sink.take()
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 1)
	require.Equal(t, cause.NoCarrier, got[0].Cause)
}

func TestDeviceFatalExplainsWhatFollows(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.mono.Store(3 * sec)
	h.batch(sup, ethernet(0), event(verbs.EventDeviceFatal, 0, 1, sec, sec), item(counted("device_fatal", sec, 1, 1)),
		event(verbs.EventPortErr, 1, 1, 3*sec, 3*sec), item(netDev(counted("port_err", 3*sec, 1, 1), true, false)))
	// The first one waits for a second already.
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 1)
	require.Equal(t, cause.DeviceFatal, got[0].Cause)
	require.Zero(t, got[0].Port, "it is about the device")
	require.Equal(t, cause.DeviceFatal, h.explained(sup)[0].Cause)
}

// The thread that takes snapshots may be the one that hangs, so the host does not wait for one.
func TestACommandThatIsStuckIsATriggerByItself(t *testing.T) {
	h, sup, led := one(t, explaining)
	h.batch(sup, ethernet(0), ended(verbs.CommandHWCounters, 40_000, ""))
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Thread: 7, Since: 10 * sec})
	h.mono.Store(15 * sec)
	h.batch(sup)
	h.mono.Store(15*sec + 200*ms)
	h.batch(sup, event(verbs.EventPortErr, 1, 1, 15*sec+100*ms, 15*sec+100*ms),
		item(netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: 15*sec + 100*ms, Mono: 15*sec + 110*ms, Done: true}, true, false)))
	got := h.explained(sup)
	require.Len(t, got, 2)
	require.Equal(t, verbs.TriggerCommand, got[0].Trigger)
	require.Equal(t, cause.CommandStuck, got[0].Cause)
	require.Equal(t, "all: the device does not answer", got[0].LeftOut)
	require.Equal(t, cause.CommandStuck, got[1].Cause, "the port's fall follows from it")
}

// A query hangs in another thread, and a snapshot can be taken. The worker sends it in parts,
// and may do so before the host looks at the call.
func TestTheSnapshotOfAStuckQueryBelongsToIt(t *testing.T) {
	part := verbs.Snapshot{Port: 1, Trigger: verbs.TriggerCommand, At: 15*sec - 2*ms, Mono: 15*sec + 10*ms}
	first := netDev(&part, true, true)
	last := *first
	last.Done, last.LeftOut = true, []string{"counters: the device is not answering another command"}
	for name, seen := range map[string]int64{"the host is first": 15 * sec, "the worker is first": 14 * sec} {
		t.Run(name, func(t *testing.T) {
			h, sup, led := one(t, explaining)
			led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Thread: 7, Since: 10 * sec})
			h.mono.Store(seen)
			h.batch(sup, ethernet(0))
			h.mono.Store(15*sec + 20*ms)
			h.batch(sup, item(first))
			h.mono.Store(15*sec + 30*ms)
			h.batch(sup, item(&last))
			got := h.explained(sup)
			require.Len(t, got, 1)
			require.True(t, got[0].NetDev.Carrier)
			require.Equal(t, last.LeftOut[0], got[0].LeftOut)
			require.Equal(t, cause.CommandStuck, got[0].Cause)
		})
	}
}

func TestEthtoolThatDoesNotAnswerIsLoggedOnce(t *testing.T) {
	var text strings.Builder
	h, sup, led := one(t, func(c *Config) {
		explaining(c)
		c.Log = slog.New(slog.NewTextHandler(&text, nil))
	})
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallEthtool, Port: 1, Thread: 7, Since: 10 * sec})
	for at := 11 * sec; at < 20*sec; at += sec {
		h.mono.Store(at)
		h.batch(sup)
	}
	require.Equal(t, 1, strings.Count(text.String(), "ethtool has not answered about port 1 for 5s"), text.String())
	require.Empty(t, h.gather().Commands, "it is no command of the RDMA device")
}

func TestTriggersThatWaitAreBounded(t *testing.T) {
	h, sup, _ := one(t, explaining)
	for i := range int64(3 * maxWaiting) {
		h.batch(sup, item(counted("gid_change", i, 1, 1)))
	}
	require.Len(t, of[measure.Evidence](h.sink.take()), 2*maxWaiting, "the oldest are judged early")
	require.Len(t, h.explained(sup), maxWaiting)
}

func TestASnapshotForWhatIsNoTriggerIsNotEmitted(t *testing.T) {
	h, sup, _ := one(t, explaining)
	for i, why := range []verbs.Trigger{"", "removed", "x y=1", "unknown_7"} {
		h.batch(sup, item(counted(why, int64(i), 1, 1)))
	}
	require.Empty(t, h.explained(sup))
}

func TestWithoutEvidenceThereIsNone(t *testing.T) {
	h, sup, led := one(t, func(c *Config) { c.CommandStuck = 5 * time.Second })
	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Thread: 7, Since: 10 * sec})
	h.mono.Store(15 * sec)
	h.batch(sup, event(verbs.EventPortErr, 1, 1, sec, sec))
	require.Empty(t, h.explained(sup))
	h.finds()
	require.Empty(t, of[measure.Evidence](h.sink.take()), "removed")
}

func TestALatePartIsDroppedAfterAnotherTriggerWasJudged(t *testing.T) {
	h, sup, led := one(t, explaining)
	h.batch(sup, ethernet(0), ended(verbs.CommandHWCounters, 40_000, ""))
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: 10 * sec, Mono: 10*sec + 10*ms}, true, false)
	led.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Thread: 7, Since: 10*sec + 20*ms})
	h.mono.Store(10*sec + 30*ms)
	h.batch(sup, event(verbs.EventPortErr, 1, 1, 10*sec, 10*sec), item(first))
	h.runs(sup, 15*sec+30*ms)
	h.batch(sup) // the reading of the counters is stuck: a trigger by itself
	h.mono.Store(17 * sec)
	h.batch(sup)
	require.Len(t, of[measure.Evidence](h.sink.take()), 2)
	led.SetEvidenceCall(ledger.ThreadCall{})
	h.mono.Store(30 * sec)
	h.batch(sup, item(netDev(counted("port_err", 10*sec, 1, 1), true, false)))
	require.Empty(t, h.explained(sup), "it came too late")
}

func TestWhatHappenedBeforeADeviceCameBackIsNoCause(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.mono.Store(sec)
	h.batch(sup, ethernet(0), event(verbs.EventDeviceFatal, 0, 1, sec, sec))
	h.finds()
	h.mono.Store(2 * sec)
	h.finds(found("mlx5_0", 1))
	h.opens(sup, "mlx5_0")
	h.sink.take()
	h.mono.Store(4 * sec)
	h.batch(sup, ethernet(2*sec+100*ms), event(verbs.EventPortErr, 1, 1, 4*sec, 4*sec), item(netDev(counted("port_err", 4*sec, 1, 1), false, false)))
	require.Equal(t, cause.AdminDown, h.explained(sup)[0].Cause)
}

func TestALaterFallDoesNotHideAChangeOfAddresses(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.batch(sup, ethernet(0), gids(10*ms, gidAt(0, "fe80::200:ff:fe00:1"), gidAt(3, "::ffff:10.4.0.1")))
	// The worker's batches are held up for some seconds.
	h.mono.Store(36 * sec)
	h.batch(sup, event(verbs.EventGIDChange, 1, 1, 30*sec, 30*sec), item(netDev(counted("gid_change", 30*sec, 1, 1), true, true)),
		gids(30*sec+100*ms, gidAt(0, "fe80::200:ff:fe00:1")), event(verbs.EventPortErr, 1, 1, 35*sec, 35*sec))
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 1)
	require.Equal(t, cause.AddressChange, got[0].Cause)
}

func TestASnapshotThatThePaceHeldUpEndsWithItsWorker(t *testing.T) {
	h, sup, _ := one(t, explaining)
	h.mono.Store(40 * sec)
	first := netDev(&verbs.Snapshot{Port: 1, Trigger: "port_err", At: 10 * sec, Mono: 40 * sec}, true, false)
	h.batch(sup, ethernet(0), item(first))
	h.mono.Store(40*sec + 100*ms)
	sup.Ended(status.End{Reason: status.ReasonCrashed})
	got := of[measure.Evidence](h.sink.take())
	require.Len(t, got, 1)
	require.Equal(t, "the rest: the worker ended before", got[0].LeftOut)
}
