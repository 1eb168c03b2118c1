package ebpf

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func newBoard(t *testing.T) *board {
	t.Helper()
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	b := boardAt(page)
	t.Cleanup(func() { require.NoError(t, b.unmap()) })
	return b
}

func TestBoardIsReadAsProgramsWroteIt(t *testing.T) {
	b := newBoard(t)
	want := traceBoard{Look: 1, Changes: 2, LostRecords: 3, LostWaits: 4, MapFull: 5, Others: 6, Waits: 7}
	*b.words = want
	require.Equal(t, want, b.readWords())
	b.advanceLook()
	want.Look = 2
	require.Equal(t, want, b.readWords())
}

// A program increments Changes after the other words, so a reader that sees the change must see the other words too.
func TestBoardReadsChangesBeforeAllElse(t *testing.T) {
	const readings = 2_000_000
	b := newBoard(t)
	var over atomic.Bool
	var program sync.WaitGroup
	program.Go(func() {
		for !over.Load() {
			for _, word := range []*uint64{&b.words.LostRecords, &b.words.LostWaits, &b.words.MapFull, &b.words.Others, &b.words.Waits} {
				atomic.AddUint64(word, 1)
			}
			atomic.AddUint64(&b.words.Changes, 1)
		}
	})
	early := 0 // readings that contain a change without the words that it announces
	for range readings {
		now := b.readWords()
		if min(now.LostRecords, now.LostWaits, now.MapFull, now.Others, now.Waits) < now.Changes {
			early++
		}
	}
	over.Store(true)
	program.Wait()
	require.Zero(t, early)
	require.Positive(t, b.readWords().Changes)
}
