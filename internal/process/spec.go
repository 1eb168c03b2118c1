package process

import (
	"context"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	"rdma_events/internal/status"
)

// Spec says which program to keep running, and how to speak of it.
type Spec struct {
	Exe      *os.File // the program, from OpenExe; stays the caller's
	Dir      *Dir     // for sockets; stays the caller's
	Name     string   // of the program, as in "rdma-events-worker"
	Title    string   // its first argument, which ps(1) shows
	Subject  string   // the process in messages, as in "worker of mlx5_0"
	Resource string   // what it holds and has to close, as in "device"
	Option   string   // the configuration option that names the program, as in "worker_path"
	Env      []string // its environment, "key=value", all of it

	Handshake Handshake
	Timing    Timing
	Starts    *Starts        // shared by all supervisors of the host; nil: processes start without regard to others
	Log       *slog.Logger   // nil: no log
	Rand      func() float64 // in [0,1), for the jitter of delays; nil: math/rand
}

// Handshake is how host and child recognise each other.
type Handshake struct {
	Key, Value string // an environment variable that a child is started with
	Version    int    // of the contract; it changes with every change that is not additive
}

// Contract is what a host and its children have agreed on. M is a message of a
// child. Its methods are called from the goroutine of Run.
type Contract[M any] interface {
	// Begin prepares one process, which gets the returned file as descriptor 4. The
	// file, which may be nil, is the Supervisor's from then on.
	Begin() (a Attempt[M], shared *os.File, err error)
	// Status is called for each change of the status that no message brings.
	Status(status.Status)
}

// Attempt is one process under a Contract. All methods but Stream are called from
// the goroutine of Run, and none of these may block.
type Attempt[M any] interface {
	// Stream asks the child for its messages and calls next for each until that
	// fails, ctx is done, or the stream ends. It runs in a goroutine of its own.
	Stream(ctx context.Context, c *grpc.ClientConn, next func(M) error) error
	// Sign returns what a message says about its sender. It has no effect.
	Sign(M) Sign
	// Take handles a message, with the status that follows from it.
	Take(M, status.Status)
	// Busy returns the call that the child is in.
	Busy() Call
	// Ended is called once, when the process is gone or was given up, and releases
	// what Begin made.
	Ended(status.End)
}

// Sign is what a message says about its sender.
type Sign struct {
	Running bool        // it does what it was started for
	End     *status.End // it is about to exit, and why; nil: it is not
	Retry   Retry       // with End: when another process may succeed
}

// Retry is when another process is started after one has ended.
type Retry int

// The retries.
const (
	Soon   Retry = iota // after a delay that grows
	Slowly              // every Timing.Slow: an operator has to act first
	OnWake              // when Wake is called: what it would hold is not there
)

// Call is a call of the child that may hang.
type Call struct {
	Name  string // "": none
	Since int64  // CLOCK_MONOTONIC ns
}

// Timing is how long a Supervisor waits for what. The value of DefaultTiming
// is taken for a member that is 0.
type Timing struct {
	Start    time.Duration // from the fork to the handshake; a fork that takes twice as long is given up
	Beat     time.Duration // without a message the child hangs
	Stuck    time.Duration // a call that lasts longer is stuck
	Grace    time.Duration // for a child to close its resource and exit
	Kill     time.Duration // for a killed child to be gone
	Retry    time.Duration // the first delay before a restart; it doubles
	RetryMax time.Duration
	Slow     time.Duration // between attempts while an operator has to act first
	Well     time.Duration // running for so long makes the next delay the first
}

// DefaultTiming is what suits a host whose own shutdown may take 3 s.
func DefaultTiming() Timing {
	return Timing{
		Start:    5 * time.Second,
		Beat:     5 * time.Second,
		Stuck:    10 * time.Second,
		Grace:    1500 * time.Millisecond,
		Kill:     500 * time.Millisecond,
		Retry:    250 * time.Millisecond,
		RetryMax: 30 * time.Second,
		Slow:     30 * time.Second,
		Well:     time.Minute,
	}
}

func (t Timing) orDefault() Timing {
	d := DefaultTiming()
	for _, m := range [...]struct{ to, from *time.Duration }{
		{&t.Start, &d.Start},
		{&t.Beat, &d.Beat},
		{&t.Stuck, &d.Stuck},
		{&t.Grace, &d.Grace},
		{&t.Kill, &d.Kill},
		{&t.Retry, &d.Retry},
		{&t.RetryMax, &d.RetryMax},
		{&t.Slow, &d.Slow},
		{&t.Well, &d.Well},
	} {
		if *m.to == 0 {
			*m.to = *m.from
		}
	}
	return t
}
