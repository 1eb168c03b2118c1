package ledger

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrFull is returned by AddProbe and AddFabric when all slots of their kind are taken.
var ErrFull = errors.New("ledger has no free slot")

// Ledger is a mapped ledger. Its methods may be called concurrently; each writer owns its
// slots. After Close neither the Ledger nor a Device that counts in it may be used.
type Ledger struct {
	p    *page
	mem  []byte
	bell *Doorbell  // nil: no reader waits
	mu   sync.Mutex // serialises AddProbe, AddFabric and WriteCommand
	done sync.Once
}

// New creates a ledger in anonymous shared memory and maps it. It also returns the memory's
// file, which the caller passes to the worker. The file is close-on-exec and cannot be
// resized. The caller closes both.
func New(name string) (*Ledger, *os.File, error) {
	fd, err := unix.MemfdCreate("rdma_events-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("create ledger memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ledger")
	if err := f.Truncate(Size); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("size ledger: %w", err), f.Close())
	}
	// Without the seal a worker could shrink the file, and the next read would kill the host with SIGBUS.
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("seal ledger: %w", err), f.Close())
	}
	l, err := Map(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	atomic.StoreUint64(&l.p.magic, magic)
	return l, f, nil
}

// Open maps the ledger that another process created and passed as f. It fails if f has
// another size or is no ledger of this version. The caller may close f afterwards.
func Open(f *os.File) (*Ledger, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if st.Size() != Size {
		return nil, fmt.Errorf("open ledger: %d bytes instead of %d", st.Size(), Size)
	}
	l, err := Map(f)
	if err != nil {
		return nil, err
	}
	if atomic.LoadUint64(&l.p.magic) != magic {
		return nil, errors.Join(errors.New("open ledger: not a ledger of this version"), l.Close())
	}
	return l, nil
}

// Map maps f, which has Size bytes, without checking its contents.
func Map(f *os.File) (*Ledger, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ledger: %w", err)
	}
	return &Ledger{p: (*page)(unsafe.Pointer(&mem[0])), mem: mem}, nil
}

// Close unmaps the ledger.
func (l *Ledger) Close() error {
	var err error
	l.done.Do(func() { err = unix.Munmap(l.mem) })
	return err
}

// Base returns the address of the mapping, for the writer in C.
func (l *Ledger) Base() unsafe.Pointer { return unsafe.Pointer(l.p) }

// Count adds to the counts of events read and acknowledged of one type on one port. Only
// the reading thread may call it.
func (l *Ledger) Count(typ, port int32, read, acked uint64) {
	s := l.findSlot(typ, port)
	atomic.AddUint64(&s.read, read)
	atomic.AddUint64(&s.acked, acked)
}

// findSlot finds or adds the slot of an event type on a port. Without a free slot it returns the Overflow slot.
func (l *Ledger) findSlot(typ, port int32) *eventSlot {
	n := atomic.LoadUint32(&l.p.events)
	for i := range min(n, EventSlots) {
		if s := &l.p.event[i]; s.typ == typ && s.port == port {
			return s
		}
	}
	if n >= EventSlots {
		return &l.p.event[EventSlots-1]
	}
	s := &l.p.event[n]
	s.typ, s.port = typ, port
	if n == EventSlots-1 {
		s.typ, s.port = Overflow, 0
	}
	atomic.StoreUint32(&l.p.events, n+1)
	return s
}

// SetReaderCall records the call that the reading thread is in; now is CLOCK_MONOTONIC in ns.
func (l *Ledger) SetReaderCall(c Call, now int64) { l.p.reader.set(ThreadCall{Call: c, Since: now}) }

// SetControlCall records the call of the control thread, which opens, queries and closes the
// device. ThreadCall.Thread is the thread's TID during a call for which no other thread waits,
// else 0.
func (l *Ledger) SetControlCall(c ThreadCall) { l.p.ctl.set(c) }

// SetEvidenceCall records the call of the evidence thread, which reads hw_counters and queries
// queue pairs, as SetControlCall does.
func (l *Ledger) SetEvidenceCall(c ThreadCall) { l.p.evid.set(c) }

func (s *threadState) set(to ThreadCall) {
	atomic.StoreInt64(&s.since, to.Since)
	atomic.StoreUint32(&s.thread, uint32(to.Thread))
	atomic.StoreUint32(&s.call, uint32(to.Call)|uint32(to.Port)<<portShift)
}

// AddProbe finds or adds the slot of a probe's series and returns its index, or ErrFull.
// A recreated probe gets the slot of its predecessor.
func (l *Ledger) AddProbe(port, vector, method int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := atomic.LoadUint32(&l.p.probes)
	for i := range min(n, ProbeSlots) {
		s := &l.p.probe[i]
		if int(s.port) == port && int(s.vector) == vector && int(s.method) == method {
			return int(i), nil
		}
	}
	if n >= ProbeSlots {
		return 0, ErrFull
	}
	s := &l.p.probe[n]
	s.port, s.vector, s.method = uint32(port), uint32(vector), uint32(method)
	atomic.StoreUint32(&l.p.probes, n+1)
	return int(n), nil
}

// AddProbeCounts adds c to the counts of a probe. Only the probe's thread may call it.
func (l *Ledger) AddProbeCounts(index int, c ProbeCounts) { l.p.probe[index].counts.store(c) }

// SetProbeCall records the call that a probe's thread is in; now is CLOCK_MONOTONIC in ns.
func (l *Ledger) SetProbeCall(index int, c Call, now int64) {
	l.p.probe[index].thread.set(ThreadCall{Call: c, Since: now})
}
