package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"rdma_events/internal/clock"
	"rdma_events/internal/ledger"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// ErrAbandoned is wrapped by Supervisor.Run when it had to leave a worker
// behind that the kernel does not let die.
var ErrAbandoned = errors.New("worker cannot be killed")

// Config says how to supervise the workers of one device.
type Config struct {
	Exe     *os.File // the workers' program, from OpenExe; stays the caller's
	Dir     *Dir     // for sockets; stays the caller's
	Request verbs.Request
	Env     []string // "key=value" for the workers beyond what is taken from the host's
	Timing  Timing
	Starts  *Starts        // shared by all supervisors of the host; nil: workers start without regard to others
	Log     *slog.Logger   // nil: no log
	Rand    func() float64 // in [0,1), for the jitter of delays; nil: math/rand
}

// Timing is how long a Supervisor waits for what. The value of DefaultTiming
// is taken for a member that is 0.
type Timing struct {
	Start    time.Duration // from the fork to the handshake; a fork that takes twice as long is given up
	Beat     time.Duration // without a batch the worker is hung
	Stuck    time.Duration // a verbs call that lasts longer is stuck
	Grace    time.Duration // for a worker to close its device and exit
	Kill     time.Duration // for a killed worker to be gone
	Retry    time.Duration // the first delay before a restart; it doubles
	RetryMax time.Duration
	Slow     time.Duration // between attempts when somebody must do something first
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

// process is a started worker.
type process interface {
	// PID is 0 until the fork.
	PID() int
	// Started is closed when the start is over: the worker has shaken hands, or has
	// not in time, or is gone.
	Started() <-chan struct{}
	// Batches is closed when the stream has ended. Ask and Kill end it.
	Batches() <-chan verbs.Batch
	// Ask tells the worker to close its device and exit.
	Ask()
	// Kill sends SIGKILL to the worker and all it has started.
	Kill()
	// Done is closed when the worker is gone and all of it released.
	Done() <-chan struct{}
	// Report is valid once Done is closed.
	Report() *report
}

// Supervisor keeps one worker for one device running. The caller owns the
// goroutine of Run; Wake may be called by any.
type Supervisor struct {
	cfg     Config
	device  string
	handler verbs.Handler
	launch  func(ledger *os.File) (process, error) // takes over the file
	mono    func() int64                           // CLOCK_MONOTONIC, ns
	wake    chan struct{}

	backoff backoff
	status  status.Status
	started uint64
	crashes uint64
	said    string // the last message logged, without its delay
}

// New returns the Supervisor of the device c.Request.Options.Device.
func New(c Config, h verbs.Handler) *Supervisor {
	c.Timing = c.Timing.orDefault()
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("device", c.Request.Options.Device)
	s := &Supervisor{
		cfg:     c,
		device:  c.Request.Options.Device,
		handler: h,
		mono:    clock.Monotonic,
		wake:    make(chan struct{}, 1),
		backoff: backoff{first: c.Timing.Retry, limit: c.Timing.RetryMax, rand: c.Rand},
		status:  status.Status{Reason: status.ReasonOK},
	}
	s.launch = s.session
	return s
}

func (s *Supervisor) session(ledger *os.File) (process, error) {
	dir, again, err := s.cfg.Dir.Use()
	if err != nil {
		return nil, errors.Join(err, ledger.Close())
	}
	if again {
		s.cfg.Log.Warn("the runtime directory was removed by another process; workers have their sockets in " + dir + " now")
	}
	return startSession(sessionConfig{
		exe: s.cfg.Exe, ledger: ledger, dir: dir, env: s.cfg.Env,
		request: s.cfg.Request, limit: s.cfg.Timing.Start, log: s.cfg.Log,
	})
}

// Wake says that the device is there again, or that another attempt may
// succeed: it ends the wait after a removal and the slow one between hopeless
// attempts. It does not block; before or while the worker runs it counts for
// the next such wait.
func (s *Supervisor) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run starts workers, one after another, until ctx is done; then it has the
// running one close its device, for at most Timing.Grace and Timing.Kill, and
// returns nil, or ErrAbandoned if that one is still there. All else it reports
// to the Handler, in calls from this goroutine, and to the log.
func (s *Supervisor) Run(ctx context.Context) error {
	var err error
	for ctx.Err() == nil && err == nil {
		v := s.live(ctx)
		err = s.rest(ctx, v)
	}
	s.setStatus(status.Status{State: status.StateStopped, Reason: status.ReasonOK})
	return err
}

// verdict is what one worker's life came to.
type verdict struct {
	why   status.End
	then  retry
	trace string          // of a crash, one line; "": there is none
	left  <-chan struct{} // nil, or of a worker that could not be killed: closed when it is gone
}

// live is one worker, from its ledger to its last word.
func (s *Supervisor) live(ctx context.Context) verdict {
	s.started++
	s.setStatus(status.Status{State: status.StateStarting, Reason: s.status.Reason, Message: s.status.Message})
	leave, ok := s.cfg.Starts.enter(ctx)
	if !ok {
		return verdict{}
	}
	defer leave()
	led, file, err := ledger.New(s.device)
	if err != nil {
		return verdict{why: unstarted(s.device, err), then: retrySlowly}
	}
	defer led.Close()
	s.handler.Started(led)
	p, err := s.launch(file)
	if err != nil {
		v := verdict{why: unstarted(s.device, err), then: retrySlowly}
		s.handler.Ended(v.why)
		return v
	}
	v := s.attend(ctx, p, led, leave)
	s.handler.Ended(v.why)
	return v
}

// rest waits until another worker may be started.
func (s *Supervisor) rest(ctx context.Context, v verdict) error {
	if v.left != nil {
		return s.restUntilGone(ctx, v)
	}
	if ctx.Err() == nil {
		s.pause(ctx, v)
	}
	return nil
}

// pause says what is wrong, and waits for as long as that calls for.
func (s *Supervisor) pause(ctx context.Context, v verdict) {
	var delay <-chan time.Time
	var wake <-chan struct{}
	state, plan := status.StateBackingOff, ""
	switch v.then {
	case retrySoon:
		d := s.backoff.step()
		delay, plan = time.After(d), fmt.Sprintf("restarting in %v", d.Round(time.Millisecond))
	case retrySlowly:
		delay, wake = time.After(s.backoff.jitter(s.cfg.Timing.Slow)), s.wake
		plan = fmt.Sprintf("trying again every %v", s.cfg.Timing.Slow)
	case retryOnWake:
		wake, state, plan = s.wake, status.StateStopped, "waiting for it to come back"
	}
	s.say(v, plan)
	s.setStatus(status.Status{State: state, Reason: v.why.Reason, Message: v.why.Message + "; " + plan})
	select {
	case <-delay:
	case <-wake:
	case <-ctx.Done():
	}
}

// restUntilGone waits for a worker in an uninterruptible call: a second one on
// the same device would end there too.
func (s *Supervisor) restUntilGone(ctx context.Context, v verdict) error {
	s.say(v, "waiting for the kernel to let it go")
	s.setStatus(status.Status{State: status.StateStuck, Reason: status.ReasonStuck, Message: v.why.Message, PID: s.status.PID})
	select {
	case <-v.left:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-v.left:
		return nil
	default:
		return fmt.Errorf("%w: %s", ErrAbandoned, v.why.Message)
	}
}

// say logs why a worker ended, and the trace of its crash in a line of its own,
// once until there is something else to say.
func (s *Supervisor) say(v verdict, plan string) {
	level, detail := slog.LevelWarn, slog.LevelWarn
	switch {
	case s.said == v.why.Message:
		level, detail = slog.LevelDebug, slog.LevelDebug
	case v.why.Reason == status.ReasonCrashed || v.why.Reason == status.ReasonStuck:
		level = slog.LevelError
	}
	s.said = v.why.Message
	s.cfg.Log.Log(context.Background(), level, v.why.Message+"; "+plan, "reason", string(v.why.Reason))
	if v.trace != "" {
		s.cfg.Log.Log(context.Background(), detail, "trace of the crash: "+v.trace)
	}
}

func (s *Supervisor) setStatus(n status.Status) {
	n.Restarts, n.Crashes = max(s.started, 1)-1, s.crashes
	if n == s.status {
		return
	}
	s.status = n
	s.handler.Status(n)
}
