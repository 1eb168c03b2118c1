package standin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// Control is struct control of testdata/standin.h: a page that the library shares
// with the test. Its file descriptors belong to the process that has loaded the
// library. The test may write to it at any time, but must avoid races with the
// library itself.
type Control struct {
	Size, FailCall, FailErrno, FailSkip, FailStyle, HangCall      int32
	IgnoreAcks, WCStatus, PostErr, Legacy, PortState, LinkLayer   int32
	LID, Removed, Cursor, AsyncWrite, ChannelWrite, Gate, Entered int32
	TraceLen                                                      int32
	CrashCall, CrashSignal, Flood, Attack, Speed, FailAlways      int32
	Arm, EventDelayUS, ClosedAgain, PortFlags                     int32
	Dead, Disassociate, CommandUS, Flushes                        int32
	HangInKernel                                                  int32
	LoseDatagrams, LoseWrites, HoldSends, RetryUS                 int32
	Corrupt, Stretch, Dropped, EffectiveSpeed                     int32
	PhysState, Ports, SMLID, Unlisted                             int32
	Provider                                                      Provider
	Calls                                                         [32]uint32
	CQ, QP, SRQ, WQ                                               uint64
	Plan, Violation                                               [256]byte
	Trace                                                         [1 << 18]byte
}

// The ways in which a call fails (standin.h).
const (
	StyleManual int32 = iota
	StyleNegative
	StyleMinusOne
	StyleSilent
)

// When arming a queue raises an event by itself, and when the arm takes effect
// (standin.h).
const (
	ArmNever int32 = iota
	ArmByIndex
	ArmAlways
	ArmAtPoll
)

// Provider is struct provider of standin.h: errnos that a provider, or the kernel
// driver behind it, returns; 0: the call succeeds.
type Provider struct {
	RefuseRC, RefuseUD, RefuseChannel, RefuseAH, RefuseRTS int32 // or Silently
	Flush                                                  int32
	DeadOpen, DeadCommand, DeadDestroy                     int32  // in error state
	Commands                                               uint32 // bit mask of the ledger.Calls that are commands
}

// Silently is the errno of a call that fails and leaves errno as it was.
const Silently int32 = -1

// How a posted receive is flushed (standin.h).
const (
	FlushEvent  int32 = iota // with an event
	FlushSilent              // in the library, without an event
	FlushNever
)

// ControlSize is the size of a Control in bytes. The library writes the size of its
// structure to Control.Size.
const ControlSize = int(unsafe.Sizeof(Control{}))

// Map maps the file at path for the lifetime of the process, and creates the file if
// it does not exist. It makes the port active, on Ethernet. A new file orders no
// faults.
func Map(path string) (*Control, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open control page: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(int64(ControlSize)); err != nil {
		return nil, fmt.Errorf("make control page: %w", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, ControlSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map control page: %w", err)
	}
	c := (*Control)(unsafe.Pointer(&mem[0]))
	c.PortState, c.LID, c.LinkLayer = int32(verbs.PortActive), 17, int32(verbs.LinkEthernet)
	return c, nil
}

// CallTrace returns the library's trace of the calls so far.
func (c *Control) CallTrace() string { return string(c.Trace[:c.TraceLen]) }

// BrokenRule returns the first rule of libibverbs that the caller has broken; "" if none.
func (c *Control) BrokenRule() string {
	text, _, _ := bytes.Cut(c.Violation[:], []byte{0})
	return string(text)
}

// AsyncEvent returns an event in the format in which the kernel writes it to the
// asynchronous file descriptor (struct ib_uverbs_async_event_desc). The test writes it
// to Control.AsyncWrite; the library reads it from the other end.
func AsyncEvent(typ int32, element uint64) []byte {
	record := binary.NativeEndian.AppendUint64(nil, element)
	record = binary.NativeEndian.AppendUint32(record, uint32(typ))
	return append(record, 0, 0, 0, 0)
}
