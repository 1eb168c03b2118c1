package ebpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/clock"
)

// source is the trace.Source of a kernel.
type source struct {
	p       *Programs
	host    host
	records *ringbuf.Reader
	board   *board
	picture *processCounts
	hangs   *hangDetector
	ended   func(pid int) bool

	closing   chan struct{} // closed by Close
	due       int64         // time of the next Update, CLOCK_MONOTONIC ns
	lastSweep int64         // time of the last check for ended processes
	lastPrune int64         // time of the last pruneThreads
	changes   uint64        // board.Changes at the last reading of the maps
	end       error         // the error that Next returns from now on; nil: the source is open
}

// Open returns the Source of programs. The Source owns the programs from then on. A thread hangs if it waits longer than hangAfter.
func Open(p *Programs, hangAfter time.Duration) (trace.Source, error) {
	s := &source{
		p: p, host: hostAt("/"), picture: newProcessCounts(), hangs: newHangDetector(hangAfter), ended: hasEnded, closing: make(chan struct{}),
	}
	if !s.host.inInitialPIDNamespace() {
		s.ended = func(int) bool { return false } // a process ends only with its queue
	}
	now := clock.Monotonic()
	s.lastSweep, s.lastPrune, s.due = now, now, now+int64(time.Second)
	err := s.checkModule()
	if err == nil {
		s.records, err = ringbuf.NewReader(p.ring)
	}
	if err == nil {
		s.board, err = openBoard(p.boards)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the tracer's maps: %w", err), s.closeAll())
	}
	return s, nil
}

// Attached implements trace.Source.
func (s *source) Attached() trace.Attached { return s.p.Attached() }

// Close implements trace.Source.
func (s *source) Close() error {
	select {
	case <-s.closing:
	default:
		close(s.closing)
	}
	return nil
}

// Next implements trace.Source.
func (s *source) Next(ctx context.Context) (*trace.Update, error) {
	if s.end != nil {
		return nil, s.end
	}
	if err := s.wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for the next second: %w", err)
	}
	select {
	case <-s.closing:
		s.end = trace.ErrClosed
	default:
		s.end = s.checkModule()
	}
	snap, err := s.collect()
	if err != nil {
		s.end = err
	}
	if s.end != nil {
		err = errors.Join(err, s.closeAll())
	}
	return snap, err
}

// wait waits until the second has passed or the source is closed. It returns an error only if ctx ends.
func (s *source) wait(ctx context.Context) error {
	timer := time.NewTimer(time.Duration(s.due - clock.Monotonic()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
	case <-timer.C:
	}
	for now := clock.Monotonic(); s.due <= now; {
		s.due += int64(time.Second)
	}
	return nil
}

// checkModule returns an error if the module was unloaded, even if it is loaded again: the attachments do not work for the new load. The
// absence of a device is not an error, because a hanging process may still hold a device that was removed.
func (s *source) checkModule() error {
	if s.host.moduleID() != s.p.moduleID {
		return fmt.Errorf("trace the kernel: %w: %s", trace.ErrUnloaded, module)
	}
	return nil
}

// collect returns the changes. It reads the maps only if a program has changed one of them. It evaluates conditions that depend only on
// time, such as hangs and the end of processes, in every call.
func (s *source) collect() (*trace.Update, error) {
	board := s.board.readWords()
	var records []traceRecord
	if board.Changes != s.changes {
		s.board.advanceLook()
		var err error
		// An event must not be reported before its count, so the events are read first.
		if records, err = s.readRing(); err != nil {
			return nil, err
		}
		if err := s.readCounts(&board); err != nil {
			return nil, err
		}
		s.changes = board.Changes
	}
	now := clock.Monotonic()
	snap := &trace.Update{Mono: now, Lost: board.LostRecords + board.LostWaits, Full: board.MapFull}
	s.picture.addEvents(records, snap)
	if err := s.updateHangs(&board, now, snap); err != nil {
		return nil, err
	}
	if now-s.lastSweep >= int64(sweepEvery) {
		s.lastSweep = now
		s.picture.markEnded(s.ended)
	}
	if now-s.lastPrune >= int64(pruneEvery) {
		s.lastPrune = now
		if err := s.pruneThreads(); err != nil {
			return nil, err
		}
	}
	// These processes ended at least a second ago, so no program changes their entries now.
	gone := s.picture.addApps(now, snap)
	if err := deleteKeys(s.p.apps, gone); err != nil {
		return nil, fmt.Errorf("forget a process: %w", err)
	}
	return snap, nil
}

const (
	// sweepEvery is the interval of checks for processes that have ended although their entries still exist.
	sweepEvery = 5 * time.Second
	// pruneEvery is the interval of pruneThreads, which reads maps even if no program has changed them.
	pruneEvery = time.Hour
)

// readRing reads all events in the ring.
func (s *source) readRing() ([]traceRecord, error) {
	var records []traceRecord
	s.records.SetDeadline(time.Unix(0, 0))
	for {
		raw, err := s.records.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return records, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the ring: %w", err)
		}
		var r traceRecord
		if _, err := binary.Decode(raw.RawSample, binary.NativeEndian, &r); err != nil {
			return nil, fmt.Errorf("read an event of %d bytes: %w", len(raw.RawSample), err)
		}
		records = append(records, r)
	}
}

// readCounts reads the counts of all processes.
func (s *source) readCounts(b *traceBoard) error {
	s.picture.look = b.Look
	if err := forEach(s.p.apps, s.picture.setApp); err != nil {
		return err
	}
	if err := forEach(s.p.queues, s.picture.addQueue); err != nil {
		return err
	}
	if b.Others == s.picture.othersSeen {
		return nil
	}
	s.picture.othersSeen = b.Others
	return forEach(s.p.others, s.picture.setNameless)
}

// forEach calls f for every entry of a map. It reads the map in batches.
func forEach[K, V any](m *ebpf.Map, f func(K, *V)) error {
	const batch = 64
	keys, values := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			f(keys[i], &values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the map of %T: %w", *new(V), err)
		}
	}
}

func (s *source) updateHangs(b *traceBoard, now int64, snap *trace.Update) error {
	if b.Waits != s.hangs.seen {
		s.hangs.seen = b.Waits
		if err := forEach(s.p.waits, s.hangs.addWait); err != nil {
			return err
		}
	}
	if s.hangs.isEmpty() || s.p.threadIter == nil {
		return nil
	}
	sights, err := s.readThreads()
	if err != nil {
		return err
	}
	if err := deleteKeys(s.p.waits, s.hangs.update(now, sights, s.picture, snap)); err != nil {
		return fmt.Errorf("forget a thread that waited: %w", err)
	}
	return nil
}

// readThreads returns the current state of the threads in the map of waits.
func (s *source) readThreads() (map[uint32]traceSight, error) {
	r, err := s.p.threadIter.Open()
	if err != nil {
		return nil, fmt.Errorf("look at the threads: %w", err)
	}
	defer r.Close()
	sights := map[uint32]traceSight{}
	for {
		var one traceSight
		switch err := binary.Read(r, binary.NativeEndian, &one); {
		case err == nil:
			sights[one.Tid] = one
		case errors.Is(err, io.EOF):
			return sights, nil
		default:
			return nil, fmt.Errorf("look at the threads: %w", err)
		}
	}
}

// pruneThreads deletes the entries of threads that ended before a program could delete them: in a read whose return was not seen (see
// reconcile in trace.bpf.c), or after the kernel did not destroy an object. If the map of reads were full, later reads would be missed.
func (s *source) pruneThreads() error {
	var reads []uint64
	if err := forEach(s.p.reads, func(id uint64, _ *traceRead) {
		if tid := uint32(id); s.ended(int(tid)) { // the upper half is the process
			reads = append(reads, id)
		}
	}); err != nil {
		return err
	}
	var numbers []uint32
	if err := forEach(s.p.numbers, func(tid uint32, _ *uint32) {
		if s.ended(int(tid)) {
			numbers = append(numbers, tid)
		}
	}); err != nil {
		return err
	}
	if err := errors.Join(deleteKeys(s.p.reads, reads), deleteKeys(s.p.numbers, numbers)); err != nil {
		return fmt.Errorf("forget the threads that have ended: %w", err)
	}
	return nil
}

// deleteKeys deletes the entries with these keys from a map. Keys without an entry are no error.
func deleteKeys[K any](m *ebpf.Map, keys []K) error {
	for _, key := range keys {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from the map %s: %w", m, err)
		}
	}
	return nil
}

// closeAll closes all resources of the source.
func (s *source) closeAll() error {
	var errs []error
	if s.records != nil {
		errs = append(errs, s.records.Close())
	}
	if s.board != nil {
		errs = append(errs, s.board.unmap())
	}
	return errors.Join(append(errs, s.p.Close())...)
}

// hasEnded reports whether there is no process or thread with a number. EPERM means that one of another user has the number.
func hasEnded(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
