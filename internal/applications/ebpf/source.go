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
	picture *picture
	hangs   *hangs
	ended   func(pid int) bool

	closing chan struct{} // closed by Close
	due     int64         // CLOCK_MONOTONIC ns of the next Snapshot
	swept   int64         // when the processes were last looked for
	changes uint64        // board.Changes when the maps were last read
	end     error         // what Next returns from now on
}

// Open makes the Source of programs, and takes them over. A thread hangs once it has waited for hangAfter.
func Open(p *Programs, hangAfter time.Duration) (trace.Source, error) {
	s := &source{
		p: p, host: hostAt("/"), picture: newPicture(), hangs: newHangs(hangAfter), ended: hasEnded, closing: make(chan struct{}),
	}
	if !s.host.numbersAreOurs() {
		s.ended = func(int) bool { return false } // a process ends with its queue alone
	}
	s.swept = clock.Monotonic()
	s.due = s.swept + int64(time.Second)
	err := s.gone()
	if err == nil {
		s.records, err = ringbuf.NewReader(p.ring)
	}
	if err == nil {
		s.board, err = openBoard(p.boards)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the tracer's maps: %w", err), s.release())
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
		s.end = s.gone()
	}
	snap, err := s.look()
	if err != nil {
		s.end = err
	}
	if s.end != nil {
		err = errors.Join(err, s.release())
	}
	return snap, err
}

// wait waits until the second is over, or the source is closed. Its error is that of ctx.
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

// gone returns why nothing more is to be seen. What is attached to a module that was unloaded stays blind when it is loaded
// again. Without a device there may still be something to see: a process that hangs holds the device that has gone.
func (s *source) gone() error {
	if s.host.core() != s.p.core {
		return fmt.Errorf("trace the kernel: %w: %s", trace.ErrUnloaded, module)
	}
	return nil
}

// look finds out what has changed. It reads the maps only if a program has changed one of them; what depends on time alone,
// as the end of a process or a hang, it judges at each look.
func (s *source) look() (*trace.Update, error) {
	board := s.board.readWords()
	var records []traceRecord
	if board.Changes != s.changes {
		s.board.nextLook()
		var err error
		// An event is reported with its count or after it, so the events are read first.
		if records, err = s.drain(); err != nil {
			return nil, err
		}
		if err := s.count(&board); err != nil {
			return nil, err
		}
		s.changes = board.Changes
	}
	now := clock.Monotonic()
	snap := &trace.Update{Mono: now, Lost: board.LostRecords + board.LostWaits, Full: board.MapFull}
	s.picture.events(records, snap)
	if err := s.lookForHangs(&board, now, snap); err != nil {
		return nil, err
	}
	if now-s.swept >= int64(sweepEvery) {
		s.swept = now
		s.picture.sweep(s.ended)
	}
	gone := s.picture.apps(now, snap)
	for _, key := range gone {
		// It has ended for a second or more, so nothing counts for it now.
		if err := s.p.apps.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("forget a process: %w", err)
		}
	}
	return snap, nil
}

// sweepEvery is how often it is looked for processes that have ended and whose queues are still there.
const sweepEvery = 5 * time.Second

// drain reads the events that are in the ring.
func (s *source) drain() ([]traceRecord, error) {
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

// count reads the counts of all processes.
func (s *source) count(b *traceBoard) error {
	s.picture.look = b.Look
	if err := each(s.p.apps, s.picture.app); err != nil {
		return err
	}
	if err := each(s.p.queues, s.picture.queue); err != nil {
		return err
	}
	if b.Others == s.picture.othersSeen {
		return nil
	}
	s.picture.othersSeen = b.Others
	return each(s.p.others, s.picture.other)
}

// each calls f for every entry of a map, a batch at a time.
func each[K, V any](m *ebpf.Map, f func(K, *V)) error {
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

func (s *source) lookForHangs(b *traceBoard, now int64, snap *trace.Update) error {
	if b.Waits != s.hangs.seen {
		s.hangs.seen = b.Waits
		if err := each(s.p.waits, s.hangs.add); err != nil {
			return err
		}
	}
	if s.hangs.none() || s.p.sights == nil {
		return nil
	}
	sights, err := s.sights()
	if err != nil {
		return err
	}
	for _, tid := range s.hangs.look(now, sights, s.picture, snap) {
		if err := s.p.waits.Delete(tid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget a thread: %w", err)
		}
	}
	return nil
}

// sights returns what the threads of the map of waits do now.
func (s *source) sights() (map[uint32]traceSight, error) {
	r, err := s.p.sights.Open()
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

// release closes what the source has.
func (s *source) release() error {
	var errs []error
	if s.records != nil {
		errs = append(errs, s.records.Close())
	}
	if s.board != nil {
		errs = append(errs, s.board.unmap())
	}
	return errors.Join(append(errs, s.p.Close())...)
}

// hasEnded reports whether there is no process of that number. A process of another user is there too.
func hasEnded(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
