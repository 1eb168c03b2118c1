package ledger

import (
	"errors"
	"sync/atomic"
)

// ErrDamaged is returned by a Reader if the indexes of a ring are impossible, because the worker's memory is damaged.
var ErrDamaged = errors.New("the indexes of a ring in the ledger are impossible")

// Run is a sequence of equal consecutive asynchronous events in the ring of runs, see verbs.Run. C writes it as struct run.
type Run struct {
	Type, Port       int32
	Count            uint64
	First, Last      int64
	HoldSum, HoldMax int64
	AckSum, AckMax   int64
}

// Round is a round of a probe in the ring of the probe's slot, see verbs.Round. C writes it as struct round.
type Round struct {
	Outcome    int32
	Errno      int32 // of Call, if that failed; 0: no call failed
	Call       Call
	Completion int32 // enum ibv_wc_status of the completion; 0: success, or no completion

	Start, Wake, Get, Arm, Drain, Hold, Ack, Total int64
}

// Command is a command in the ring of commands, see verbs.Command. Only commands that the device has answered are in the ring.
type Command struct {
	Call, Port uint32
	Mono, Took int64
}

// ring is the header of a ring. Its entries are numbered from 0; entry n is stored at index n modulo the size. One thread of
// the worker writes entries and increments written when one is complete. The host raises taken after it has copied entries;
// only then does the writer reuse their space. A writer never waits: if the ring is full, it omits the entry.
type ring struct {
	written uint64
	taken   uint64
	omitted uint64 // number of omitted entries
	_       [64 - 24]byte
}

type (
	runRing struct {
		ring
		entry [RunRing]Run
	}
	roundRing struct {
		ring
		entry [RoundRing]Round
	}
	commandRing struct {
		ring
		entry [CommandRing]Command
	}
)

// nextIndex returns the index for the next entry of a ring, and false if the ring is full.
func (r *ring) nextIndex(size uint64) (uint64, bool) {
	return r.written % size, r.written-atomic.LoadUint64(&r.taken) < size
}

// countOmitted counts an omitted entry. The host reads the unlisted counts once after omitted has changed, so the writer
// must raise the unlisted count first.
func (r *ring) countOmitted() { atomic.AddUint64(&r.omitted, 1) }

// publish makes the entry visible that was written at nextIndex. It reports whether exactly half of the ring is now in use.
func (r *ring) publish(size uint64) (half bool) {
	atomic.StoreUint64(&r.written, r.written+1)
	return r.written-atomic.LoadUint64(&r.taken) == size/2
}

// WriteRun writes a run into the ring of runs. If the ring is full, it counts the events of the run as unlisted. Only the
// reading thread may call it, after Count. The caller rings the doorbell after the last run that it has read.
func (l *Ledger) WriteRun(r Run) {
	i, ok := l.p.runs.nextIndex(RunRing)
	if !ok {
		atomic.AddUint64(&l.findSlot(r.Type, r.Port).unlisted, r.Count)
		l.p.runs.countOmitted()
		return
	}
	l.p.runs.entry[i] = r
	l.p.runs.publish(RunRing)
}

// RunsWritten returns the number of runs written into the ring of runs so far. Any thread may call it.
func (l *Ledger) RunsWritten() uint64 { return atomic.LoadUint64(&l.p.runs.written) }

// WriteRound writes a round into the ring of a probe, and omits it if the ring is full. It rings the doorbell if the round
// is urgent or half of the ring is in use. Only the probe's thread may call it.
func (l *Ledger) WriteRound(index int, r Round, urgent bool) {
	to := &l.p.rounds[index]
	i, ok := to.nextIndex(RoundRing)
	if !ok {
		to.countOmitted()
		return
	}
	to.entry[i] = r
	if half := to.publish(RoundRing); half || urgent {
		l.Ring()
	}
}

// WriteCommand writes a command into the ring of commands. It returns false if the ring is full. It does not ring the
// doorbell, since an answered command is not urgent.
func (l *Ledger) WriteCommand(c Command) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.p.command.nextIndex(CommandRing)
	if !ok {
		l.p.command.countOmitted()
		return false
	}
	l.p.command.entry[i] = c
	l.p.command.publish(CommandRing)
	return true
}

// SetAlive records that the goroutines of the worker run; now is CLOCK_MONOTONIC in ns.
func (l *Ledger) SetAlive(now int64) { atomic.StoreInt64(&l.p.alive, now) }

// LastAlive returns the time that SetAlive recorded last; 0 before the first call.
func (l *Ledger) LastAlive() int64 { return atomic.LoadInt64(&l.p.alive) }

// Reader reads the entries of a ledger's rings in the host. It does not trust the worker's memory: it keeps its own read
// indexes, and copies each entry before it uses it. Only one goroutine at a time may use it.
type Reader struct {
	l        *Ledger
	run      Run
	round    Round
	runs     uint64   // number of the next run
	rounds   []uint64 // number of the next round, by slot
	commands uint64   // number of the next command
	omitted  uint64   // ring.omitted at the last update of unlisted
	unlisted []uint64 // events reported by Unlisted so far, by slot
}

// NewReader returns a Reader of l that starts with the first entries. A ledger may have only one Reader.
func NewReader(l *Ledger) *Reader { return &Reader{l: l} }

// Runs calls f with each new run up to number end, exclusive, in order. f must not keep the run. Runs returns ErrDamaged if
// the indexes are impossible.
func (r *Reader) Runs(end uint64, f func(*Run)) error {
	from := &r.l.p.runs
	written := atomic.LoadUint64(&from.written)
	if written-r.runs > RunRing {
		return ErrDamaged
	}
	for end = min(end, written); r.runs < end; r.runs++ {
		r.run = from.entry[r.runs%RunRing]
		f(&r.run)
	}
	atomic.StoreUint64(&from.taken, r.runs)
	return nil
}

// Unlisted calls f with the number of events of each type and port that did not fit into the ring of runs since the last
// call.
func (r *Reader) Unlisted(f func(typ, port int32, events uint64)) {
	omitted := atomic.LoadUint64(&r.l.p.runs.omitted)
	if omitted == r.omitted {
		return
	}
	r.omitted = omitted
	if r.unlisted == nil {
		r.unlisted = make([]uint64, EventSlots)
	}
	for i := range min(atomic.LoadUint32(&r.l.p.events), EventSlots) {
		e := &r.l.p.event[i]
		n := atomic.LoadUint64(&e.unlisted)
		if n > r.unlisted[i] && n < ImplausibleCount {
			f(e.typ, e.port, n-r.unlisted[i])
			r.unlisted[i] = n
		}
	}
}

// Rounds calls f with each new round of all probes, in order for each probe. f must not keep the round. Rounds returns
// ErrDamaged if the indexes of a ring are impossible.
func (r *Reader) Rounds(f func(port, vector, method int, round *Round)) error {
	for i := range min(atomic.LoadUint32(&r.l.p.probes), ProbeSlots) {
		if int(i) == len(r.rounds) {
			r.rounds = append(r.rounds, 0)
		}
		from := &r.l.p.rounds[i]
		written := atomic.LoadUint64(&from.written)
		if written == r.rounds[i] {
			continue
		}
		if written-r.rounds[i] > RoundRing {
			return ErrDamaged
		}
		slot := &r.l.p.probe[i]
		port, vector, method := int(slot.port), int(slot.vector), int(slot.method)
		for ; r.rounds[i] < written; r.rounds[i]++ {
			r.round = from.entry[r.rounds[i]%RoundRing]
			f(port, vector, method, &r.round)
		}
		atomic.StoreUint64(&from.taken, written)
	}
	return nil
}

// Commands calls f with each new command, in order. It returns ErrDamaged if the indexes are impossible.
func (r *Reader) Commands(f func(Command)) error {
	from := &r.l.p.command
	written := atomic.LoadUint64(&from.written)
	if written-r.commands > CommandRing {
		return ErrDamaged
	}
	for ; r.commands < written; r.commands++ {
		f(from.entry[r.commands%CommandRing])
	}
	atomic.StoreUint64(&from.taken, written)
	return nil
}
