package recorder

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecordsAreReadAsTheyWereAdded(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		r.Add(Entry{Kind: "event", Device: "mlx5_0", Port: 2, Data: json.RawMessage(`{"event": "port_err <&>"}`)})
		time.Sleep(time.Minute)
		r.Add(Entry{Kind: "devices"})
		require.NoError(t, r.stop())
	})
	records, skipped := readRecords(t, dir, Filter{})
	require.Empty(t, skipped)
	require.Equal(t, "start event devices end", recordTexts(t, records))
	requireNoHoles(t, records)
	event, devices := records[1], records[2]
	require.Equal(t, Record{
		Sequence: 2, Time: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), BootNS: int64(25 * time.Hour), BootID: newConfig("").BootID, Host: "node7",
		Kind: "event", Device: "mlx5_0", Port: 2, Data: json.RawMessage(`{"event":"port_err <&>"}`),
	}, event)
	require.Equal(t, time.Minute, devices.Time.Sub(event.Time))
	require.Nil(t, devices.Data)
}

func TestQuietRecorderTellsThatItRuns(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(dir)
		c.AliveEvery = 10 * time.Minute
		r := startRecorder(t, c, nil)
		time.Sleep(9 * time.Minute)
		addNumbers(r.Recorder, 0, 1)
		time.Sleep(25 * time.Minute)
		require.Equal(t, uint64(1), r.Counts().Recorded)
		require.NoError(t, r.stop())
	})
	records, _ := readRecords(t, dir, Filter{})
	require.Equal(t, "start 0 alive alive end", recordTexts(t, records))
	requireNoHoles(t, records)
	require.Equal(t, int64(10*time.Minute), recordData[Start](t, records[0]).AliveNS)
	require.Equal(t, Alive{AliveNS: int64(10 * time.Minute)}, recordData[Alive](t, records[2]))
	require.Equal(t, 10*time.Minute, records[2].Time.Sub(records[1].Time))
	require.Equal(t, 10*time.Minute, records[3].Time.Sub(records[2].Time))
}

func TestStartSaysHowTheRunBeforeEnded(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 3)
	killed := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		addNumbers(r.Recorder, 3, 1)
		synctest.Wait()
		copyDir(t, dir, killed)
		require.NoError(t, r.stop())
	})
	path, b := newestSegment(t, killed)
	require.NoError(t, os.WriteFile(path, append(b, b[headerSize:headerSize+20]...), 0o600))
	recordNumbers(t, newConfig(killed), 4, 0)

	records, _ := readRecords(t, killed, Filter{})
	require.Equal(t, "start 0 1 2 end start 3 start end", recordTexts(t, records))
	requireNoHoles(t, records)
	require.Equal(t, Start{}, recordData[Start](t, records[0]))
	require.Equal(t, Start{Clean: true, LastSequence: 5, LastTime: records[4].Time, LastBootID: newConfig("").BootID}, recordData[Start](t, records[5]))
	require.Equal(t, Start{LastSequence: 7, LastTime: records[6].Time, LastBootID: newConfig("").BootID, CutBytes: 20}, recordData[Start](t, records[7]))
}

func TestEveryAddEndsInRecordedOrLost(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		r := startRecorder(t, newConfig(dir), disk.wrap)
		disk.block()
		r.Add(Entry{Kind: "first"})
		synctest.Wait() // the write hangs
		for range maxQueued + 100 {
			r.Add(Entry{Kind: "queued"})
		}
		require.Equal(t, Counts{Lost: 100, Synced: 1}, r.Counts())
		disk.unblock()
		synctest.Wait()
		r.Add(Entry{Kind: "last"})
		require.NoError(t, r.stop())
		r.Add(Entry{Kind: "late"})
		require.Equal(t, uint64(maxQueued+2), r.Counts().Recorded)
		require.Equal(t, uint64(101), r.Counts().Lost)
		require.Zero(t, r.Counts().Errors)
	})
	records, _ := readRecords(t, dir, Filter{})
	requireNoHoles(t, records)
	lost, _ := readRecords(t, dir, Filter{Kinds: []string{KindLost}})
	require.Len(t, lost, 1)
	require.Equal(t, Lost{Count: 100, Since: records[1].Time}, recordData[Lost](t, lost[0]))
	require.Equal(t, "lost last end", recordTexts(t, records[len(records)-3:]))
}

func TestConcurrentAddsAreAllCounted(t *testing.T) {
	dir := newDir(t)
	const callers, each = 8, 2000
	var counts Counts
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for i := range each {
					r.Add(Entry{Kind: "number", Data: number{i}})
					_ = r.Counts()
				}
			})
		}
		wg.Wait()
		require.NoError(t, r.stop())
		counts = r.Counts()
	})
	require.Equal(t, uint64(callers*each), counts.Recorded+counts.Lost)
	records, _ := readRecords(t, dir, Filter{})
	requireNoHoles(t, records)
	var numbers, lost uint64
	for i, one := range records {
		switch one.Kind {
		case "number":
			numbers++
		case KindLost:
			lost += recordData[Lost](t, one).Count
		}
		require.True(t, i == 0 || records[i-1].BootNS <= one.BootNS)
	}
	require.Equal(t, counts.Recorded, numbers)
	require.Equal(t, counts.Lost, lost)
}

func TestEntryThatCannotBeEncodedIsLost(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		r.Add(Entry{Kind: "number", Data: number{1}})
		r.Add(Entry{Kind: "ratio", Data: map[string]float64{"x": math.NaN()}})
		r.Add(Entry{Kind: "large", Data: map[string]string{"x": strings.Repeat("y", maxContent)}})
		r.Add(Entry{Kind: strings.Repeat("z", maxContent)})
		r.Add(Entry{Kind: "number", Data: number{2}})
		require.NoError(t, r.stop())
		require.Equal(t, Counts{Recorded: 2, Errors: 3, Lost: 3, Synced: 7}, r.Counts())
	})
	records, _ := readRecords(t, dir, Filter{})
	require.Equal(t, "start 1 lost lost lost 2 end", recordTexts(t, records))
	require.Contains(t, recordData[Lost](t, records[2]).Error, "encode record of kind ratio: json: unsupported value")
	require.Contains(t, recordData[Lost](t, records[3]).Error, "encode record of kind large: a record has 262144 bytes at most")
}

func TestStepOfTheClockIsRecorded(t *testing.T) {
	dir := newDir(t)
	c := newConfig(dir)
	var shift atomic.Int64
	c.Clock = func() (int64, int64) { wall, boot := fakeClocks(); return wall + shift.Load(), boot }
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, c, nil)
		for _, by := range []time.Duration{0, time.Duration(minClockStep - 1), 2 * time.Hour, time.Hour, time.Hour} {
			shift.Store(int64(by))
			r.Add(Entry{Kind: by.String()})
		}
		require.NoError(t, r.stop())
	})
	shift.Store(0) // between two runs of a boot
	recordNumbers(t, c, 0, 0)
	c.BootID = "5e0b8c1e-0c57-4a2d-8a3c-000000000002"
	shift.Store(-int64(time.Hour)) // before another boot
	recordNumbers(t, c, 0, 0)
	records, _ := readRecords(t, dir, Filter{})
	require.Equal(t, "start 0s 99.999999ms clock 2h0m0s clock 1h0m0s 1h0m0s end clock start end start end", recordTexts(t, records))
	require.Equal(t, Clock{StepNS: int64(2*time.Hour) - minClockStep + 1}, recordData[Clock](t, records[3]))
	require.Equal(t, Clock{StepNS: -int64(time.Hour)}, recordData[Clock](t, records[5]))
	requireNoHoles(t, records)
}

func TestRecordIsSyncedWithinASecondOrAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		r := startRecorder(t, newConfig(newDir(t)), disk.wrap)
		base := disk.syncs.Load()
		r.Add(Entry{Kind: "event"})
		time.Sleep(syncInterval - 1)
		r.Add(Entry{Kind: "event"})
		synctest.Wait()
		require.Equal(t, base, disk.syncs.Load())
		require.Equal(t, uint64(1), r.Counts().Synced)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, base+1, disk.syncs.Load())
		require.Equal(t, uint64(3), r.Counts().Synced)
		r.Add(Entry{Kind: "port_err", Sync: true})
		synctest.Wait()
		require.Equal(t, base+2, disk.syncs.Load())
		require.Equal(t, uint64(4), r.Counts().Synced)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, base+2, disk.syncs.Load()) // nothing is left to be synced
		require.NoError(t, r.stop())
	})
}

func TestRotationKeepsTheBound(t *testing.T) {
	dir := newDir(t)
	const n = 80_000
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		for i := 0; i < n; i += 2000 {
			addNumbers(r.Recorder, i, 2000)
			synctest.Wait()
			require.LessOrEqual(t, sizeOf(t, dir), int64(MinSizeMiB<<20))
		}
		require.NoError(t, r.stop())
		require.Zero(t, r.Counts().Lost)
	})
	require.Greater(t, sizeOf(t, dir), int64(MinSizeMiB-1)<<20)
	records, skipped := readRecords(t, dir, Filter{})
	require.Empty(t, skipped)
	requireNoHoles(t, records)
	require.Equal(t, uint64(n+2), records[len(records)-1].Sequence)
	require.Equal(t, "end", recordText(t, records[len(records)-1]))

	larger := newConfig(dir)
	larger.SizeMiB = 2 * MinSizeMiB
	recordNumbers(t, larger, n, 60_000)
	require.Greater(t, sizeOf(t, dir), int64(MinSizeMiB<<20))
	recordNumbers(t, newConfig(dir), 0, 1) // smaller again
	require.LessOrEqual(t, sizeOf(t, dir), int64(MinSizeMiB<<20))
	records, _ = readRecords(t, dir, Filter{})
	requireNoHoles(t, records)
	require.Equal(t, "end start 0 end", recordTexts(t, records[len(records)-4:]))
}

// sizeOf returns how many bytes a directory has.
func sizeOf(t *testing.T, dir string) (total int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode(), e.Name())
		total += info.Size()
	}
	return total
}

// TestSecondRecorderOfADirectoryIsRefused also lets the first one end: the second one takes the directory over then.
func TestSecondRecorderOfADirectoryIsRefused(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newConfig(dir)
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		first := startRecorder(t, newConfig(dir), nil)
		second := startRecorder(t, c, nil)
		addNumbers(second.Recorder, 0, 2)
		time.Sleep(10 * retryInterval)
		synctest.Wait()
		require.Equal(t, Counts{Errors: 11}, second.Counts())
		require.NoError(t, first.stop())
		time.Sleep(retryInterval)
		synctest.Wait()
		require.Equal(t, Counts{Recorded: 2, Errors: 11, Synced: 3}, second.Counts())
		require.NoError(t, second.stop())
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.Contains(t, log.String(), "msg=\"recorder: nothing is recorded\" retry_in=1m0s "+
			"error=\"open directory "+dir+": another process records in it: end that process, or give this one a directory of its own\"\n")
		require.Equal(t, 1, strings.Count(log.String(), "recorder: writing again"), log.String())
	})
	records, skipped := readRecords(t, dir, Filter{})
	require.Empty(t, skipped)
	require.Equal(t, "start end start 0 1 end", recordTexts(t, records))
	requireNoHoles(t, records)
}

func TestRecorderThatNeverHasTheDirectorySaysWhatIsLost(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		first := startRecorder(t, newConfig(dir), nil)
		second := startRecorder(t, newConfig(dir), nil)
		addNumbers(second.Recorder, 0, 2)
		err := second.stop()
		require.ErrorIs(t, err, ErrLocked)
		require.ErrorContains(t, err, "close recorder in "+dir+": 2 records are lost: ")
		require.Equal(t, uint64(2), second.Counts().Lost)
		require.NoError(t, first.stop())
	})
	recordNumbers(t, newConfig(dir), 0, 1)
}

// TestUnusableDirectoryIsRefused also corrects the directory: it is used then.
func TestUnusableDirectoryIsRefused(t *testing.T) {
	top := t.TempDir()
	file := filepath.Join(top, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	shared := filepath.Join(top, "shared")
	require.NoError(t, os.Mkdir(shared, 0o700))
	require.NoError(t, os.Chmod(shared, 0o770))
	for _, tt := range []struct {
		name, dir, want string
		correct         func() error
	}{
		{
			"another user may write", shared, "its group or others may write to it (mode 0770): chmod go-w",
			func() error { return os.Chmod(shared, 0o700) },
		},
		{"no directory", file, "not a directory", func() error { return os.Remove(file) }},
		{
			"nothing above it", filepath.Join(top, "a/b"), "no such file or directory",
			func() error { return os.Mkdir(filepath.Join(top, "a"), 0o700) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				c := newConfig(tt.dir)
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
				r := startRecorder(t, c, nil)
				addNumbers(r.Recorder, 0, 1)
				time.Sleep(2 * retryInterval)
				synctest.Wait()
				require.Equal(t, Counts{Errors: 3}, r.Counts())
				require.NoError(t, tt.correct())
				time.Sleep(retryInterval)
				synctest.Wait()
				require.Equal(t, uint64(1), r.Counts().Recorded)
				require.NoError(t, r.stop())
				require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
				require.Contains(t, log.String(), "open directory "+tt.dir+": ")
				require.Contains(t, log.String(), tt.want)
			})
			records, _ := readRecords(t, tt.dir, Filter{})
			require.Equal(t, "start 0 end", recordTexts(t, records))
		})
	}
}

func TestOpenChecksTheConfigurationAndLeavesTheDiskAlone(t *testing.T) {
	top := t.TempDir()
	_, err := Open(newConfig(""))
	require.EqualError(t, err, "open recorder: no directory")
	c := newConfig(filepath.Join(top, "new"))
	for _, size := range []int{-1, MinSizeMiB - 1, MaxSizeMiB + 1} {
		c.SizeMiB = size
		_, err := Open(c)
		require.ErrorContains(t, err, "is not between 8 and 1024")
	}
	c.SizeMiB = 0
	r, err := Open(c)
	require.NoError(t, err)
	require.NoDirExists(t, c.Directory)
	require.NoError(t, closeNow(r))
	require.DirExists(t, c.Directory)
}

func TestMissingDirectoryIsMadeForItsUserAlone(t *testing.T) {
	dir := newDir(t)
	recordNumbers(t, newConfig(dir), 0, 0)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o700, info.Mode())
	sizeOf(t, dir) // requires the modes of the files
}

func TestRemovedDirectoryIsMadeAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		remove func(dir string) error
	}{
		{"the directory", os.RemoveAll},
		{"the segment", func(dir string) error { return os.Remove(filepath.Join(dir, segmentName(1))) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := newDir(t)
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				c := newConfig(dir)
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
				r := startRecorder(t, c, nil)
				require.NoError(t, tt.remove(dir))
				r.Add(Entry{Kind: "gone", Sync: true})
				synctest.Wait()
				require.Equal(t, Counts{Recorded: 1, Errors: 1, Lost: 1, Synced: 1}, r.Counts())
				r.Add(Entry{Kind: "kept"})
				time.Sleep(syncInterval) // it does not wait for retryInterval
				synctest.Wait()
				require.Equal(t, Counts{Recorded: 2, Errors: 1, Lost: 1, Synced: 4}, r.Counts())
				require.ErrorIs(t, startRecorder(t, newConfig(dir), nil).stop(), ErrLocked)
				require.NoError(t, r.stop())
				require.Contains(t, log.String(), "the file was removed")
				require.Contains(t, log.String(), "recorder: writing again")
			})
			records, _ := readRecords(t, dir, Filter{})
			require.Equal(t, "lost kept end", recordTexts(t, records))
			require.Equal(t, uint64(3), records[0].Sequence, "none is given twice")
			lost := recordData[Lost](t, records[0])
			require.Equal(t, uint64(1), lost.Count)
			require.Contains(t, lost.Error, "the file was removed")
		})
	}
}

func TestSegmentThatIsRemovedBeforeTheEndIsBegunAgain(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		addNumbers(r.Recorder, 0, 3)
		synctest.Wait()
		require.NoError(t, os.Remove(filepath.Join(dir, segmentName(1))))
		require.NoError(t, r.stop())
		require.Equal(t, uint64(3), r.Counts().Lost)
	})
	records, _ := readRecords(t, dir, Filter{})
	require.Equal(t, "lost end", recordTexts(t, records))
	require.Equal(t, uint64(3), recordData[Lost](t, records[0]).Count)
}

func TestSegmentThatIsRemovedWhileTheDiskFailsIsCounted(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		r := startRecorder(t, newConfig(dir), disk.wrap)
		addNumbers(r.Recorder, 0, 3)
		synctest.Wait()
		disk.fail(0, syscall.ENOSPC)
		addNumbers(r.Recorder, 3, 1)
		synctest.Wait()
		require.NoError(t, os.Remove(filepath.Join(dir, segmentName(1))))
		disk.fail(0, nil)
		time.Sleep(retryInterval)
		synctest.Wait()
		require.NoError(t, r.stop())
		require.Equal(t, uint64(4), r.Counts().Recorded)
		require.Equal(t, uint64(3), r.Counts().Lost)
	})
	records, _ := readRecords(t, dir, Filter{})
	require.Equal(t, "lost 3 end", recordTexts(t, records))
	require.Equal(t, uint64(3), recordData[Lost](t, records[0]).Count)
}
