package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rdma_events/internal/sys/wake"
)

// Limits and default of Config.SizeMiB.
const (
	MinSizeMiB     = 8
	DefaultSizeMiB = 64
	MaxSizeMiB     = 1024
)

const (
	// maxQueued is the maximum number of entries that wait while the writer writes earlier entries.
	maxQueued = 4096
	// maxYielding is the queue length from which on no entry of a yielding kind is queued.
	maxYielding = maxQueued / 2
	// defaultCloseTime is the default of Config.CloseTime.
	defaultCloseTime = 200 * time.Millisecond
)

// Config configures a Recorder. All fields except SizeMiB, Yielding, Host, AliveEvery and CloseTime are required.
type Config struct {
	// Directory is created with mode 0700 if it is missing. Its parent directory has to exist.
	Directory string
	// SizeMiB limits the total size of all segments; 0: DefaultSizeMiB.
	SizeMiB int
	// Yielding lists the kinds that never displace other kinds. In a full directory their records are removed first, except
	// in the newest quarter. They can use only half of the queue. nil: no kind yields.
	Yielding []string
	// BootID is the kernel's ID of the current boot.
	BootID string
	// Host is the host name in each record. It distinguishes copies of the directories of several hosts. It may be empty.
	Host string
	// AliveEvery is the time without a record after which the recorder writes a record that it is still running (KindAlive).
	// 0: there is no such record.
	AliveEvery time.Duration
	// CloseTime limits the time that Run may take after its context ends: three quarters to write the queue, the rest to
	// write the last records and sync the file. 0: 200 ms.
	CloseTime time.Duration
	// Clock returns CLOCK_REALTIME and CLOCK_BOOTTIME at the same moment, in ns. It is called concurrently.
	Clock func() (wall, boot int64)
	// Log gets a line when the directory cannot be opened, when the disk fails, when it works again, and for each segment
	// that the recorder cannot use.
	Log *slog.Logger
}

// Counts holds the counters of a Recorder since Open. Each call of Add counts in Recorded or in Lost, or in both if the
// entry was written but the disk then lost it. The recorder's internal records count in neither.
type Counts struct {
	Recorded uint64 // entries that were written
	Errors   uint64 // failed writes, syncs and retries, and entries that could not be encoded
	// Lost counts the entries that were not written and never will be. It also counts entries that may be lost because a
	// sync failed, or their segment was removed, after they were written and before they were synced.
	Lost uint64
	// Synced is the sequence of the last record that was synced to the disk; 0: none.
	Synced uint64
}

type counters struct{ recorded, errors, lost, synced atomic.Uint64 }

// Recorder writes records to a directory. Add and Counts may be called concurrently, at any time. Run must be called once;
// until then, entries only wait in the queue.
type Recorder struct {
	closeTime time.Duration // Config.CloseTime
	counts    counters
	queue     queue
	writer    *writer
}

// Open checks the configuration and returns a Recorder. It does not access the disk, which may be slow. Run opens and locks
// the directory, and retries every minute while that fails.
func Open(c Config) (*Recorder, error) { return open(c, func(f file) file { return f }) }

// open is like Open, but passes each file of the writer through wrap.
func open(c Config, wrap func(file) file) (*Recorder, error) {
	if c.SizeMiB == 0 {
		c.SizeMiB = DefaultSizeMiB
	}
	if c.SizeMiB < MinSizeMiB || c.SizeMiB > MaxSizeMiB {
		return nil, fmt.Errorf("open recorder: size of %d MiB is not between %d and %d", c.SizeMiB, MinSizeMiB, MaxSizeMiB)
	}
	if c.Directory == "" {
		return nil, errors.New("open recorder: no directory")
	}
	if c.CloseTime == 0 {
		c.CloseTime = defaultCloseTime
	}
	r := &Recorder{closeTime: c.CloseTime, queue: queue{clock: c.Clock, yielding: c.Yielding, wake: wake.New()}}
	r.writer = newWriter(c, &r.queue, &r.counts, newStore(c, wrap))
	return r, nil
}

// Add queues an entry. It never waits for the disk. If 4,096 entries already wait (2,048 for a yielding kind), or Run has
// ended, Add counts the entry as lost.
func (r *Recorder) Add(e Entry) {
	if !r.queue.enqueue(e) {
		r.counts.lost.Add(1)
	}
}

// Counts returns the counters.
func (r *Recorder) Counts() Counts {
	return Counts{
		Recorded: r.counts.recorded.Load(), Errors: r.counts.errors.Load(),
		Lost: r.counts.lost.Load(), Synced: r.counts.synced.Load(),
	}
}

// Run opens the directory and writes records until ctx ends. It then writes the queued entries, closes the directory and
// returns within Config.CloseTime. The error tells what could not be written. If the disk does not respond in time, Run
// leaves the writing goroutine behind. That goroutine ends when its call returns, counts its entries and releases the lock.
func (r *Recorder) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- r.writer.run(ctx) }()
	<-ctx.Done()
	late := time.NewTimer(r.closeTime)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		r.counts.lost.Add(uint64(len(r.queue.close(nil).entries)))
		return fmt.Errorf("close recorder in %s: the disk did not answer within %s", r.writer.path, r.closeTime)
	}
}

// queue holds the entries between Add and the writer.
type queue struct {
	clock    func() (wall, boot int64)
	yielding []string
	wake     wake.Signal // holds a token if the queue may have entries

	mu      sync.Mutex
	entries []stamped
	lost    uint64 // entries lost after the queued ones
	since   int64  // wall clock when the first of them was lost
	closed  bool
}

// enqueue queues an entry, and reports whether there was space for it. It reads the clock while it holds the lock, so that
// the boot clock increases with the sequence.
func (q *queue) enqueue(e Entry) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	wall, boot := q.clock()
	queued := len(q.entries) < q.limitFor(e.Kind)
	if queued {
		q.entries = append(q.entries, stamped{Entry: e, wall: wall, boot: boot})
	} else {
		if q.lost == 0 {
			q.since = wall
		}
		q.lost++
	}
	q.mu.Unlock()
	q.wake.Send()
	return queued
}

// limitFor returns the queue length up to which entries of a kind are queued.
func (q *queue) limitFor(kind string) int {
	if slices.Contains(q.yielding, kind) {
		return maxYielding
	}
	return maxQueued
}

// queueContents is the content of the queue at one moment.
type queueContents struct {
	entries []stamped
	lost    uint64 // entries lost after the queued ones
	since   int64  // wall clock when the first of them was lost
	now     stamped
}

// takeAll empties the queue and returns its content. The queue uses the memory of reuse for later entries.
func (q *queue) takeAll(reuse []stamped) queueContents {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked(reuse)
}

// close is like takeAll, but also makes the queue refuse later entries.
func (q *queue) close(reuse []stamped) queueContents {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	return q.takeLocked(reuse)
}

func (q *queue) takeLocked(reuse []stamped) queueContents {
	t := queueContents{entries: q.entries, lost: q.lost, since: q.since}
	t.now.wall, t.now.boot = q.clock()
	q.entries, q.lost = reuse[:0], 0
	return t
}
