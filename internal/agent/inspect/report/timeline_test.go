package report

import (
	"bytes"
	"context"
	"fmt"
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

// writeRecords writes a recorder's directory with n changes of each device.
func writeRecords(t *testing.T, n int, devices ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "records")
	clock := func() (wall, boot int64) { now := time.Now().UnixNano(); return now, now }
	rec, err := recorder.Open(recorder.Config{
		Directory: dir, BootID: "boot", Clock: clock, Log: slog.New(slog.DiscardHandler), CloseTime: 10 * time.Second,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rec.Run(ctx) }()
	for i := range n {
		for _, device := range devices {
			rec.Add(recorder.Entry{Kind: timeline.KindAttr, Device: device, Data: timeline.Record{
				Time: time.Now(), Kind: timeline.KindAttr, Attr: &timeline.Attr{Name: "mtu", From: fmt.Sprint(i), To: fmt.Sprint(i + 1)},
			}})
		}
	}
	cancel()
	require.NoError(t, <-done)
	return dir
}

// readTimeline makes the part and returns its texts and results.
func readTimeline(t *testing.T, o TimelineOptions) (text, objects string, made []Result) {
	t.Helper()
	var err error
	o.Text, err = NewSpool(t.TempDir())
	require.NoError(t, err)
	o.JSONL, err = NewSpool(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, o.Text.Close())
		require.NoError(t, o.JSONL.Close())
	})
	made = Collect(t.Context(), []Part{Timeline(o)}, time.Now)
	if made[0].Missing != nil {
		return "", "", made
	}
	var buffers [2]bytes.Buffer
	for i := range buffers {
		n, err := made[i].Data.WriteTo(&buffers[i])
		require.NoError(t, err)
		require.Equal(t, made[i].Data.Len(), n)
	}
	return buffers[0].String(), buffers[1].String(), made
}

func TestTheTimelineHasTheRecordsOfADeviceAndOfTheHost(t *testing.T) {
	dir := writeRecords(t, 3, "mlx5_0", "mlx5_1")
	text, objects, made := readTimeline(t, TimelineOptions{Directory: dir, Device: "mlx5_0", MaxBytes: 64 << 20})
	require.Empty(t, MissingLines(made))
	require.Equal(t, 1+1+3+1, strings.Count(text, "\n"), "a day, the begin, three changes, the end:\n"+text)
	require.Equal(t, 1+3+1, strings.Count(objects, "\n"))
	require.NotContains(t, text+objects, "mlx5_1")
	require.Len(t, made[0].Notes, 1)
	require.Regexp(t, `^5 records, the first of 2\d{3}-[^;]+Z, the last of 2\d{3}-[^;]+Z; an event and the change of state`, made[0].Notes[0])

	text, _, made = readTimeline(t, TimelineOptions{Directory: dir, Since: time.Now().Add(time.Hour), MaxBytes: 64 << 20})
	require.Empty(t, text)
	require.Empty(t, MissingLines(made))
	require.Contains(t, made[0].Notes[0], "0 records")
}

func TestOfTooManyRecordsTheNewestAreKept(t *testing.T) {
	dir := writeRecords(t, 500, "mlx5_0")
	text, objects, made := readTimeline(t, TimelineOptions{Directory: dir, MaxBytes: 20 << 10})
	require.Empty(t, MissingLines(made))
	require.LessOrEqual(t, len(objects), 21<<10)
	require.Contains(t, text, "499 > 500")
	require.NotContains(t, text, " 0 > 1\n")
	require.Regexp(t, `^\d{4}-\d\d-\d\d\n`, text, "it begins with a day")
	lines := strings.Count(objects, "\n")
	require.Greater(t, lines, 20)
	require.Contains(t, made[0].Notes[0], fmt.Sprintf("%d records, the first of ", lines))
	require.Equal(t, fmt.Sprintf("%d older records are left out, of which there is no space: rdma-events events prints them", 502-lines), made[0].Notes[1])
}

func TestWithoutARecorderTheTimelineIsMissingAndSaysWhatToDo(t *testing.T) {
	_, _, made := readTimeline(t, TimelineOptions{Directory: "/nonexistent/records", MaxBytes: 1})
	require.Len(t, MissingLines(made), 1)
	require.Contains(t, MissingLines(made)[0], "timeline.txt: read records: open /nonexistent/records: no such file or directory; nothing was recorded there")
	_, _, made = readTimeline(t, TimelineOptions{Directory: t.TempDir(), MaxBytes: 1})
	require.ErrorIs(t, made[0].Missing, recorder.ErrNotRecorder)
}

func TestDamagedRecordsAreMissingAndThoseAroundThemAreThere(t *testing.T) {
	dir := writeRecords(t, 100, "mlx5_0")
	path := filepath.Join(dir, "0000000001.seg")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(raw[len(raw)/2:], "damaged, damaged, damaged")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	text, _, made := readTimeline(t, TimelineOptions{Directory: dir, MaxBytes: 64 << 20})
	require.Contains(t, text, " 0 > 1\n")
	require.Contains(t, text, "99 > 100")
	require.Len(t, made[0].Lacks, 1)
	require.Contains(t, made[0].Lacks[0], "0000000001.seg: ")

	raw = raw[:len(raw)-5]
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	_, _, made = readTimeline(t, TimelineOptions{Directory: dir, MaxBytes: 64 << 20})
	require.Len(t, made[0].Lacks, 1, "the damage before it still is one")
}

// A running plugin is writing the last record.
func TestTheUnfinishedRecordAtTheEndIsNoDamage(t *testing.T) {
	dir := writeRecords(t, 100, "mlx5_0")
	path := filepath.Join(dir, "0000000001.seg")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()-5))
	_, _, made := readTimeline(t, TimelineOptions{Directory: dir, MaxBytes: 64 << 20})
	require.Empty(t, MissingLines(made))
	require.Contains(t, made[0].Notes[0], recorder.ErrTail.Error())
	require.Contains(t, made[0].Notes[1], "101 records, ", "without the end of the recording")
}

func TestASpoolLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s, err := NewSpool(dir)
	require.NoError(t, err)
	for _, one := range []string{"a", "b", "c", "d"} {
		_, err := s.Write([]byte(one))
		require.NoError(t, err)
		require.Equal(t, int64(1), s.Size())
		if one != "d" {
			require.NoError(t, s.Rotate())
		}
	}
	for range 2 {
		var b bytes.Buffer
		_, err = s.WriteTo(&b)
		require.NoError(t, err)
		require.Equal(t, "cd", b.String())
		require.Equal(t, int64(2), s.Len())
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Close())
	_, err = NewSpool(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
