package process

import (
	"context"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	"rdma_events/internal/sys/status"
)

// Spec describes the program to keep running, and its names in messages.
type Spec struct {
	Exe      *os.File // the program, from OpenExe; the caller closes it
	Dir      *Dir     // for sockets; the caller closes it
	Name     string   // the name of the program, as in "rdma-events-worker"
	Title    string   // its first argument, which ps(1) shows
	Subject  string   // the name of the process in messages, as in "worker of mlx5_0"
	Resource string   // the resource that it holds and has to close, as in "device"
	Option   string   // the configuration option that names the program, as in "worker_path"
	Env      []string // its whole environment, "key=value"
	// KernelCloses says that the kernel closes the resource when the process ends, which takes a while: a process that is
	// about to end is left to it, and not called stuck.
	KernelCloses bool

	Handshake Handshake
	// Present reports whether the resource is there; nil: it always is. It must not block. No process is
	// started without the resource, and Wake is to be called when it is there again.
	Present func() bool

	Timing Timing
	Starts *Starts        // shared by all supervisors of the host; nil: starts are not limited
	Log    *slog.Logger   // nil: no log
	Rand   func() float64 // in [0,1), for the jitter of delays; nil: math/rand
}

// Handshake is how a host and its child recognise each other.
type Handshake struct {
	Key, Value string // an environment variable that a child is started with
	Version    int    // of the contract; it changes with every change that is not additive
}

// Contract is the agreement between a host and its children. M is a message of a child.
// The methods are called from the goroutine of Run.
type Contract[M any] interface {
	// Begin prepares one process, which gets the returned files as descriptors from 5
	// on. The Supervisor takes over the files.
	Begin() (a Attempt[M], shared []*os.File, err error)
	// Status is called for each change of the status that no message brings.
	Status(status.Status)
}

// Attempt is one process under a Contract. Stream runs in a goroutine of its own, which
// also calls Sign and Take, from within next; the goroutine of Run calls the
// others. No two of them run at a time but for Stream, and none but Stream may block.
type Attempt[M any] interface {
	// Stream asks the child for its messages and calls next for each until next fails,
	// ctx is done, or the stream ends. When ctx is done it may ask for last messages, if
	// the child then ends by itself: one that does not is killed after Timing.Grace.
	Stream(ctx context.Context, c *grpc.ClientConn, next func(M) error) error
	// Sign returns the information that a message has about its sender. It changes
	// nothing.
	Sign(M) Sign
	// Take handles a message, with the status that follows from it.
	Take(M, status.Status)
	// Alive returns a number that changes as long as the child lives, whether or not it
	// sends messages. It is constant if nothing but messages shows that.
	Alive() int64
	// Busy returns the call that the child is in, of several the one that lasts longest.
	// It leaves out a call without which the rest of the child works if held returns true
	// for its thread, by TID. held may be nil: then it leaves out none.
	Busy(held func(thread int) bool) Call
	// Faulted returns the call in which a signal of the processor can have ended the
	// child, of several the one that lasts longest.
	Faulted() Call
	// Ended is called once, when the process is gone or was given up. It releases
	// everything that Begin made.
	Ended(status.End)
}

// Sign is the information that a message has about its sender.
type Sign struct {
	Running bool        // the child does the work that it was started for
	End     *status.End // why the child is about to exit; nil: it is not
	Retry   Retry       // if End is set: when another process may succeed
}

// Retry is when another process is started after one has ended.
type Retry int

// The retries.
const (
	Soon   Retry = iota // after a delay that grows
	Slowly              // every Timing.Slow: an operator has to act first
	OnWake              // when Wake is called: the resource is not there
	Rarely              // when Wake is called, and every Timing.Rare: nothing is wrong, and no operator has to act
)

// Call is a call of the child that may hang.
type Call struct {
	Name  string // "": none
	Since int64  // CLOCK_MONOTONIC ns
}

// Timing has the limits and delays of a Supervisor. A field that is 0 gets its value from
// DefaultTiming.
type Timing struct {
	Start    time.Duration // from the fork to the handshake, unless the child has reported progress by then
	Load     time.Duration // from then on, for a child that has; a fork that takes twice as long as both is given up
	Beat     time.Duration // a child that shows no sign of life between two checks, which are so far apart, hangs
	Stuck    time.Duration // a call that lasts longer is stuck
	Grace    time.Duration // for a child to close its resource and exit
	Kill     time.Duration // for a killed child to be gone
	Retry    time.Duration // the first delay before a restart; it doubles
	RetryMax time.Duration
	Slow     time.Duration // between attempts while an operator has to act first
	Rare     time.Duration // between attempts that are not expected to succeed
	Well     time.Duration // a process that has run for so long resets the delay to Retry
}

// DefaultTiming returns the timing for a host whose own shutdown may take 3 s.
func DefaultTiming() Timing {
	return Timing{
		Start:    5 * time.Second,
		Load:     time.Minute,
		Beat:     5 * time.Second,
		Stuck:    10 * time.Second,
		Grace:    1500 * time.Millisecond,
		Kill:     500 * time.Millisecond,
		Retry:    250 * time.Millisecond,
		RetryMax: 30 * time.Second,
		Slow:     30 * time.Second,
		Rare:     time.Hour,
		Well:     time.Minute,
	}
}

func (t Timing) orDefault() Timing {
	d := DefaultTiming()
	for _, m := range [...]struct{ to, from *time.Duration }{
		{&t.Start, &d.Start},
		{&t.Load, &d.Load},
		{&t.Beat, &d.Beat},
		{&t.Stuck, &d.Stuck},
		{&t.Grace, &d.Grace},
		{&t.Kill, &d.Kill},
		{&t.Retry, &d.Retry},
		{&t.RetryMax, &d.RetryMax},
		{&t.Slow, &d.Slow},
		{&t.Rare, &d.Rare},
		{&t.Well, &d.Well},
	} {
		if *m.to == 0 {
			*m.to = *m.from
		}
	}
	return t
}
