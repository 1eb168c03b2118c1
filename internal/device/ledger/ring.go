package ledger

import (
	"errors"
	"sync/atomic"
)

// ErrDamaged is returned by a Reader if the indexes of a ring are impossible: the memory of the worker is damaged.
var ErrDamaged = errors.New("the indexes of a ring in the ledger are impossible")

// Run is a sequence of equal consecutive asynchronous events in the ring of runs, see verbs.Run. C writes it as struct run.
type Run struct {
	Type, Port       int32
	Count            uint64
	First, Last      int64
	HoldSum, HoldMax int64
	AckSum, AckMax   int64
}

// Round is a round of a probe in the ring of its slot, see verbs.Round. C writes it as struct round.
type Round struct {
	Outcome    int32
	Errno      int32 // of Call, if that failed; 0: none
	Call       Call
	Completion int32 // enum ibv_wc_status of the completion; 0: success, or there was none

	Start, Wake, Get, Arm, Drain, Hold, Ack, Total int64
}

// Command is a command in the ring of commands, see verbs.Command. The device has answered it.
type Command struct {
	Call, Port uint32
	Mono, Took int64
}

// ring is the head of a ring. Its entries are numbered from 0 on; entry n is in the place n modulo the size. One thread of
// the worker writes them, and raises written when one is complete. The host raises taken when it has copied entries; only
// then the writer uses their places again. A writer never waits: without a free place it leaves the entry out.
type ring struct {
	written uint64
	taken   uint64
	left    uint64 // entries that were left out
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

// place returns the place for the next entry of a ring, and false if there is none.
func (r *ring) place(size uint64) (uint64, bool) {
	return r.written % size, r.written-atomic.LoadUint64(&r.taken) < size
}

// leaveOut tells the host that an entry was left out. The host then looks at the counts of what was left out, once, so that
// these are raised before.
func (r *ring) leaveOut() { atomic.AddUint64(&r.left, 1) }

// publish makes the entry visible that was written to the place of place. It reports whether half of the ring is in use now.
func (r *ring) publish(size uint64) (half bool) {
	atomic.StoreUint64(&r.written, r.written+1)
	return r.written-atomic.LoadUint64(&r.taken) == size/2
}

// AddRun writes a run into the ring of runs, or counts its events as unlisted if the ring is full. Only the reading thread
// may call it, after Count. The doorbell is to be rung after the last run of a reading.
func (l *Ledger) AddRun(r Run) {
	i, ok := l.p.runs.place(RunRing)
	if !ok {
		atomic.AddUint64(&l.slot(r.Type, r.Port).unlisted, r.Count)
		l.p.runs.leaveOut()
		return
	}
	l.p.runs.entry[i] = r
	l.p.runs.publish(RunRing)
}

// RunsWritten returns how many runs were written into the ring of runs so far. Any thread may call it.
func (l *Ledger) RunsWritten() uint64 { return atomic.LoadUint64(&l.p.runs.written) }

// ListRound writes a round into the ring of a probe, and leaves it out if the ring is full. It rings the doorbell if the
// round is news, or half of the ring is in use. Only the probe's thread may call it.
func (l *Ledger) ListRound(index int, r Round, news bool) {
	to := &l.p.rounds[index]
	i, ok := to.place(RoundRing)
	if !ok {
		to.leaveOut()
		return
	}
	to.entry[i] = r
	if half := to.publish(RoundRing); half || news {
		l.Ring()
	}
}

// ListCommand writes a command into the ring of commands. It returns false if that has no space. It does not ring the
// doorbell: such a command is no news.
func (l *Ledger) ListCommand(c Command) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.p.command.place(CommandRing)
	if !ok {
		l.p.command.leaveOut()
		return false
	}
	l.p.command.entry[i] = c
	l.p.command.publish(CommandRing)
	return true
}

// Alive records that the goroutines of the worker run; now is CLOCK_MONOTONIC in ns.
func (l *Ledger) Alive(now int64) { atomic.StoreInt64(&l.p.alive, now) }

// LastAlive returns what Alive recorded last, 0 before.
func (l *Ledger) LastAlive() int64 { return atomic.LoadInt64(&l.p.alive) }

// Reader takes the entries of a ledger's rings for the host. It trusts nothing that the worker can write: the indexes up to
// which it has read are its own, and each entry is copied before it is looked at. One goroutine at a time may use it.
type Reader struct {
	l        *Ledger
	run      Run
	round    Round
	runs     uint64   // the next run
	rounds   []uint64 // the next round, by slot
	commands uint64   // the next command
	left     uint64   // runs left out when unlisted was brought up to date
	unlisted []uint64 // events that were reported as unlisted, by slot
}

// NewReader returns a Reader of l that starts with the first entries. There may be one of a ledger.
func NewReader(l *Ledger) *Reader { return &Reader{l: l} }

// Runs calls f with each run that was written before the run of number end, in order. f may use the run until it returns. It
// returns ErrDamaged if the indexes are impossible.
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

// Unlisted calls f with the number of events of each type and port that the ring of runs had no space for since the call
// before.
func (r *Reader) Unlisted(f func(typ, port int32, events uint64)) {
	left := atomic.LoadUint64(&r.l.p.runs.left)
	if left == r.left {
		return
	}
	r.left = left
	if r.unlisted == nil {
		r.unlisted = make([]uint64, EventSlots)
	}
	for i := range min(atomic.LoadUint32(&r.l.p.events), EventSlots) {
		e := &r.l.p.event[i]
		n := atomic.LoadUint64(&e.unlisted)
		if n > r.unlisted[i] && n < Believable {
			f(e.typ, e.port, n-r.unlisted[i])
			r.unlisted[i] = n
		}
	}
}

// Rounds calls f with each round of each probe, those of one probe in order. f may use the round until it returns. It
// returns ErrDamaged if the indexes of a ring are impossible.
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

// Commands calls f with each command, in order. It returns ErrDamaged if the indexes are impossible.
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
