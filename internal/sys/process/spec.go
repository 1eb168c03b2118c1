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
	Name     string   // name of the program, such as "rdma-events-worker"
	Title    string   // first argument, which ps(1) shows
	Subject  string   // name of the process in messages, such as "worker of mlx5_0"
	Resource string   // resource that the process holds and has to close, such as "device"
	Option   string   // configuration option that names the program, such as "worker_path"
	Env      []string // complete environment, "key=value"
	// KernelCloses means that the kernel closes the resource when the process ends, which takes a while. The Supervisor then
	// does not report a process as stuck while it is ending.
	KernelCloses bool

	Handshake Handshake
	// Present reports whether the resource is present; nil: it always is. It must not block. While the resource is missing, the
	// Supervisor starts no process. The caller has to call Wake when the resource is present again.
	Present func() bool

	Timing Timing
	Starts *Starts        // shared by all supervisors of the host; nil: starts are not limited
	Log    *slog.Logger   // nil: no log
	Rand   func() float64 // in [0,1), for the jitter of delays; nil: math/rand
}

// Handshake identifies a host and its child to each other.
type Handshake struct {
	Key, Value string // environment variable of the child
	Version    int    // version of the contract; it changes with every change that is not purely additive
}

// Contract defines what a host and its children exchange. M is a message of a child. The
// goroutine of Run calls the methods.
type Contract[M any] interface {
	// Begin prepares one process. The process gets the returned files as descriptors from 5
	// on. The Supervisor takes ownership of the files.
	Begin() (a Attempt[M], shared []*os.File, err error)
	// Status is called for each change of the status that does not come with a message.
	Status(status.Status)
}

// Attempt is one process under a Contract. Stream runs in a separate goroutine, which also
// calls Sign and Take from within next. The goroutine of Run calls the other methods. Except
// for Stream, no two methods run at the same time, and no method may block.
type Attempt[M any] interface {
	// Stream asks the child for its messages and calls next for each until next fails,
	// ctx is done, or the stream ends. When ctx is done, it may ask for final messages if the
	// child then ends by itself. Otherwise the child is killed after Timing.Grace.
	Stream(ctx context.Context, c *grpc.ClientConn, next func(M) error) error
	// Sign returns the information in a message about its sender. It has no side effects.
	Sign(M) Sign
	// Take handles a message, with the resulting status.
	Take(M, status.Status)
	// Alive returns a number that changes as long as the child lives, whether or not it sends
	// messages. It is constant if only messages show that the child lives.
	Alive() int64
	// Busy returns the call that the child is in, and of several calls the longest one. It
	// ignores a call that does not stop the rest of the child if held returns true for the TID
	// of its thread. If held is nil, Busy ignores no call.
	Busy(held func(thread int) bool) Call
	// Faulted returns the call in which a processor fault may have ended the child, and of
	// several calls the longest one.
	Faulted() Call
	// Ended is called once, when the process has ended or was left behind. It releases
	// everything that Begin created.
	Ended(status.End)
}

// Sign is the information in a message about its sender.
type Sign struct {
	Running bool        // the child does its work
	End     *status.End // why the child is about to exit; nil: it is not about to exit
	Retry   Retry       // when the next process may succeed; only with End
}

// Retry selects when the next process is started after one has ended.
type Retry int

// Values of Retry.
const (
	Soon   Retry = iota // after an increasing delay
	Slowly              // every Timing.Slow: an operator has to act first
	OnWake              // when Wake is called: the resource is missing
	Rarely              // when Wake is called, and every Timing.Rare: nothing is wrong, and no operator has to act
)

// Call is a call that the child is in and that may hang.
type Call struct {
	Name  string // "": none
	Since int64  // CLOCK_MONOTONIC ns
}

// Timing has the limits and delays of a Supervisor. The value 0 of a field means the value of
// DefaultTiming.
type Timing struct {
	Start    time.Duration // limit from the fork to the handshake, if the child reports no progress
	Load     time.Duration // additional time for a child that reports progress; a fork may take twice as long as both
	Beat     time.Duration // time between two checks; a child without a sign of life in between hangs
	Stuck    time.Duration // limit for a call; a longer call is stuck
	Grace    time.Duration // limit for a child to close its resource and exit
	Kill     time.Duration // limit for a killed child to end
	Retry    time.Duration // first delay before a restart; each further delay is twice as long
	RetryMax time.Duration // longest delay before a restart
	Slow     time.Duration // between attempts while an operator has to act first
	Rare     time.Duration // between attempts that are not expected to succeed
	Well     time.Duration // a process that has run for this time resets the delay to Retry
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
