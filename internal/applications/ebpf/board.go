package ebpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// board is a map with one struct board in memory shared with the programs, so that reading it needs no system call. Every supported kernel
// can map it (since Linux 5.5).
type board struct {
	page  []byte
	words *traceBoard // in page
}

func openBoard(m *ebpf.Map) (*board, error) {
	page, err := unix.Mmap(m.FD(), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the board: %w", err)
	}
	return boardAt(page), nil
}

// boardAt returns the board at the beginning of a page.
func boardAt(page []byte) *board {
	return &board{page: page, words: (*traceBoard)(unsafe.Pointer(unsafe.SliceData(page)))}
}

// readWords returns the words of the board. A program first makes a change, then increments the word that counts it, and increments Changes
// last. Therefore readWords reads Changes first, and the caller reads the maps afterwards: a change during the reading increments Changes
// again.
func (b *board) readWords() traceBoard {
	changes := atomic.LoadUint64(&b.words.Changes)
	return traceBoard{
		Look: atomic.LoadUint64(&b.words.Look), Changes: changes,
		LostRecords: atomic.LoadUint64(&b.words.LostRecords), LostWaits: atomic.LoadUint64(&b.words.LostWaits),
		MapFull: atomic.LoadUint64(&b.words.MapFull),
		Others:  atomic.LoadUint64(&b.words.Others), Waits: atomic.LoadUint64(&b.words.Waits),
	}
}

// advanceLook increments the number of the look. The programs then leave the longest delays of the previous look unchanged.
func (b *board) advanceLook() { atomic.AddUint64(&b.words.Look, 1) }

func (b *board) unmap() error {
	if err := unix.Munmap(b.page); err != nil {
		return fmt.Errorf("unmap the board: %w", err)
	}
	return nil
}
