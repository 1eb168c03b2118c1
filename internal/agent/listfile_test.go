package agent

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/sys/filestate"
)

// watchedList is a list file that is watched on the fake clock of a synctest bubble.
type watchedList struct {
	*listFile
	t *testing.T

	mu   sync.Mutex
	text bytes.Buffer // of the log
	sets []int        // the number of hosts of each list that was set
}

// Write implements io.Writer for the log.
func (w *watchedList) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func newWatchedList(t *testing.T, text string) *watchedList {
	t.Helper()
	w := &watchedList{t: t}
	w.listFile = &listFile{path: filepath.Join(t.TempDir(), "peers"), host: "a", log: slog.New(slog.NewTextHandler(w, nil))}
	w.write(text)
	return w
}

func (w *watchedList) write(text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(w.path, []byte(text), 0o600))
}

// start watches the file until the returned function is called. It returns between two reads.
func (w *watchedList) start() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.watch(ctx, func(l *pinglist.List) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sets = append(w.sets, l.Len())
		})
	}()
	time.Sleep(listSettled / 4)
	return func() {
		cancel()
		<-done
	}
}

// results returns the number of hosts of each list that was set so far, and the warnings.
func (w *watchedList) results() (sets []int, warnings []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.text.String()) {
		if strings.Contains(line, "level=WARN") {
			warnings = append(warnings, line)
		}
	}
	return slices.Clone(w.sets), warnings
}

const (
	twoListed   = "a g1\nb g1\n"
	threeListed = "a g1\nb g1\nc g12\n"
)

func TestWatchKeepsListWhileFileIsEmpty(t *testing.T) {
	for name, text := range map[string]string{"no byte": "", "comments": "# host group\n\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatchedList(t, twoListed)
				_, err := w.open()
				require.NoError(t, err)
				stop := w.start()
				w.write(text)
				time.Sleep(time.Hour)
				sets, warnings := w.results()
				require.Empty(t, sets)
				require.Len(t, warnings, 1)
				require.Contains(t, warnings[0], w.path)
				require.Contains(t, warnings[0], "peer list: the previous list stays in use")
				require.Contains(t, warnings[0], "it has no hosts")

				w.write(threeListed)
				time.Sleep(2 * listInterval)
				stop()
				sets, warnings = w.results()
				require.Equal(t, []int{3}, sets)
				require.Len(t, warnings, 1)
				require.Contains(t, w.text.String(), "peer list reloaded")
			})
		})
	}
}

// Each part of the file is itself a valid list, with fewer hosts or with another group. The watch reads the file 5 s
// after its start and then every second.
func TestWatchWaitsUntilListIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchedList(t, twoListed)
		_, err := w.open()
		require.NoError(t, err)
		stop := w.start()
		time.Sleep(listInterval - 3*listSettled/4)
		for _, end := range []int{0, 5, 14, 15} { // nothing, "a g1", "... c g", "... c g1"
			w.write(threeListed[:end])
			time.Sleep(listSettled)
			sets, _ := w.results()
			require.Empty(t, sets, "%q", threeListed[:end])
		}
		w.write(threeListed)
		time.Sleep(3 * listInterval)
		stop()
		require.Equal(t, []int{3}, w.sets)
	})
}

func TestWatchReportsAFileThatKeepsChanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchedList(t, twoListed)
		_, err := w.open()
		require.NoError(t, err)
		stop := w.start()
		text := twoListed
		for range 100 {
			text += "# more\n"
			w.write(text)
			time.Sleep(listSettled / 2)
		}
		sets, warnings := w.results()
		require.Empty(t, sets)
		require.Len(t, warnings, 1)
		require.Contains(t, warnings[0], "the previous list stays in use")
		require.Contains(t, warnings[0], "it is being written: no two reads of it in a row are the same")
		time.Sleep(3 * listInterval)
		stop()
		require.Equal(t, []int{2}, w.sets)
	})
}

func TestWatchIgnoresAChangeThatLeavesTheContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchedList(t, twoListed)
		_, err := w.open()
		require.NoError(t, err)
		stop := w.start()
		for _, change := range []func() error{
			func() error { return os.Chmod(w.path, 0o640) },
			func() error { return os.WriteFile(w.path, []byte(twoListed), 0o640) },
		} {
			require.NoError(t, change())
			time.Sleep(2 * listInterval)
		}
		w.write("")
		time.Sleep(2 * listInterval)
		w.write(twoListed)
		time.Sleep(2 * listInterval)
		w.write("")
		time.Sleep(2 * listInterval)
		stop()
		sets, warnings := w.results()
		require.Empty(t, sets)
		require.Len(t, warnings, 2, "the list was whole in between")
	})
}

// The size and the modification time stay the same, as after cp -p of a list of the same length.
func TestWatchTakesAListWithTheOldSizeAndTime(t *testing.T) {
	w := newWatchedList(t, twoListed)
	info, err := os.Stat(w.path)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // until the kernel's clock has gone on
		require.NoError(t, os.Chmod(w.path, 0o600))
		now, err := os.Stat(w.path)
		require.NoError(t, err)
		return filestate.ChangeTime(now).After(filestate.ChangeTime(info))
	}, 10*time.Second, time.Millisecond)
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		w.lastReading.info = info
		stop := w.start()
		w.write("a g1\nb g2\n")
		require.NoError(t, os.Chtimes(w.path, info.ModTime(), info.ModTime()))
		time.Sleep(2 * listInterval)
		stop()
		require.Equal(t, []int{2}, w.sets)
	})
}

func TestOpenWaitsForAListThatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchedList(t, "")
		go func() {
			time.Sleep(listSettled / 2)
			w.write(threeListed)
		}()
		l, err := w.open()
		require.NoError(t, err)
		require.Equal(t, 3, l.Len())
		_, warnings := w.results()
		require.Empty(t, warnings)
	})
}

func TestOpenStartsWithoutHostsUntilListIsWhole(t *testing.T) {
	for name, grow := range map[string]bool{"it has no hosts": false, "it is being written": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatchedList(t, "")
				text := "a g1\n"
				written := make(chan struct{})
				go func() {
					defer close(written)
					time.Sleep(listSettled / 4) // so that no write meets a read
					for range 20 {
						time.Sleep(listSettled / 2)
						if text += "# more\n"; grow {
							w.write(text)
						}
					}
				}()
				l, err := w.open()
				require.NoError(t, err)
				require.Zero(t, l.Len())
				_, warnings := w.results()
				require.Len(t, warnings, 1)
				require.Contains(t, warnings[0], w.path)
				require.Contains(t, warnings[0], name)
				require.Contains(t, warnings[0], "peer list: this host neither probes others nor answers them until the file is complete")
				stop := w.start()
				<-written
				w.write(threeListed)
				time.Sleep(3 * listInterval)
				stop()
				require.Equal(t, []int{3}, w.sets)
			})
		})
	}
}

func TestOpenRefusesWhatIsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchedList(t, "a g1\nb\n")
		_, err := w.open()
		require.ErrorContains(t, err, w.path)
		require.ErrorContains(t, err, "line 2")
		require.NoError(t, os.Remove(w.path))
		_, err = w.open()
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestAFileSettlesASecondAfterItsChange(t *testing.T) {
	w := newWatchedList(t, twoListed)
	r := w.readOnce()
	at := filestate.ChangeTime(r.info)
	require.False(t, r.isSettled(at.Add(listSettled-1)))
	require.True(t, r.isSettled(at.Add(listSettled)))
	require.False(t, r.isSettled(at.Add(-time.Hour)), "the host's clock was set back")
	require.False(t, listReading{}.isSettled(at))
}

func TestAListIsReadFromAPipe(t *testing.T) {
	own, other, err := os.Pipe()
	require.NoError(t, err)
	defer own.Close()
	_, err = other.WriteString(twoListed)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	l := &listFile{path: filepath.Join("/proc/self/fd", strconv.Itoa(int(own.Fd()))), host: "a"}
	list, err := l.open()
	require.NoError(t, err)
	require.Equal(t, 2, list.Len())
}
