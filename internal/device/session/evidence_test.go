package session

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/verbs"
)

// newSnapshotRig returns a rig that takes snapshots and has no probes.
func newSnapshotRig(t *testing.T, profile, scenario string) *rig {
	r := newRig(t, profile, scenario)
	r.Options.SnapshotInterval, r.Options.Ethtool, r.Options.Probe.Interval = time.Minute, verbs.EthtoolLink, 0
	return r
}

// completeSnapshots returns the complete snapshots in items, except base snapshots, and the number of complete base snapshots.
func completeSnapshots(items []verbs.Item) (explained []verbs.Snapshot, bases int) {
	for _, s := range sessiontest.Pick(items, func(i verbs.Item) *verbs.Snapshot { return i.Snapshot }) {
		switch {
		case !s.Done:
		case s.Trigger == verbs.TriggerBase:
			bases++
		default:
			explained = append(explained, s)
		}
	}
	return explained, bases
}

const cableDown = `
[[link]]
at = "30s"
down_for = "10s"
device = "sim0"
why = "no_cable"
`

func TestCountersAreReadAtFirstAndEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "dual", "")
		r.Start(nil)
		explained, bases := completeSnapshots(r.After(10*time.Minute + time.Second))
		require.Empty(t, explained)
		require.Equal(t, 2*11, bases)
	})
}

func TestWithoutAnIntervalNoSnapshotIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", cableDown)
		r.Options.SnapshotInterval = 0
		r.Start(nil)
		require.Empty(t, sessiontest.Pick(r.After(time.Hour), func(i verbs.Item) *verbs.Snapshot { return i.Snapshot }))
	})
}

func TestASnapshotIsSentInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", cableDown)
		r.Start(nil)
		r.After(29 * time.Second)
		parts := sessiontest.Pick(r.After(5*time.Second), func(i verbs.Item) *verbs.Snapshot { return i.Snapshot })
		require.Len(t, parts, 3)
		for i, p := range parts {
			require.Equal(t, verbs.Trigger("port_err"), p.Trigger)
			require.Equal(t, parts[0].At, p.At)
			require.Equal(t, i == 2, p.Done)
			require.True(t, p.NetDev.AdminUp)
			require.False(t, p.NetDev.Carrier)
			require.Empty(t, p.LeftOut)
		}
		require.Nil(t, parts[0].Counters, "the network device comes first, since it asks no driver")
		require.Nil(t, parts[1].Link, "the counters come before what waits for the RTNL lock")
		require.Contains(t, parts[1].Counters[verbs.CountersHardware], "out_of_buffer")
		require.Contains(t, parts[1].Counters[verbs.CountersPort], "symbol_error")
		require.NotContains(t, parts[2].Counters, verbs.CountersNetDev, "only with all")
		require.Equal(t, "no_cable", parts[2].Link.ExtState)
	})
}

func TestStatisticsAreReadOnlyWithAll(t *testing.T) {
	for _, c := range []struct {
		ethtool   verbs.Ethtool
		link, all bool
	}{{verbs.EthtoolOff, false, false}, {verbs.EthtoolLink, true, false}, {verbs.EthtoolAll, true, true}} {
		synctest.Test(t, func(t *testing.T) {
			r := newSnapshotRig(t, "roce2", cableDown)
			r.Options.Ethtool = c.ethtool
			r.Start(nil)
			explained, _ := completeSnapshots(r.After(time.Minute - time.Second))
			require.Len(t, explained, 1)
			require.Equal(t, c.link, explained[0].Link != nil, c.ethtool)
			require.Equal(t, c.all, len(explained[0].Counters[verbs.CountersNetDev]) > 0, c.ethtool)
		})
	}
}

func TestTheDriverIsNotAskedAboutALinkThatWasSetDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", `
[[link]]
at = "30s"
down_for = "10s"
why = "admin"
`)
		r.Start(nil)
		explained, _ := completeSnapshots(r.After(35 * time.Second))
		require.Len(t, explained, 1)
		require.False(t, explained[0].NetDev.AdminUp)
		require.Nil(t, explained[0].Link)
		require.Empty(t, explained[0].LeftOut)
	})
}

func TestALinkThatFlapsGetsTenSnapshotsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", `
[[link]]
at = "10s"
every = "50ms"
times = 12000
down_for = "20ms"
device = "sim0"
`)
		r.Start(nil)
		items := r.After(30 * time.Second)
		explained, _ := completeSnapshots(items)
		require.Len(t, explained, 10, "one at once, then one a second, and ten a minute")
		explained, _ = completeSnapshots(r.After(4*time.Minute + 30*time.Second))
		require.Len(t, explained, 40)
		merged := uint64(len(explained))
		for _, s := range explained {
			merged += s.Merged
		}
		require.InDelta(t, 270*20, merged, 20*65, "each port_err has a snapshot, or is part of one")
	})
}

// In a storm of events there is no pause in which a snapshot that waits for the last event could begin.
func TestAStormHoldsNoSnapshotUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", `
[[event]]
at = "10s"
every = "5ms"
times = 4000
type = "sm_change"
device = "sim0"
`)
		r.Start(nil)
		explained, _ := completeSnapshots(r.After(20 * time.Second))
		require.Len(t, explained, 10)
		require.Less(t, time.Duration(explained[0].Mono-explained[0].At), 100*time.Millisecond)
	})
}

func TestThePaceIsThatOfEachPort(t *testing.T) {
	var l snapshotLimiter
	now := time.Unix(0, 0)
	require.True(t, l.nextAllowed().Before(now))
	for i := range SnapshotsAMinute {
		l.record(now.Add(time.Duration(i) * paceGap))
		if i < SnapshotsAMinute-1 {
			require.Equal(t, now.Add(time.Duration(i+1)*paceGap), l.nextAllowed())
		}
	}
	require.Equal(t, now.Add(paceSpan), l.nextAllowed(), "a minute after the first of ten")
	l.record(now.Add(2 * paceSpan))
	require.Equal(t, now.Add(2*paceSpan+paceGap), l.nextAllowed())
}

func TestTheTriggerThatMattersMostNamesTheSnapshot(t *testing.T) {
	for _, c := range []struct {
		came   []verbs.Trigger
		want   verbs.Trigger
		at     int64
		merged uint64
	}{
		{[]verbs.Trigger{"base"}, "base", 1, 0},
		{[]verbs.Trigger{"base", "gid_change"}, "gid_change", 2, 0},
		{[]verbs.Trigger{"gid_change", "base"}, "gid_change", 1, 0},
		{[]verbs.Trigger{"gid_change", "lid_change", "gid_change"}, "gid_change", 1, 2},
		{[]verbs.Trigger{"gid_change", "port_err", "gid_change"}, "port_err", 2, 2},
		{[]verbs.Trigger{"lost_event", "port_err", "device_fatal", "port_err"}, "device_fatal", 3, 3},
	} {
		var k snapshotRequest
		for i, why := range c.came {
			k.merge(why, int64(i+1))
		}
		why, at, merged := k.take(false)
		require.Equal(t, c.want, why, c.came)
		require.Equal(t, c.at, at, c.came)
		require.Equal(t, c.merged, merged, c.came)
		require.Empty(t, k.pendingTrigger())
	}
}

func TestWhatAsksForASnapshot(t *testing.T) {
	for want, scenario := range map[verbs.Trigger]string{
		"port_err": cableDown,
		"gid_change": `
[[gid]]
at = "30s"
device = "sim0"
away = "400ms"
to = 6
`,
		"sm_change": `
[[event]]
at = "30s"
device = "sim0"
type = "sm_change"
`,
		"lost_event": `
[[fault]]
at = "30s"
kind = "lost_event"
device = "sim0"
for = "1s"
`,
		"lost_completion": `
[[fault]]
at = "30s"
kind = "lost_completion"
device = "sim0"
for = "1s"
`,
		"command": `
[[command]]
at = "30s"
device = "sim0"
call = "query_port"
for = "8s"
`,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newSnapshotRig(t, "roce2", scenario)
			r.Options.Probe.Interval, r.Options.CommandInterval, r.Options.CommandStuck = time.Second, 10*time.Second, 5*time.Second
			r.Start(nil)
			explained, _ := completeSnapshots(r.After(59 * time.Second))
			require.NotEmpty(t, explained, want)
			require.Equal(t, want, explained[0].Trigger)
			require.NotNil(t, explained[0].NetDev, want)
		})
	}
}

func TestAChangeThatNoEventAnnouncedIsATrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "efa", `
[[link]]
at = "31s"
down_for = "20s"
`)
		r.Options.StateInterval = 5 * time.Second
		r.Start(nil)
		explained, _ := completeSnapshots(r.After(45 * time.Second))
		require.Len(t, explained, 1)
		require.Equal(t, verbs.TriggerState, explained[0].Trigger)
	})
}

func TestATriggerThatComesBetweenIsNotTakenAsABase(t *testing.T) {
	var k snapshotRequest
	k.merge(verbs.TriggerBase, 1)
	require.Equal(t, verbs.TriggerBase, k.pendingTrigger())
	k.merge("port_err", 2)
	why, _, _ := k.take(true)
	require.Empty(t, why, "it has not passed the pace")
	why, at, _ := k.take(false)
	require.Equal(t, verbs.Trigger("port_err"), why)
	require.EqualValues(t, 2, at)
}

const blocks = `
[[counter]]
at = "10m"
source = "fec"
name = "fec_uncorrectable_blocks"
[[counter]]
at = "10m"
source = "hwmon"
name = "temp1_input"
`

// fecSnapshots returns the snapshots that have the counts of the forward error correction.
func fecSnapshots(items []verbs.Item) (with []verbs.Snapshot) {
	for _, s := range sessiontest.Pick(items, func(i verbs.Item) *verbs.Snapshot { return i.Snapshot }) {
		if s.Done && len(s.Counters[verbs.CountersFEC]) > 0 {
			with = append(with, s)
		}
	}
	return with
}

func TestQualityOfALinkIsReadHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", blocks)
		r.Start(nil)
		items := r.After(3*time.Hour + time.Minute)
		got := fecSnapshots(items)
		require.Len(t, got, 4, "at first and every hour")
		for _, s := range got {
			require.Equal(t, verbs.TriggerBase, s.Trigger)
			require.NotEmpty(t, s.Counters[verbs.CountersHWMon])
		}
	})
}

func TestQualityOfALinkIsReadAfterADropAtMostOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", blocks+`
[[link]]
at = "20m"
every = "2s"
times = 25
down_for = "20ms"
device = "sim0"
`)
		r.Start(nil)
		r.After(19 * time.Minute)
		got := fecSnapshots(r.After(10 * time.Minute))
		require.Len(t, got, 2, "at the first drop, and a minute later for those that waited")
		require.Equal(t, verbs.Trigger(verbs.EventPortErr.String()), got[0].Trigger)
		require.Len(t, fecSnapshots(r.After(time.Hour)), 1, "the interval counts from the last one")
	})
}

// Some drivers write a line to the kernel log each time that they cannot read these counts.
func TestErrorCorrectionThatIsNotCountedIsNotReadAfterADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		r := newSnapshotRig(t, "roce2", blocks+`
[[link]]
at = "20m"
every = "2m"
times = 10
down_for = "1s"
device = "sim0"
`)
		r.change(func(d *changed) {
			if d.Attr().Name != "sim0" {
				return
			}
			d.readCounters = func(port int, from verbs.CounterSource) (map[string]uint64, error) {
				if from != verbs.CountersFEC {
					return d.Device.ReadCounters(port, from)
				}
				reads.Add(1)
				return nil, verbs.ErrUnsupported
			}
		})
		r.Start(nil)
		r.After(50 * time.Minute)
		require.EqualValues(t, 1, reads.Load(), "at first alone")
		r.After(2 * time.Hour)
		require.LessOrEqual(t, reads.Load(), int32(4), "hourly")
		require.Greater(t, reads.Load(), int32(1))
	})
}

func TestQualityOfALinkIsNotReadWithoutEthtool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSnapshotRig(t, "roce2", blocks)
		r.Options.Ethtool = verbs.EthtoolOff
		r.Start(nil)
		require.Empty(t, fecSnapshots(r.After(2*time.Hour)))
	})
}
