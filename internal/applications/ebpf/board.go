package ebpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// board is the map of one struct board, which the programs and this process share in memory: to read it takes no system
// call. Every kernel that a tracer begins on can map it (since Linux 5.5).
type board struct {
	page  []byte
	words *traceBoard // in page
}

func openBoard(m *ebpf.Map) (*board, error) {
	page, err := unix.Mmap(m.FD(), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the board: %w", err)
	}
	return boardIn(page), nil
}

// boardIn returns the board at the begin of a page.
func boardIn(page []byte) *board {
	return &board{page: page, words: (*traceBoard)(unsafe.Pointer(unsafe.SliceData(page)))}
}

// readWords returns the words of the board. A program adds to each word after what that counts, and to Changes last. So Changes is read
// first, and the maps are read after the board: what a program changes meanwhile moves Changes once more.
func (b *board) readWords() traceBoard {
	changes := atomic.LoadUint64(&b.words.Changes)
	return traceBoard{
		Look: atomic.LoadUint64(&b.words.Look), Changes: changes,
		LostRecords: atomic.LoadUint64(&b.words.LostRecords), LostWaits: atomic.LoadUint64(&b.words.LostWaits),
		MapFull: atomic.LoadUint64(&b.words.MapFull),
		Others:  atomic.LoadUint64(&b.words.Others), Waits: atomic.LoadUint64(&b.words.Waits),
	}
}

// nextLook begins the look after this one: the longest delays of this one stay as they are.
func (b *board) nextLook() { atomic.AddUint64(&b.words.Look, 1) }

func (b *board) unmap() error {
	if err := unix.Munmap(b.page); err != nil {
		return fmt.Errorf("unmap the board: %w", err)
	}
	return nil
}
