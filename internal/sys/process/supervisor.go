package process

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/sys/wake"
)

// ErrAbandoned is in the error of Supervisor.Run if Run had to leave a process behind: it was
// killed, but the kernel holds it, or it has had no CPU time to exit.
var ErrAbandoned = errors.New("the killed process has not ended")

// abandoned is the error for a process that was left behind.
type abandoned struct {
	message string
	left    <-chan struct{} // closed when the process has ended
}

func (e *abandoned) Error() string { return ErrAbandoned.Error() + ": " + e.message }

func (e *abandoned) Unwrap() error { return ErrAbandoned }

// Left returns a channel that is closed when the process has ended after all.
func (e *abandoned) Left() <-chan struct{} { return e.left }

// instance is a started process.
type instance interface {
	// PID returns the process number, 0 until the fork.
	PID() int
	// Started is closed when the start is over: the handshake is complete or was not
	// complete in time, or the child has ended.
	Started() <-chan struct{}
	// Slow is closed when the start has taken Timing.Start and the child has reported
	// progress.
	Slow() <-chan struct{}
	// Step returns the last step of the start that the child has reported, or "" if there is none.
	Step() string
	// Streamed is closed when the stream has ended. Ask and Kill end the stream.
	Streamed() <-chan struct{}
	// Ask asks the child to close its resource and to exit.
	Ask()
	// Kill sends SIGKILL to the child and its process group.
	Kill()
	// Done is closed when the child has ended and its resources are released.
	Done() <-chan struct{}
	// Report is valid once Done is closed.
	Report() *report
}

// Supervisor keeps one process running, and is the only one that decides its status.Status.
// The caller provides the goroutine of Run. Any goroutine may call Wake.
type Supervisor[M any] struct {
	spec     Spec
	contract Contract[M]
	launch   func(a Attempt[M], shared []*os.File, deliver func(M) error) (instance, error) // takes over the files
	mono     func() int64                                                                   // CLOCK_MONOTONIC, ns
	exits    func(pid int) bool                                                             // isExiting
	runnable func(pid int) bool                                                             // isRunnable
	wake     wake.Signal

	restarts *Restarts
	status   status.Status
	started  uint64
	crashes  uint64
	lastLog  string // the last logged message, without the plan for the next start
	slow     bool   // a slow start has been logged
}

// New returns the Supervisor of a program under a contract.
func New[M any](s Spec, c Contract[M]) *Supervisor[M] {
	s.Timing = s.Timing.orDefault()
	if s.Rand == nil {
		s.Rand = rand.Float64
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	v := &Supervisor[M]{
		spec:     s,
		contract: c,
		mono:     clock.Monotonic,
		exits:    isExiting,
		runnable: isRunnable,
		wake:     wake.New(),
		restarts: NewRestarts(s.Timing, s.Rand),
		status:   status.Status{Reason: status.ReasonOK},
	}
	v.launch = v.start
	return v
}

func (s *Supervisor[M]) start(a Attempt[M], shared []*os.File, deliver func(M) error) (instance, error) {
	dir, renewed, err := s.spec.Dir.Use()
	if err != nil {
		closeAll(shared)
		return nil, err
	}
	if renewed {
		s.spec.Log.Warn("runtime directory was removed by another process, created a new one", "directory", dir)
	}
	return startClient(&s.spec, dir, a, shared, deliver)
}

// Wake tells the Supervisor that the resource of the child is present again, or that another
// attempt may succeed. It ends a wait of OnWake, Slowly or Rarely. A call while there is no
// such wait ends the next one. Wake does not block.
func (s *Supervisor[M]) Wake() {
	s.wake.Send()
}

// Run starts processes, one after another, until ctx is done. It then makes the running
// process close its resource, for at most Timing.Grace plus Timing.Kill, and returns nil. If
// the process still exists then, Run returns an error that wraps ErrAbandoned. That error has
// a method Left, which returns a channel that is closed when the process has ended after all.
// Run reports everything else to the Contract and its Attempt, and to the log.
func (s *Supervisor[M]) Run(ctx context.Context) error {
	var err error
	for ctx.Err() == nil && err == nil {
		d := s.attempt(ctx)
		switch {
		case d.left != nil:
			err = s.awaitExit(ctx, d)
		case ctx.Err() == nil:
			s.awaitRestart(ctx, d)
		}
	}
	s.setStatus(status.Status{State: status.StateStopped, Reason: status.ReasonOK})
	return err
}

// decision records why a process ended and what to do next.
type decision struct {
	why   status.End
	retry Retry
	trace string          // traceback of a crash, as one line; "": none
	left  <-chan struct{} // closed when a killed process that did not end in time has ended; nil: no such process
}

// attempt runs one process from start to end.
func (s *Supervisor[M]) attempt(ctx context.Context) decision {
	if s.spec.Present != nil && !s.spec.Present() {
		return decision{why: status.End{Reason: status.ReasonRemoved, Message: s.spec.Title + " was removed"}, retry: OnWake}
	}
	s.started++
	s.setStatus(status.Status{State: status.StateStarting, Reason: s.status.Reason, Message: s.status.Message})
	release, ok := s.spec.Starts.acquire(ctx)
	if !ok {
		return decision{}
	}
	defer release()
	a, shared, err := s.contract.Begin()
	if err != nil {
		return decision{why: startFailure(&s.spec, err), retry: Slowly}
	}
	f, err := s.startFollowed(a, shared)
	if err != nil {
		d := decision{why: startFailure(&s.spec, err), retry: Slowly}
		a.Ended(d.why)
		return d
	}
	d := s.follow(ctx, f, release)
	a.Ended(d.why)
	return d
}

// awaitRestart logs why a process ended, and waits until it is time to start the next one.
func (s *Supervisor[M]) awaitRestart(ctx context.Context, d decision) {
	next := s.restarts.After(d.retry)
	var delay <-chan time.Time
	if d.retry != OnWake {
		delay = time.After(next.For)
	}
	var wake <-chan struct{}
	if next.Wakes {
		wake = s.wake
	}
	s.log(d, next.Plan)
	s.setStatus(status.Status{State: next.State, Reason: d.why.Reason, Message: d.why.Message + "; " + next.Plan})
	select {
	case <-delay:
	case <-wake:
	case <-ctx.Done():
	}
}

// awaitExit waits for the end of a killed process. It starts no second process, because that
// would get stuck on the same resource.
func (s *Supervisor[M]) awaitExit(ctx context.Context, d decision) error {
	s.log(d, "waiting until it has ended")
	s.setStatus(status.Status{State: status.StateStuck, Reason: status.ReasonStuck, Message: d.why.Message, PID: s.status.PID})
	select {
	case <-d.left:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-d.left:
		return nil
	default:
		return &abandoned{d.why.Message, d.left}
	}
}

// log logs why a process ended, and the traceback of a crash in a separate line. If the
// previous end had the same message, it logs at level Debug.
func (s *Supervisor[M]) log(d decision, plan string) {
	level, detail := slog.LevelWarn, slog.LevelWarn
	switch {
	case s.lastLog == d.why.Message:
		level, detail = slog.LevelDebug, slog.LevelDebug
	case d.why.Reason == status.ReasonCrashed || d.why.Reason == status.ReasonStuck:
		level = slog.LevelError
	case d.retry == Rarely:
		level = slog.LevelInfo
	}
	s.lastLog = d.why.Message
	s.spec.Log.Log(context.Background(), level, d.why.Message+"; "+plan, "reason", string(d.why.Reason))
	if d.trace != "" {
		s.spec.Log.Log(context.Background(), detail, "traceback of the crash: "+d.trace)
	}
}

// setStatus reports a change of the status that does not come with a message of the child.
func (s *Supervisor[M]) setStatus(n status.Status) {
	if n = s.counted(n); n != s.status {
		s.status = n
		s.contract.Status(n)
	}
}

// counted returns n with the current counts of restarts and crashes.
func (s *Supervisor[M]) counted(n status.Status) status.Status {
	n.Restarts, n.Crashes = max(s.started, 1)-1, s.crashes
	return n
}
