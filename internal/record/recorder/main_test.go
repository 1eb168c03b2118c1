package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerKey); dir != "" {
		writeUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

// sinceBoot is how long ago the boot of the tests was.
const sinceBoot = int64(time.Hour)

// fakeClocks returns the bubble's time, and the time since a boot at a fixed moment before the start time of synctest.
func fakeClocks() (wall, boot int64) {
	wall = time.Now().UnixNano()
	return wall, wall - time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC).UnixNano() + sinceBoot
}

func newConfig(dir string) Config {
	return Config{
		Directory: dir, SizeMiB: MinSizeMiB, BootID: "5e0b8c1e-0c57-4a2d-8a3c-000000000001", Host: "node7",
		Clock: fakeClocks, Log: slog.New(slog.DiscardHandler),
		CloseTime: 10 * time.Second, // enough on a busy disk
	}
}

// withDefaultCloseTime resets CloseTime to its default, for tests that check when Close gives up on the disk.
func withDefaultCloseTime(c Config) Config {
	c.CloseTime = 0
	return c
}

func newDir(t *testing.T) string { return filepath.Join(t.TempDir(), "records") }

// run is a running Recorder.
type run struct {
	*Recorder
	stop func() error // ends Run and returns its error
}

// startRecorder runs a Recorder in a bubble of synctest.
func startRecorder(t *testing.T, c Config, wrap func(file) file) run {
	t.Helper()
	if wrap == nil {
		wrap = func(f file) file { return f }
	}
	r, err := open(c, wrap)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return run{r, func() error { cancel(); return <-done }}
}

// closeNow writes what was added, and the end.
func closeNow(r *Recorder) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return r.Run(ctx)
}

// recordNumbers runs a Recorder that records n entries. Their data are their numbers, starting with first.
func recordNumbers(t *testing.T, c Config, first, n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, c, nil)
		addNumbers(r.Recorder, first, n)
		require.NoError(t, r.stop())
		require.Equal(t, uint64(n), r.Counts().Recorded)
	})
}

// addNumbers adds n entries with their numbers.
func addNumbers(r *Recorder, first, n int) {
	for i := range n {
		r.Add(Entry{Kind: "number", Device: "mlx5_0", Port: 1, Data: number{first + i}})
		if i%1000 == 999 {
			synctest.Wait() // for space in the queue
		}
	}
}

type number struct {
	N int `json:"n"`
}

// readRecords returns all records, and one line for each part that was skipped.
func readRecords(t *testing.T, dir string, f Filter) (records []Record, skipped []string) {
	t.Helper()
	r, err := NewReader(dir, f, func(s Skip) { skipped = append(skipped, s.String()) })
	require.NoError(t, err)
	for one, err := range r.Records() {
		require.NoError(t, err)
		records = append(records, one)
	}
	return records, skipped
}

// recordText returns the number of a record of kind "number", and the kind of any other record.
func recordText(t *testing.T, r Record) string {
	t.Helper()
	if r.Kind != "number" {
		return r.Kind
	}
	return fmt.Sprint(recordData[number](t, r).N)
}

// recordTexts returns the texts of the records in one line.
func recordTexts(t *testing.T, records []Record) string {
	t.Helper()
	var all []string
	for _, r := range records {
		all = append(all, recordText(t, r))
	}
	return strings.Join(all, " ")
}

func recordData[T any](t *testing.T, r Record) T {
	t.Helper()
	var d T
	require.NoError(t, json.Unmarshal(r.Data, &d), string(r.Data))
	return d
}

// requireNoHoles fails unless the sequences rise by one.
func requireNoHoles(t *testing.T, records []Record) {
	t.Helper()
	for i := 1; i < len(records); i++ {
		if records[i].Sequence != records[i-1].Sequence+1 {
			require.Failf(t, "hole", "after %d follows %d", records[i-1].Sequence, records[i].Sequence)
		}
	}
}

// newestSegment returns the path and the content of the newest segment.
func newestSegment(t *testing.T, dir string) (path string, content []byte) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := segmentsOf(entries)
	require.NotEmpty(t, all)
	path = filepath.Join(dir, segmentName(all[len(all)-1].number))
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	return path, content
}

// copyDir copies a directory, as of a dead host.
func copyDir(t *testing.T, dir, to string) {
	t.Helper()
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	require.NoError(t, os.Chmod(to, 0o700))
}
