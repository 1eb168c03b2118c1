package recorder

import (
	"bytes"
	"log/slog"
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
	"golang.org/x/sys/unix"

	"rdma_events/tests/prerequisite"
)

// disk is what lies between a writer and its files. It counts, fails and blocks.
type disk struct {
	syncs, failed atomic.Int64

	mu    sync.Mutex
	space int   // bytes that can be written before err
	err   error // of a sync, and of a write beyond space; nil: none
	hold  chan struct{}
}

func newDisk() *disk { return new(disk) }

func (d *disk) wrap(f file) file { return &diskFile{f, d} }

// block makes writes and syncs wait until unblock.
func (d *disk) block()   { d.mu.Lock(); d.hold = make(chan struct{}); d.mu.Unlock() }
func (d *disk) unblock() { d.mu.Lock(); close(d.hold); d.hold = nil; d.mu.Unlock() }

// fail makes writes fail after so many bytes, and syncs at once; nil: they work again.
func (d *disk) fail(space int, err error) { d.mu.Lock(); d.space, d.err = space, err; d.mu.Unlock() }

func (d *disk) wait() (space int, err error) {
	d.mu.Lock()
	hold := d.hold
	d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.space, d.err
}

type diskFile struct {
	file
	d *disk
}

func (f *diskFile) Write(b []byte) (int, error) {
	space, err := f.d.wait()
	if err == nil {
		return f.file.Write(b)
	}
	if len(b) <= space { // the writer may write the entries in several pieces
		f.d.fail(space-len(b), err)
		return f.file.Write(b)
	}
	n, _ := f.file.Write(b[:space])
	f.d.fail(0, err)
	f.d.failed.Add(1)
	return n, err
}

func (f *diskFile) Sync() error {
	_, err := f.d.wait()
	if err != nil {
		return err
	}
	f.d.syncs.Add(1)
	return nil
}

func TestPartialWriteIsCutToTheLastWholeFrame(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newConfig(dir)
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		disk := newDisk()
		r := startRecorder(t, c, disk.wrap)
		_, before := newestSegment(t, dir)
		first := addAndMeasure(t, r, dir)
		disk.fail(2*first+first/2, syscall.ENOSPC) // two and a half of them
		addNumbers(r.Recorder, 1, 5)
		synctest.Wait()
		_, b := newestSegment(t, dir)
		require.Len(t, b, len(before)+3*first)
		require.Equal(t, Counts{Recorded: 3, Errors: 1, Synced: 1}, r.Counts())

		time.Sleep(10 * retryInterval)
		synctest.Wait()
		require.Equal(t, int64(11), disk.failed.Load())
		addNumbers(r.Recorder, 6, 1) // waits in the queue
		disk.fail(0, nil)
		time.Sleep(retryInterval)
		synctest.Wait()
		require.Equal(t, Counts{Recorded: 7, Errors: 11, Synced: 1}, r.Counts())
		time.Sleep(syncInterval)
		synctest.Wait()
		require.Equal(t, uint64(8), r.Counts().Synced)
		require.NoError(t, r.stop())
		require.Equal(t, 1, strings.Count(log.String(), "recorder: write failed"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "recorder: writing again"), log.String())
		require.Contains(t, log.String(), "no space left on device")
	})
	records, skipped := readRecords(t, dir, Filter{})
	require.Empty(t, skipped)
	require.Equal(t, "start 0 1 2 3 4 5 6 end", recordTexts(t, records))
	requireNoHoles(t, records)
}

// addAndMeasure adds a number, and returns the size of its frame.
func addAndMeasure(t *testing.T, r run, dir string) int {
	t.Helper()
	_, before := newestSegment(t, dir)
	addNumbers(r.Recorder, 0, 1)
	synctest.Wait()
	_, after := newestSegment(t, dir)
	return len(after) - len(before)
}

func TestWhatIsLostWhileTheDiskFailsIsCounted(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		r := startRecorder(t, newConfig(dir), disk.wrap)
		disk.fail(0, syscall.EIO)
		addNumbers(r.Recorder, 0, 1)
		synctest.Wait()
		time.Sleep(time.Second)
		addNumbers(r.Recorder, 1, maxQueued+7)
		require.Equal(t, Counts{Errors: 1, Lost: 7, Synced: 1}, r.Counts())
		disk.fail(0, nil)
		time.Sleep(retryInterval)
		synctest.Wait()
		require.Equal(t, uint64(maxQueued+1), r.Counts().Recorded)
		require.NoError(t, r.stop())
	})
	records, _ := readRecords(t, dir, Filter{})
	requireNoHoles(t, records)
	require.Equal(t, "4095 4096 lost end", recordTexts(t, records[len(records)-4:]))
	lost := recordData[Lost](t, records[len(records)-2])
	require.Equal(t, uint64(7), lost.Count)
	require.Equal(t, time.Second, lost.Since.Sub(records[0].Time))
	require.Contains(t, lost.Error, "input/output error")
}

func TestFailedSyncIsTriedAgain(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		r := startRecorder(t, newConfig(dir), disk.wrap)
		disk.fail(1<<20, syscall.EIO)
		r.Add(Entry{Kind: "port_err", Sync: true})
		synctest.Wait()
		require.Equal(t, Counts{Recorded: 1, Errors: 1, Lost: 1, Synced: 1}, r.Counts())
		disk.fail(0, nil)
		time.Sleep(retryInterval + syncInterval)
		synctest.Wait()
		require.Equal(t, Counts{Recorded: 1, Errors: 1, Lost: 1, Synced: 3}, r.Counts())
		require.NoError(t, r.stop())
		require.Equal(t, Counts{Recorded: 1, Errors: 1, Lost: 1, Synced: 4}, r.Counts())
	})
	records, _ := readRecords(t, dir, Filter{})
	require.Equal(t, "start port_err lost end", recordTexts(t, records))
	lost := recordData[Lost](t, records[2])
	require.Equal(t, Lost{Count: 1, Since: records[1].Time, Error: "sync segment: input/output error"}, lost)
}

func TestRunEndsInTimeWhateverTheDiskDoes(t *testing.T) {
	t.Run("it hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			disk := newDisk()
			dir := newDir(t)
			r := startRecorder(t, withDefaultCloseTime(newConfig(dir)), disk.wrap)
			disk.block()
			addNumbers(r.Recorder, 0, 1)
			synctest.Wait()
			addNumbers(r.Recorder, 1, 9)
			began := time.Now()
			err := r.stop()
			require.EqualError(t, err, "close recorder in "+dir+": the disk did not answer within 200ms")
			require.Equal(t, defaultCloseTime, time.Since(began))
			require.Equal(t, Counts{Lost: 9, Synced: 1}, r.Counts())
			disk.unblock()
			synctest.Wait() // the goroutine ends, and releases the lock
			require.Equal(t, uint64(1), r.Counts().Recorded)
			next, err := Open(newConfig(dir))
			require.NoError(t, err)
			require.NoError(t, closeNow(next))
		})
	})
	t.Run("it hangs from the start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			disk := newDisk()
			disk.block()
			dir := newDir(t)
			r := startRecorder(t, withDefaultCloseTime(newConfig(dir)), disk.wrap)
			addNumbers(r.Recorder, 0, 3)
			began := time.Now()
			require.EqualError(t, r.stop(), "close recorder in "+dir+": the disk did not answer within 200ms")
			require.Equal(t, defaultCloseTime, time.Since(began))
			require.Equal(t, Counts{Lost: 3}, r.Counts())
			disk.unblock()
			synctest.Wait() // the goroutine ends, and releases the lock
			require.NoError(t, startRecorder(t, newConfig(dir), nil).stop())
		})
	})
	t.Run("it fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			disk := newDisk()
			dir := newDir(t)
			r := startRecorder(t, withDefaultCloseTime(newConfig(dir)), disk.wrap)
			disk.fail(0, syscall.ENOSPC)
			addNumbers(r.Recorder, 0, 10)
			require.EqualError(t, r.stop(), "close recorder in "+dir+": 10 records are lost: write segment: no space left on device")
			require.Equal(t, uint64(10), r.Counts().Lost)
		})
	})
	t.Run("it is slow", func(t *testing.T) {
		dir := newDir(t)
		synctest.Test(t, func(t *testing.T) {
			r := startRecorder(t, withDefaultCloseTime(newConfig(dir)), func(f file) file { return slowFile{f} })
			for range 1000 {
				r.Add(Entry{Kind: "large", Data: map[string]string{"x": strings.Repeat("y", 2*chunk)}})
			}
			began := time.Now()
			require.ErrorContains(t, r.stop(), "the disk is too slow to write them within 150ms")
			require.LessOrEqual(t, time.Since(began), defaultCloseTime)
			require.Equal(t, uint64(1000), r.Counts().Recorded+r.Counts().Lost)
			require.NotZero(t, r.Counts().Recorded)
			records, _ := readRecords(t, dir, Filter{})
			require.Equal(t, "lost end", recordTexts(t, records[len(records)-2:]))
			require.Equal(t, r.Counts().Lost, recordData[Lost](t, records[len(records)-2]).Count)
		})
	})
}

// slowFile takes 10 ms for a write.
type slowFile struct{ file }

func (f slowFile) Write(b []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return f.file.Write(b)
}

// mountTmpfs mounts a file system of a size in MiB, or skips the test.
func mountTmpfs(t *testing.T, size string) string {
	t.Helper()
	const reason = "not root with CAP_SYS_ADMIN: a file system has to be mounted"
	prerequisite.RequireRoot(t, reason)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		prerequisite.Missing(t, prerequisite.Root, reason+": "+err.Error())
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

func TestRecorderRecoversOnAFullFileSystem(t *testing.T) {
	top := mountTmpfs(t, "1m")
	dir, ballast := filepath.Join(top, "records"), filepath.Join(top, "ballast")
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
		addNumbers(r.Recorder, 0, 500) // beyond the pages that the segment has
		synctest.Wait()
		counts := r.Counts()
		require.Equal(t, uint64(1), counts.Errors)
		require.Less(t, counts.Recorded, uint64(500))
		records, skipped := readRecords(t, dir, Filter{})
		require.Empty(t, skipped) // cut to the last whole frame
		require.Len(t, records, int(counts.Recorded)+1)
		require.NoError(t, os.Remove(ballast))
		time.Sleep(retryInterval)
		synctest.Wait()
		require.Equal(t, uint64(500), r.Counts().Recorded)
		require.NoError(t, r.stop())
		require.Zero(t, r.Counts().Lost)
	})
	records, _ := readRecords(t, dir, Filter{})
	requireNoHoles(t, records)
	require.Len(t, records, 502)
}

func TestRecorderRecoversFromAReadOnlyFileSystem(t *testing.T) {
	top := mountTmpfs(t, "4m")
	dir := filepath.Join(top, "records")
	recordNumbers(t, newConfig(dir), 0, 3)
	require.NoError(t, unix.Mount("", top, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	synctest.Test(t, func(t *testing.T) {
		r := startRecorder(t, newConfig(dir), nil)
		require.Equal(t, Counts{Errors: 1}, r.Counts())
		addNumbers(r.Recorder, 3, 2)
		time.Sleep(retryInterval)
		synctest.Wait()
		require.Equal(t, Counts{Errors: 2}, r.Counts())
		require.NoError(t, unix.Mount("", top, "", unix.MS_REMOUNT, ""))
		time.Sleep(retryInterval)
		synctest.Wait()
		require.Equal(t, uint64(2), r.Counts().Recorded)
		require.NoError(t, r.stop())
	})
	records, _ := readRecords(t, dir, Filter{})
	require.Equal(t, "start 0 1 2 end start 3 4 end", recordTexts(t, records))
	require.True(t, recordData[Start](t, records[5]).Clean)
}
