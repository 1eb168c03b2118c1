package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/record/recorder"
	"rdma_events/internal/record/timeline"
)

// writeRecorder creates a recorder's directory with records, each recorded at its own time.
func writeRecorder(t *testing.T, dir, host string, records ...timeline.Record) string {
	t.Helper()
	now := noon
	clock := func() (wall, boot int64) { return now.UnixNano(), now.UnixNano() }
	rec, err := recorder.Open(recorder.Config{
		Directory: dir, SizeMiB: recorder.MinSizeMiB, BootID: "boot of " + host, Host: host, Clock: clock, Log: slog.New(slog.DiscardHandler),
		CloseTime: 10 * time.Second,
	})
	require.NoError(t, err)
	r := timeline.NewRecording(rec, func() time.Time { return now })
	for _, one := range records {
		now = one.Time
		r.Add(one)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	cancel()
	require.NoError(t, <-done)
	return dir
}

// noon is the time of the first records in the tests: an hour before the window of job 1234, which ends at 14:00.
var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func minutesAfterNoon(minutes int, r timeline.Record) timeline.Record {
	r.Time = noon.Add(time.Duration(minutes) * time.Minute)
	return r
}

func portDown(minutes int, device string) timeline.Record {
	return minutesAfterNoon(minutes, timeline.Record{
		Kind: timeline.KindEvent, Device: device, Port: 1, Event: "port_err", Count: 1, StateFrom: "active", StateTo: "down", Witness: "event",
	})
}

func portUp(minutes int, device string) timeline.Record {
	return minutesAfterNoon(minutes, timeline.Record{
		Kind: timeline.KindEvent, Device: device, Port: 1, Event: "port_active", Count: 1, StateFrom: "down", StateTo: "active", Witness: "event",
	})
}

func queuePairFailure(minutes int, device, unit string) timeline.Record {
	return minutesAfterNoon(minutes, timeline.Record{
		Kind: timeline.KindAppEvent, Device: device, Event: "qp_fatal", Count: 1, App: &timeline.App{Name: "python3", Unit: unit, Object: "qp"},
	})
}

// writeCluster writes the records of three hosts and returns their directories. The port of one host goes down within the window; ports of
// the others go down before and after it.
func writeCluster(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	return []string{
		writeRecorder(t, filepath.Join(dir, "one"), "node1", portDown(10, "mlx5_0"), portUp(11, "mlx5_0"),
			queuePairFailure(76, "mlx5_0", "job_1234"), queuePairFailure(76, "mlx5_0", "job_7")),
		writeRecorder(t, filepath.Join(dir, "two"), "node2", portDown(75, "mlx5_1"), queuePairFailure(75, "mlx5_1", "job_1234"), portUp(77, "mlx5_1")),
		writeRecorder(t, filepath.Join(dir, "three"), "node3", portDown(130, "mlx5_0"), portUp(131, "mlx5_0")),
	}
}

func runEvents(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, problems bytes.Buffer
	code = showEvents(args, &out, &problems)
	return out.String(), problems.String(), code
}

var jobWindow = []string{"-since", "2026-11-25T13:00:00Z", "-until", "2026-11-25T14:00:00Z"}

func TestSummaryNamesTheFirstFaultOfAJob(t *testing.T) {
	out, problems, code := runEvents(t, append(append(jobWindow, "-unit", "1234"), writeCluster(t)...)...)
	require.Zero(t, code, problems)
	head, records, _ := strings.Cut(out, "\n\n")
	lines := strings.Split(head, "\n")
	require.Regexp(t, `^summary  3 hosts, from .*, until .*, unit job_1234$`, lines[0])
	require.Regexp(t, `^first    .*  node2 mlx5_1:1  went down \(port_err\); recovered after 2m0s$`, lines[1])
	require.Regexp(t, `^then     .*  node2 mlx5_1  2 times qp_fatal of python3 \(job_1234\), and on 1 more host$`, lines[2])
	require.Regexp(t, `(?m)^\d\d:15:00.000000  node2  mlx5_1:1    port_err             active > down$`, records)
	require.NotContains(t, records, "node3", "nothing of it is in the window")
	require.NotContains(t, records, "job_7")
	require.Regexp(t, `node1  mlx5_0      python3 job_1234     qp_fatal`, records)

	only, _, _ := runEvents(t, append(append(jobWindow, "-unit", "job-1234", "-summary", "only"), writeCluster(t)...)...)
	require.Equal(t, head, strings.TrimSuffix(only, "\n"))
	none, _, _ := runEvents(t, append(append(jobWindow, "-unit", "job_1234", "-summary", "no"), writeCluster(t)...)...)
	require.Equal(t, records, none)
}

func TestEventsOfSeveralHostsAreMergedByTime(t *testing.T) {
	out, problems, code := runEvents(t, append([]string{"-json"}, writeCluster(t)...)...)
	require.Zero(t, code, problems)
	var faults []string
	for line := range strings.Lines(out) {
		var k timeline.StoredRecord
		require.NoError(t, json.Unmarshal([]byte(line), &k))
		require.NotEmpty(t, k.Host)
		if k.Event == "port_err" {
			faults = append(faults, k.Host)
		}
	}
	require.Equal(t, []string{"node1", "node2", "node3"}, faults)
}

func TestHostOfOlderRecordsIsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	begins := minutesAfterNoon(1, timeline.Record{Kind: timeline.KindPlugin, Plugin: &timeline.Plugin{Host: "node9"}})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "node8"), 0o700))
	for want, path := range map[string]string{
		"node7": writeRecorder(t, filepath.Join(dir, "node7"), "", portDown(10, "mlx5_0")),
		"node8": writeRecorder(t, filepath.Join(dir, "node8", "rdma_events"), "", portDown(10, "mlx5_0")),
		"node9": writeRecorder(t, filepath.Join(dir, "copy"), "", begins, portDown(10, "mlx5_0")),
	} {
		out, problems, code := runEvents(t, "-json", path)
		require.Zero(t, code, problems)
		require.Contains(t, out, `"host":"`+want+`"`)
	}
}

func TestUnreadableDirectoryCostsItsOwnRecords(t *testing.T) {
	dirs := writeCluster(t)
	segment := filepath.Join(dirs[0], "0000000001.seg")
	require.NoError(t, os.Rename(segment, segment+".moved"))
	require.NoError(t, os.Symlink(segment+".moved", segment))
	damaged, err := os.ReadFile(filepath.Join(dirs[2], "0000000001.seg"))
	require.NoError(t, err)
	copy(damaged[len(damaged)/2:], "damage damage damage")
	require.NoError(t, os.WriteFile(filepath.Join(dirs[2], "0000000001.seg"), damaged, 0o600))

	out, problems, code := runEvents(t, append([]string{"-summary", "only", filepath.Join(t.TempDir(), "none")}, dirs...)...)
	require.Equal(t, exitWarning, code)
	require.Contains(t, problems, "none: no such file or directory")
	require.Contains(t, out, "summary  3 hosts")
	require.Regexp(t, `(?m)^first    .*  node2 mlx5_1:1  went down`, out, "a link is not followed")
	require.Regexp(t, `(?m)^missing  node3  0000000001.seg: \d+ bytes skipped in 1 places: they are damaged$`, out)

	_, problems, code = runEvents(t, filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "neither"))
	require.Equal(t, exitFailed, code)
	require.Contains(t, problems, "neither")
}

func TestWrongUseOfEventsIsOneLine(t *testing.T) {
	dir := writeRecorder(t, filepath.Join(t.TempDir(), "a"), "node1")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	for want, args := range map[string][]string{
		"-until 2h0m0s is before -since 1h0m0s":                                    {"-since", "1h", "-until", "2h"},
		"-since -1h0m0s is in the future":                                          {"-since", "-1h"},
		"link is named twice":                                                      {dir, link},
		"-json follows a directory: flags come first":                              {dir, "-json"},
		"-json writes records alone: leave out -summary":                           {"-json", "-summary", "only", dir},
		"-follow goes on with one directory, and has no end":                       {"-follow", dir, t.TempDir()},
		"-summary maybe: want auto, yes, no or only":                               {"-summary", "maybe", dir},
		`invalid value "noon" for flag -since: want a duration ago such as 1h, or`: {"-since", "noon"},
	} {
		out, problems, code := runEvents(t, args...)
		require.Equal(t, exitUsage, code)
		require.Empty(t, out)
		require.Contains(t, problems, want)
	}
}

func TestMomentsAreReadInEachForm(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"":                          {},
		"0":                         {},
		"0s":                        {},
		"90m":                       time.Date(2026, 11, 26, 10, 30, 0, 0, time.Local),
		"2026-11-26 10:30":          time.Date(2026, 11, 26, 10, 30, 0, 0, time.Local),
		"2026-11-26 10:30:07":       time.Date(2026, 11, 26, 10, 30, 7, 0, time.Local),
		"2026-11-26T10:30:07":       time.Date(2026, 11, 26, 10, 30, 7, 0, time.Local), // as sacct(1) prints it
		"2026-11-26T10:30:07+02:00": time.Date(2026, 11, 26, 8, 30, 7, 0, time.UTC),
		"@1764153007":               time.Unix(1764153007, 0),
	} {
		var m timeFlag
		require.NoError(t, m.Set(text))
		require.Equal(t, want.UnixNano(), m.resolve(now).UnixNano(), text)
	}
	for _, text := range []string{"noon", "@", "@1.5", "2026-13-01 10:00", "10:30"} {
		require.Error(t, new(timeFlag).Set(text), text)
	}
}

func TestUnitsAreNamedAsTheRecordNamesThem(t *testing.T) {
	const uid = "0f3c2d1e-1111-2222-3333-444455556666"
	for text, want := range map[string]string{
		"1234": "job_1234", "job-1234": "job_1234", "job_1234": "job_1234", uid: "pod_" + uid, "pod-" + uid: "pod_" + uid,
		"pod_" + uid: "pod_" + uid, "nginx.service": "nginx.service", "": "",
	} {
		require.Equal(t, want, unitName(text))
	}
}
