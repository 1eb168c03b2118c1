package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/cilium/ebpf"
)

// board is the map of one struct board, which is shared with the programs.
type board struct{ memory *ebpf.Memory }

func openBoard(m *ebpf.Map) (board, error) {
	memory, err := m.Memory()
	if err != nil {
		return board{}, fmt.Errorf("map the board: %w", err)
	}
	return board{memory}, nil
}

// next returns the board, and begins the next look: the longest delays of this one stay as they are.
func (b board) next() (traceBoard, error) {
	var now traceBoard
	raw := make([]byte, unsafe.Sizeof(now))
	if _, err := b.memory.ReadAt(raw, 0); err != nil {
		return now, fmt.Errorf("read the board: %w", err)
	}
	if _, err := binary.Decode(raw, binary.NativeEndian, &now); err != nil {
		return now, fmt.Errorf("read the board: %w", err)
	}
	next := binary.NativeEndian.AppendUint64(nil, now.Look+1)
	if _, err := b.memory.WriteAt(next, int64(unsafe.Offsetof(now.Look))); err != nil {
		return now, fmt.Errorf("begin a look: %w", err)
	}
	return now, nil
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) }
