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

// The limits of Config.SizeMiB.
const (
	MinSizeMiB     = 8
	DefaultSizeMiB = 64
	MaxSizeMiB     = 1024
)

const (
	// maxQueued is how many entries wait at most while the writer's goroutine writes those before them.
	maxQueued = 4096
	// maxYielding is as many after which no entry of a yielding kind is queued.
	maxYielding = maxQueued / 2
	// defaultCloseTime is Config.CloseTime unless that is set.
	defaultCloseTime = 200 * time.Millisecond
)

// Config is what a Recorder needs. All fields but SizeMiB, Yielding, Host and AliveEvery are required.
type Config struct {
	// Directory is made with mode 0700 if it is missing; the directory above it has to exist.
	Directory string
	// SizeMiB bounds the segments together; 0: DefaultSizeMiB.
	SizeMiB int
	// Yielding are the kinds that displace no other: while records of them are outside the newest quarter of a full
	// directory, these go first, and they have half of the places in which entries wait. nil: none.
	Yielding []string
	// BootID is the kernel's name of this boot.
	BootID string
	// Host names the host in each record, so that copies of several hosts' directories can be told apart. It may be empty.
	Host string
	// AliveEvery is how long nothing is written before a record says that the recorder still runs. 0: there is no such record.
	AliveEvery time.Duration
	// CloseTime limits how long Run may continue after its context ends: three quarters of it to write the queue, the rest to
	// write the last records and sync the file. 0: 200 ms.
	CloseTime time.Duration
	// Clock returns CLOCK_REALTIME and CLOCK_BOOTTIME of one moment, in ns. It is called concurrently.
	Clock func() (wall, boot int64)
	// Log gets a line when the directory cannot be opened, when the disk fails and when it works again, and one for each
	// segment that is left alone.
	Log *slog.Logger
}

// Counts are counters of a Recorder since Open. Each call of Add ends in Recorded or in Lost, and in both if the entry
// was written and the disk then did not keep it. The recorder's own records are in neither.
type Counts struct {
	Recorded uint64 // entries that were written
	Errors   uint64 // failed writes, syncs and attempts to write again, and entries that could not be encoded
	// Lost is entries that were not written and never will be, and those that may be gone: they were written after the
	// last sync when a sync failed or when their segment was removed.
	Lost uint64
	// Synced is the sequence of the last record that the disk has acknowledged; 0: none.
	Synced uint64
}

type counters struct{ recorded, errors, lost, synced atomic.Uint64 }

// Recorder writes records to a directory. Add and Counts may be called concurrently, at any time. Run has to be called
// once, also if nothing is recorded: what was added waits for it.
type Recorder struct {
	closeTime time.Duration // Config.CloseTime
	counts    counters
	queue     queue
	writer    *writer
}

// Open checks the configuration. It does not touch the disk, which may be slow: Run opens the directory and locks it,
// and tries again every minute while that fails.
func Open(c Config) (*Recorder, error) { return open(c, func(f file) file { return f }) }

// open is Open with something between the writer and its files.
func open(c Config, wrap func(file) file) (*Recorder, error) {
	if c.SizeMiB == 0 {
		c.SizeMiB = DefaultSizeMiB
	}
	if c.SizeMiB < MinSizeMiB || c.SizeMiB > MaxSizeMiB {
		return nil, fmt.Errorf("open recorder: its size is %d MiB; allowed are %d to %d", c.SizeMiB, MinSizeMiB, MaxSizeMiB)
	}
	if c.Directory == "" {
		return nil, errors.New("open recorder: it has no directory")
	}
	if c.CloseTime == 0 {
		c.CloseTime = defaultCloseTime
	}
	r := &Recorder{closeTime: c.CloseTime, queue: queue{clock: c.Clock, yielding: c.Yielding, wake: wake.New()}}
	r.writer = newWriter(c, &r.queue, &r.counts, newStore(c, wrap))
	return r, nil
}

// Add queues an entry. It never waits for the disk. If 4,096 entries wait already, half of that for a yielding kind, or
// after Run's end, the entry is counted as lost.
func (r *Recorder) Add(e Entry) {
	if !r.queue.add(e) {
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

// Run opens the directory, writes until ctx ends, then what is queued, and closes the directory. It returns within Config.CloseTime of ctx's end. The
// error says what could not be written. If the disk does not answer by then, the goroutine that waits for it is left
// behind: it ends with its call, counts what it held, and releases the lock.
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

// queue is what Add has given and the writer has not taken.
type queue struct {
	clock    func() (wall, boot int64)
	yielding []string
	wake     wake.Signal // holds a token if there may be something to take

	mu      sync.Mutex
	entries []stamped
	lost    uint64 // after entries
	since   int64  // when the first of lost was lost
	closed  bool
}

// add reports whether the entry was queued. The clock is read under the lock, so that the boot clock rises with
// the sequence.
func (q *queue) add(e Entry) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	wall, boot := q.clock()
	queued := len(q.entries) < q.places(e.Kind)
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

// places returns how many entries may wait for one of a kind to be queued.
func (q *queue) places(kind string) int {
	if slices.Contains(q.yielding, kind) {
		return maxYielding
	}
	return maxQueued
}

// taken is what was in the queue.
type taken struct {
	entries []stamped
	lost    uint64 // after entries
	since   int64  // when the first of them was lost
	now     stamped
}

// take returns what is queued. The memory of reuse is for later entries.
func (q *queue) take(reuse []stamped) taken {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.swap(reuse)
}

// close is take, and later entries are refused.
func (q *queue) close(reuse []stamped) taken {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	return q.swap(reuse)
}

func (q *queue) swap(reuse []stamped) taken {
	t := taken{entries: q.entries, lost: q.lost, since: q.since}
	t.now.wall, t.now.boot = q.clock()
	q.entries, q.lost = reuse[:0], 0
	return t
}
