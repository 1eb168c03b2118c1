package recorder

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newYieldingConfig is like newConfig, with one yielding kind.
func newYieldingConfig(dir string) Config {
	c := newConfig(dir)
	c.Yielding = []string{"app"}
	return c
}

// addLargeEntries adds n entries of about 1 KiB.
func addLargeEntries(r *Recorder, kind string, n int) {
	text := strings.Repeat("x", 900)
	for i := range n {
		r.Add(Entry{Kind: kind, Device: "mlx5_0", Data: map[string]string{"kind": "number", "text": text}})
		if i%1000 == 999 {
			synctest.Wait() // for space in the queue
		}
	}
	synctest.Wait()
}

// numbersOf returns how many records have the numbers from 0 on, in order, and how many have a yielding kind.
func numbersOf(t *testing.T, records []Record) (numbers, apps int) {
	t.Helper()
	for _, r := range records {
		switch r.Kind {
		case "number":
			require.Equal(t, numbers, recordData[number](t, r).N)
			numbers++
		case "app":
			apps++
		}
	}
	return numbers, apps
}

// The flood is five times what the directory has space for.
func TestRecordsThatYieldDisplaceNoOther(t *testing.T) {
	dir := newDir(t)
	const rounds, each = 40, 1000
	var followed []Record
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newYieldingConfig(dir), nil)
		ctx, cancel := context.WithCancel(t.Context())
		f := startFollower(t, ctx, dir, 0)
		for i := range rounds {
			addNumbers(r.Recorder, i, 1)
			addLargeEntries(r.Recorder, "app", each)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			require.LessOrEqual(t, sizeOf(t, dir), int64(MinSizeMiB<<20))
			if i == rounds/2 { // what one run has left is as safe in the next
				require.NoError(t, r.stop())
				r = startRecorder(t, newYieldingConfig(dir), nil)
			}
		}
		require.NoError(t, r.stop())
		require.Zero(t, r.Counts().Lost)
		require.Zero(t, r.Counts().Errors)
		time.Sleep(time.Second)
		cancel()
		require.NoError(t, <-f.done)
		require.Empty(t, f.skipped)
		followed = f.records
	})
	records, skipped := readRecords(t, dir, Filter{})
	require.Empty(t, skipped)
	numbers, apps := numbersOf(t, records)
	require.Equal(t, rounds, numbers)
	require.Greater(t, apps, each, "the newest of them are kept")
	require.Less(t, apps, rounds*each)
	numbers, apps = numbersOf(t, followed)
	require.Equal(t, []int{rounds, rounds * each}, []int{numbers, apps}, "who follows sees all, and each once")
}

func TestTheNewestThatYieldAreKeptWhereOthersNeedAllSpace(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newYieldingConfig(dir), nil)
		addLargeEntries(r.Recorder, "device", 10_000) // more than the directory keeps
		addLargeEntries(r.Recorder, "app", 100)
		require.NoError(t, r.stop())
	})
	records, _ := readRecords(t, dir, Filter{Kinds: []string{"app"}})
	require.Len(t, records, 100)
	require.Greater(t, sizeOf(t, dir), int64(MinSizeMiB-1)<<20)
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newYieldingConfig(dir), nil)
		addLargeEntries(r.Recorder, "device", 10_000)
		require.NoError(t, r.stop())
	})
	records, _ = readRecords(t, dir, Filter{Kinds: []string{"app"}})
	require.Empty(t, records, "they are as old as what else is gone")
}

func TestEntriesThatYieldHaveHalfOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		r := startRecorder(t, newYieldingConfig(newDir(t)), disk.wrap)
		disk.block()
		r.Add(Entry{Kind: "number", Data: number{0}})
		synctest.Wait() // the write hangs
		for range maxQueued {
			r.Add(Entry{Kind: "app"})
		}
		for i := range maxQueued / 2 {
			r.Add(Entry{Kind: "number", Data: number{i + 1}})
		}
		require.EqualValues(t, maxQueued/2, r.Counts().Lost)
		disk.unblock()
		require.NoError(t, r.stop())
		require.EqualValues(t, maxQueued+1, r.Counts().Recorded)
	})
}

// A reader has a segment open while the recorder makes it smaller.
func TestASegmentThatIsMadeSmallerIsReadToItsEndOnce(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newYieldingConfig(dir), nil)
		addNumbers(r.Recorder, 0, 1)
		addLargeEntries(r.Recorder, "app", 5000)
		ctx, cancel := context.WithCancel(t.Context())
		f := startFollower(t, ctx, dir, time.Minute) // after the first record
		synctest.Wait()
		addLargeEntries(r.Recorder, "app", 5000)
		require.NoError(t, r.stop())
		_, first := oldestSegment(t, dir)
		require.True(t, isThinned(first))
		time.Sleep(2 * time.Minute)
		cancel()
		require.NoError(t, <-f.done)
		require.Empty(t, f.skipped)
		numbers, _ := numbersOf(t, f.records)
		require.Equal(t, 1, numbers)
		for i := 1; i < len(f.records); i++ {
			require.Greater(t, f.records[i].Sequence, f.records[i-1].Sequence)
		}
	})
}

func TestWhatIsDamagedStaysWhereASegmentIsMadeSmaller(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newYieldingConfig(dir), 0, 10)
	path, b := oldestSegment(t, dir)
	at := frameEnds(t, b)[4]
	b[at+prefixSize+20] ^= 0xff // the fifth number
	b = append(b, b[headerSize:]...)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	s := newStore(newYieldingConfig(dir), nil)
	require.NoError(t, s.dir.openOrReopen())
	defer s.close()
	require.Equal(t, b[headerSize:], s.withoutYielding(b[headerSize:]))

	s.yielding = []string{"number"}
	left, err := s.thinSegment(&segmentFile{number: 1, size: int64(len(b))})
	require.NoError(t, err)
	require.Less(t, left, int64(len(b)))
	records, skipped := readRecords(t, dir, Filter{})
	require.Equal(t, "start end start end", recordTexts(t, records))
	require.Len(t, skipped, 1)
}

func TestAHalfMadeSegmentIsRemoved(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newYieldingConfig(dir), 0, 1)
	path := filepath.Join(dir, thinName)
	require.NoError(t, os.WriteFile(path, []byte(thinnedMagic), 0o600))
	recordNumbers(t, newYieldingConfig(dir), 1, 1)
	require.NoFileExists(t, path)
	records, skipped := readRecords(t, dir, Filter{})
	require.Equal(t, "start 0 end start 1 end", recordTexts(t, records))
	require.Empty(t, skipped)
}

// oldestSegment returns the path and the content of the oldest segment.
func oldestSegment(t *testing.T, dir string) (path string, content []byte) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	path = filepath.Join(dir, segmentName(segmentsOf(entries)[0].number))
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	return path, content
}
