package timeline

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/recorder"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// runRecording runs a Recording while do uses it. It returns the records of the directory, except the recorder's start and end.
func runRecording(t *testing.T, dir string, do func(*Recording)) []StoredRecord {
	t.Helper()
	rec, err := recorder.Open(recorder.Config{
		Directory: dir, SizeMiB: recorder.MinSizeMiB, Yielding: YieldingKinds(), BootID: "boot", Host: "node7",
		Clock: clock.WallAndBoot, Log: slog.New(slog.DiscardHandler), CloseTime: 10 * time.Second,
	})
	require.NoError(t, err)
	r := NewRecording(rec, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	do(r)
	cancel()
	require.NoError(t, <-done)
	all := readRecords(t, dir)
	require.NotNil(t, all[0].Start)
	require.Equal(t, recorder.KindEnd, all[len(all)-1].Kind)
	return all[1 : len(all)-1]
}

func readRecords(t *testing.T, dir string) (all []StoredRecord) {
	t.Helper()
	reader, err := recorder.NewReader(dir, recorder.Filter{}, func(s recorder.Skip) { t.Error(s) })
	require.NoError(t, err)
	for r, err := range reader.Records() {
		require.NoError(t, err)
		k, err := NewStoredRecord(&r)
		require.NoError(t, err)
		all = append(all, k)
	}
	return all
}

func at(ms int) time.Time { return time.Unix(1_700_000_000, int64(ms)*1e6).UTC() }

// pointsOfAllKinds returns a point for each kind of record, all of which report something new.
func pointsOfAllKinds() []measure.Point {
	return []measure.Point{
		&measure.Device{Device: "mlx5_0", Present: true, Open: true, Reason: status.ReasonOK, At: at(1),
			Attr: verbs.DeviceAttr{Driver: "mlx5_core", Firmware: "16.35", Ports: 1, EventsSupported: true}},
		&measure.Port{Device: "mlx5_0", Port: 1, Known: true, HasState: true, State: verbs.PortActive, At: at(2)},
		&measure.Event{Device: "mlx5_0", Port: 1, Type: verbs.EventPortErr, Count: 1, Total: 1, At: at(3)},
		&measure.Change{Device: "mlx5_0", Port: 1, From: verbs.PortActive, To: verbs.PortDown, Witness: verbs.WitnessEvent, Transitions: 1, At: at(3)},
		&measure.GIDChange{Device: "mlx5_0", Port: 1, Action: verbs.GIDMoved, From: 3, To: 5, AwayNS: 412_000_000, At: at(4),
			GID: verbs.GID{Raw: netip.MustParseAddr("::ffff:10.4.0.1").As16(), Type: verbs.GIDRoCEv2, NetDev: "eth0"}},
		&measure.AttrChange{Device: "mlx5_0", Port: 1, Attr: "mtu", From: "4096", To: "1024", At: at(5)},
		&measure.Command{Device: "mlx5_0", Port: 1, Call: verbs.CommandHWCounters, Calls: 7, Stuck: true, BusyNS: 5_000_000_000, At: at(6)},
		&measure.Device{Device: "mlx5_0", Present: true, Reason: status.ReasonStuck, At: at(7),
			Worker: status.Status{Message: "worker of mlx5_0 was stuck in ibv_query_port and was killed"}},
	}
}

func TestWhatHappensIsRecordedInTheWordsOfWatch(t *testing.T) {
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		for _, p := range pointsOfAllKinds() {
			r.Emit(p)
		}
	})
	var lines []string
	for i, k := range all {
		require.EqualValues(t, i+2, k.Sequence)
		require.Equal(t, "boot", k.BootID)
		lines = append(lines, strings.Join(strings.Fields(Style{}.StoredLine(&k))[1:], " "))
	}
	require.Equal(t, []string{
		"mlx5_0 opened: mlx5_core, 1 port, firmware 16.35",
		"mlx5_0:1 (first look) active, 0 Gb/s (), unspecified",
		"mlx5_0:1 port_err active",
		"mlx5_0:1 (event) active > down",
		"mlx5_0:1 gid ::ffff:10.4.0.1 roce_v2 moved from index 3 to 5, away 412ms",
		"mlx5_0:1 mtu 4096 > 1024",
		"mlx5_0:1 command hw_counters not answered for 5s",
		"mlx5_0 not watched: stuck worker of mlx5_0 was stuck in ibv_query_port and was killed",
	}, lines)
	require.True(t, all[2].mayCauseChange())
	require.True(t, all[2].addCausedChange(&all[3].Record))
	require.Contains(t, Style{}.StoredLine(&all[2]), "active > down")
	require.False(t, all[2].addCausedChange(&all[3].Record), "once")
	require.False(t, all[5].mayCauseChange())
}

func TestARecordIsTheObjectOfWatchWithItsPlace(t *testing.T) {
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) { r.Emit(pointsOfAllKinds()[5]) })
	text, err := json.Marshal(all[0])
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	delete(got, "boot_ns")
	require.Equal(t, map[string]any{
		"sequence": 2., "boot_id": "boot", "host": "node7", "schema": 1., "time": "2023-11-14T22:13:20.005Z", "kind": "attr", "device": "mlx5_0", "port": 1.,
		"attr": map[string]any{"name": "mtu", "from": "4096", "to": "1024"},
	}, got)
}

func TestAPointStaysAsItIsForItsOtherOwner(t *testing.T) {
	p := &measure.Event{Device: "mlx5_0", Port: 1, Type: verbs.EventSMChange, Count: 1, Total: 1, At: at(1)}
	runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		for range 100 {
			r.Emit(p)
		}
	})
	require.EqualValues(t, 1, p.Count)
}

// Of 10,000 points at once most merge, and all events stay counted.
func TestAStormIsRecordedToTheLastEvent(t *testing.T) {
	const storm = 10_000
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		for i := range storm {
			r.Emit(&measure.Event{Device: "mlx5_0", Port: 1, Type: verbs.EventSMChange, Count: 3, Total: uint64(3 * i), At: at(i)})
		}
	})
	var events uint64
	for _, k := range all {
		require.Equal(t, KindEvent, k.Kind)
		events += k.Count
	}
	require.EqualValues(t, 3*storm, events)
	require.Less(t, len(all), storm/10)
}

func TestRoundsThatAreLostAreRecordedWhenTheyAre(t *testing.T) {
	probe := func(c ledger.ProbeCounts) []measure.Point {
		return []measure.Point{&measure.Probe{
			Device: "mlx5_0", ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodUDSend}, Counts: c, Status: "lost_event", At: at(1),
		}}
	}
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		r.RecordInterval(probe(ledger.ProbeCounts{Rounds: 10, Successes: 10}))
		r.RecordInterval(probe(ledger.ProbeCounts{Rounds: 20, Successes: 19, LostEvents: 1}))
		r.RecordInterval(probe(ledger.ProbeCounts{Rounds: 30, Successes: 29, LostEvents: 1}))
		r.RecordInterval(probe(ledger.ProbeCounts{Rounds: 40, Successes: 38, LostEvents: 1, Errors: 1}))
	})
	require.Len(t, all, 2)
	require.Equal(t, &Lost{Events: 1}, all[0].Probe.Lost)
	require.Equal(t, &Lost{Events: 1, Errors: 1}, all[1].Probe.Lost)
	require.Contains(t, Style{}.StoredLine(&all[1]), "2 of 40 failed: lost_event")
}

func TestWarningsAreRecorded(t *testing.T) {
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		log := NewLog(slog.LevelWarn, r.Add)
		log.Info("not recorded")
		log.With("device", "mlx5_0").Warn("worker of mlx5_0 was stuck in read sysfs and was killed")
	})
	require.Len(t, all, 1)
	require.Contains(t, Style{}.StoredLine(&all[0]), "mlx5_0      warning: worker of mlx5_0 was stuck in read sysfs and was killed")
}

// The directory may come from another, untrusted host.
func TestARecordCommandsNoTerminal(t *testing.T) {
	k, err := NewStoredRecord(&recorder.Record{
		Kind: KindLog, Device: "mlx5_0\x1b]0;owned\x07", Data: []byte(`{"level":"warning","text":"hi\r\u001b[1A\nfaked \u009b2J"}`),
	})
	require.NoError(t, err)
	line := Style{}.StoredLine(&k)
	require.Contains(t, line, "mlx5_0?]0;owned?")
	require.Contains(t, line, "warning: hi??[1A?faked ?2J")
	_, err = NewStoredRecord(&recorder.Record{Kind: "\x1b[2J", Data: []byte("1")})
	require.ErrorContains(t, err, `"\x1b[2J"`)
}

func TestAPathologicalRecordIsAnError(t *testing.T) {
	for _, r := range []recorder.Record{
		{Kind: KindGID}, {Kind: KindAttr, Data: []byte(`{}`)}, {Kind: KindEvent, Data: []byte(`{"port": "1"}`)}, {Kind: recorder.KindLost, Data: []byte(`[]`)},
		{Kind: KindPort, Data: []byte(`{"link": null}`)}, {Kind: KindCommand}, {Kind: KindProbe}, {Kind: KindPlugin},
	} {
		_, err := NewStoredRecord(&r)
		require.ErrorContains(t, err, "read record 0", r.Kind)
	}
}

func TestTheRecordersOwnRecordsAreSentences(t *testing.T) {
	for want, k := range map[string]StoredRecord{
		"(recording starts)":                                                   {Start: &recorder.Start{}},
		"(recording resumes)  after a clean end at 20":                         {Start: &recorder.Start{Clean: true, LastSequence: 7, LastTime: at(0)}},
		"killed, or the power failed":                                          {Start: &recorder.Start{LastSequence: 7, LastTime: at(0)}},
		"before this boot":                                                     {Start: &recorder.Start{LastSequence: 7, LastTime: at(0), LastBootID: "other"}},
		"(12 records lost)    no space left on device":                         {Lost: &recorder.Lost{Count: 12, Error: "no space left on device"}},
		"(12 records lost)    they came faster than the disk could write them": {Lost: &recorder.Lost{Count: 12}},
		"(wall clock set)     1h0m0s back":                                     {Clock: &recorder.Clock{StepNS: -int64(time.Hour)}},
		"(wall clock set)     2s ahead":                                        {Clock: &recorder.Clock{StepNS: 2e9}},
	} {
		require.Contains(t, Style{}.StoredLine(&k), want)
	}
	end := StoredRecord{Record: Record{Kind: recorder.KindEnd}}
	require.Contains(t, Style{}.StoredLine(&end), "(recording ends)")
}

// The directory of a later version may have kinds that this version does not know.
func TestAKindOfALaterVersionIsShownByItsName(t *testing.T) {
	k, err := NewStoredRecord(&recorder.Record{Kind: "weather", Device: "mlx5_0", Port: 1, Data: []byte(`{"cause":"no_carrier"}`)})
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix([]byte(Style{}.StoredLine(&k)), []byte("mlx5_0:1    (weather)")), Style{}.StoredLine(&k))
}

func TestRecordsOfUnusedPortsSayThatTheyAreExpectedDown(t *testing.T) {
	c := NewChanges(RegisterDevices)
	port := &measure.Port{Device: "mlx5_0", Port: 2, Known: true, HasState: true, State: verbs.PortDown, Expected: true, At: at(1)}
	change := &measure.Change{Device: "mlx5_0", Port: 2, From: verbs.PortDown, To: verbs.PortActive, Witness: verbs.WitnessQuery, At: at(2)}
	for _, p := range []measure.Point{port, change} {
		r, ok := c.RecordOf(p, nil)
		require.True(t, ok)
		require.Equal(t, "down", r.Expected)
	}
	port.Expected = false
	_, ok := c.RecordOf(port, nil)
	require.False(t, ok)
	r, _ := c.RecordOf(change, nil)
	require.Empty(t, r.Expected)
}
