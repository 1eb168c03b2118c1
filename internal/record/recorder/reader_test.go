package recorder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFilterSelectsByTimeDeviceAndKind(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		for _, device := range []string{"mlx5_0", "mlx5_1", ""} {
			for _, kind := range []string{"event", "evidence"} {
				time.Sleep(time.Minute)
				r.Add(Entry{Kind: kind, Device: device})
			}
		}
		require.NoError(t, r.stop())
	})
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		filter Filter
		want   []uint64 // sequences
	}{
		{"all", Filter{}, []uint64{1, 2, 3, 4, 5, 6, 7, 8}},
		{"since a record", Filter{Since: began.Add(5 * time.Minute)}, []uint64{6, 7, 8}},
		{"since after a record", Filter{Since: began.Add(5*time.Minute + 1)}, []uint64{7, 8}},
		{"a device, and what concerns the host", Filter{Device: "mlx5_1"}, []uint64{1, 4, 5, 6, 7, 8}},
		{"a kind", Filter{Kinds: []string{"event"}}, []uint64{2, 4, 6}},
		{"two kinds of a device", Filter{Device: "mlx5_0", Kinds: []string{"event", KindEnd}}, []uint64{2, 6, 8}},
		{"no kind", Filter{Kinds: []string{}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			records, skipped := readRecords(t, dir, tt.filter)
			require.Empty(t, skipped)
			var got []uint64
			for _, one := range records {
				got = append(got, one.Sequence)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestOtherDirectoryIsNotRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1.seg"), nil, 0o600))
	_, err := NewReader(dir, Filter{}, nil)
	require.ErrorIs(t, err, ErrNotRecorder)
	require.EqualError(t, err, "read records of "+dir+": not a recorder's directory: it has no file 0000000001.seg")
	_, err = NewReader(filepath.Join(dir, "none"), Filter{}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, lockName), nil, 0o600))
	records, skipped := readRecords(t, dir, Filter{})
	require.Empty(t, records)
	require.Empty(t, skipped)
}

func TestUnreadableSegmentIsSkipped(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 20_000)
	path := filepath.Join(dir, segmentName(2))
	require.NoError(t, os.Truncate(path, 1<<18))
	require.NoError(t, os.Remove(filepath.Join(dir, segmentName(4))))
	records, skipped := readRecords(t, dir, Filter{})
	require.Len(t, skipped, 2)
	require.Regexp(t, `^0000000002\.seg: \d+ bytes skipped in 1 places: they are damaged$`, skipped[0])
	require.Equal(t, "0000000005.seg: earlier segments were removed before they were read", skipped[1])
	require.Equal(t, "end", recordText(t, records[len(records)-1]))
}

// The recorder appends records while somebody reads the output.
func TestRecordsThatAreAppendedMeanwhileAreNoDamage(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 10)
	path, whole := newestSegment(t, dir)
	end := headerSize
	for content := frameAt(whole[end:]); end+prefixSize+len(content) < len(whole); content = frameAt(whole[end:]) {
		end += prefixSize + len(content)
	}
	require.NoError(t, os.Truncate(path, int64(end)))
	var skipped []Skip
	r, err := NewReader(dir, Filter{}, func(s Skip) { skipped = append(skipped, s) })
	require.NoError(t, err)
	read := 0
	for _, err := range r.Records() {
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, whole, 0o600))
		read++
	}
	require.Empty(t, skipped)
	all, _ := readRecords(t, dir, Filter{})
	require.Len(t, all, read+1)
}

// follower collects what Follow yields.
type follower struct {
	records []Record
	skipped []Skip
	pause   time.Duration // after the first record
	done    chan error
}

func startFollower(t *testing.T, ctx context.Context, dir string, pause time.Duration) *follower {
	t.Helper()
	f := &follower{pause: pause, done: make(chan error, 1)}
	r, err := NewReader(dir, Filter{}, func(s Skip) { f.skipped = append(f.skipped, s) })
	require.NoError(t, err)
	go func() {
		var last error
		for one, err := range r.Follow(ctx, 100*time.Millisecond) {
			if err != nil {
				last = err
				continue
			}
			f.records = append(f.records, one)
			if len(f.records) == 1 {
				time.Sleep(f.pause)
			}
		}
		f.done <- last
	}()
	return f
}

func TestFollowedRecordsComeOnceAndInOrder(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 2)
	const n = 60_000 // more than the directory keeps
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := startRecorder(t, newConfig(dir), nil)
		f := startFollower(t, ctx, dir, 0)
		for i := 2; i < n; i += 2000 {
			addNumbers(r.Recorder, i, 2000)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		require.NoError(t, r.stop())
		again := startRecorder(t, newConfig(dir), nil)
		require.NoError(t, again.stop())
		time.Sleep(time.Second)
		cancel()
		require.NoError(t, <-f.done)
		require.Empty(t, f.skipped)
		requireNoHoles(t, f.records)
		require.Equal(t, uint64(1), f.records[0].Sequence)
		require.Equal(t, "end start end", recordTexts(t, f.records[len(f.records)-3:]))
		require.GreaterOrEqual(t, len(f.records), n)
	})
	kept, _ := readRecords(t, dir, Filter{})
	require.Less(t, len(kept), n)
}

func TestFollowerThatIsTooSlowSaysSo(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := startRecorder(t, newConfig(dir), nil)
		f := startFollower(t, ctx, dir, time.Hour)
		for i := 0; i < 80_000; i += 2000 {
			addNumbers(r.Recorder, i, 2000)
			synctest.Wait()
		}
		require.NoError(t, r.stop())
		time.Sleep(2 * time.Hour)
		cancel()
		require.NoError(t, <-f.done)
		require.Len(t, f.skipped, 1)
		require.ErrorIs(t, f.skipped[0].Err, ErrOverwritten)
		holes := 0
		for i := 1; i < len(f.records); i++ {
			require.Greater(t, f.records[i].Sequence, f.records[i-1].Sequence)
			if f.records[i].Sequence > f.records[i-1].Sequence+1 {
				holes++
			}
		}
		require.Equal(t, 1, holes)
		require.Equal(t, "end", recordText(t, f.records[len(f.records)-1]))
	})
}

func TestHalfWrittenRecordIsFollowedWhenItIsWhole(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 3)
	path, b := newestSegment(t, dir)
	ends := frameEnds(t, b)
	for size := ends[2]; size < ends[3]; size++ {
		require.NoError(t, os.WriteFile(path, b[:size], 0o600))
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			f := startFollower(t, ctx, dir, 0)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, "start 0 1", recordTexts(t, f.records))
			require.NoError(t, os.WriteFile(path, b, 0o600))
			time.Sleep(time.Second)
			cancel()
			require.NoError(t, <-f.done)
			require.Equal(t, "start 0 1 2 end", recordTexts(t, f.records))
			require.Empty(t, f.skipped)
		})
	}
}

func TestFollowEndsWithItsDirectoryAndWithItsCaller(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 3)
	synctest.Test(t, func(t *testing.T) {
		f := startFollower(t, t.Context(), dir, 0)
		time.Sleep(time.Second)
		require.NoError(t, os.RemoveAll(dir))
		require.ErrorIs(t, <-f.done, os.ErrNotExist)
	})
	recordNumbers(t, newConfig(dir), 0, 3)
	r, err := NewReader(dir, Filter{}, nil)
	require.NoError(t, err)
	for range r.Follow(t.Context(), time.Hour) {
		break
	}
	for range r.Records() {
		break
	}
}

func TestDirectoryThatIsBegunAgainIsFollowed(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after int // records
	}{
		{"it had later segments", 10_000, 1},
		{"it had the same segment, shorter", 3, 500},
		{"it had the same segment, longer", 500, 3},
		{"it has later segments", 3, 10_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := newDir(t)
			recordNumbers(t, newConfig(dir), 0, tt.before)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				f := startFollower(t, ctx, dir, 0)
				time.Sleep(time.Second)
				synctest.Wait()
				before := len(f.records)
				entries, err := os.ReadDir(dir)
				require.NoError(t, err)
				for _, e := range entries {
					require.NoError(t, os.Remove(filepath.Join(dir, e.Name())))
				}
				r := startRecorder(t, newConfig(dir), nil)
				addNumbers(r.Recorder, 0, tt.after)
				require.NoError(t, r.stop())
				time.Sleep(time.Second)
				cancel()
				require.NoError(t, <-f.done)
				require.Equal(t, []Skip{{Segment: segmentName(1), Err: ErrReplaced}}, f.skipped)
				require.Len(t, f.records, before+tt.after+2)
				require.Equal(t, uint64(1), f.records[before].Sequence)
				requireNoHoles(t, f.records[before:])
			})
		})
	}
}

func ExampleSkip() {
	fmt.Println(Skip{Segment: "0000000007.seg", Bytes: 312, Places: 2})
	fmt.Println(Skip{Segment: "0000000009.seg", Err: ErrOverwritten})
	// Output:
	// 0000000007.seg: 312 bytes skipped in 2 places: they are damaged
	// 0000000009.seg: earlier segments were removed before they were read
}

func TestFilesOfLongBeforeAreNotRead(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 40000) // more than a segment
	old, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	require.Greater(t, len(old), 1)
	first := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
	require.NoError(t, os.Chtimes(old[0], first, first))
	require.NoError(t, os.WriteFile(old[0]+".copy", nil, 0o600)) // no segment
	all, skipped := readRecords(t, dir, Filter{})
	require.Empty(t, skipped)
	later, skipped := readRecords(t, dir, Filter{Since: first.Add(2 * time.Hour)})
	require.Empty(t, skipped, "what was not read is not missing")
	require.NotEmpty(t, later)
	require.Less(t, len(later), len(all))
	n := 0
	ended, _ := readRecords(t, dir, Filter{Ended: func() bool { n++; return n > 10 }})
	require.Len(t, ended, 10)
}
