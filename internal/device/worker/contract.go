package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// contractVersion changes with every change of the contract that is not
// additive; the handshake compares it.
//
// 2: the host gives orders (Order), which a worker of contract 1 does not take.
// 3: events and rounds are in rings of the shared memory, and no longer in the stream.
const contractVersion = 3

// programName is the name of the worker program in messages and in ps(1).
const programName = "rdma-events-worker"

func handshake() process.Handshake {
	return process.Handshake{
		Version: contractVersion,
		Key:     "RDMA_EVENTS_WORKER",
		Value:   "b1c5e0a2-4d1f-4c57-9a0e-6f0d6e2c7b31",
	}
}

// Config configures the supervision of one device's workers. Fields without a comment are
// as in process.Spec.
type Config struct {
	Exe     *os.File
	Dir     *process.Dir
	Request verbs.Request // the request that each worker gets
	Reads   []string      // the files, besides libraries, that a worker reads for the request
	Present func() bool   // reports whether the device is there; it must not block; nil: it always is
	Env     []string      // "key=value", added to the variables that are taken from the host's environment
	Timing  process.Timing
	Starts  *process.Starts
	Orders  *Orders // gives orders to the worker that runs; nil: there are none
	// Expected says that the device must be watched: that the library cannot open it is a fault then
	// (status.ReasonUnsupported).
	Expected bool
	Log      *slog.Logger
	Rand     func() float64
}

// Handler receives the reports of a Supervisor: Started, Batch and Seen, Ended for each worker,
// with Status in between. No two calls overlap but for Status, and none is made after Run has returned.
// No method may block.
type Handler interface {
	// Started passes the ledger of a worker that is about to start. The ledger stays
	// mapped until Ended returns. collect calls Seen, before it returns, if the rings of the
	// ledger have something; any goroutine may call it, also after Ended, but no method of the Handler.
	Started(led *ledger.Ledger, collect func())
	// Batch is called for each batch of the worker's stream, with the status that
	// follows from it. The events and rounds that came before it are among its items. The batch is valid until Batch returns.
	Batch(verbs.Batch, status.Status)
	// Seen is called for events and rounds in the rings of the ledger when the worker has rung the doorbell, by collect, and
	// before Ended. The items are valid until Seen returns.
	Seen([]verbs.Item)
	// Ended is called when the worker has exited, or was given up; why is the reason. The
	// ledger then has its last values.
	Ended(why status.End)
	// Status is called for each change of the status that no batch brings.
	Status(status.Status)
}

// message is a message of a worker.
type message struct {
	batch verbs.Batch
	end   *status.End // why the worker is about to exit; nil: it is not
}

// Supervisor keeps one worker for one device running.
type Supervisor = process.Supervisor[message]

// New returns the Supervisor of the device c.Request.Options.Device.
func New(c Config, h Handler) *Supervisor {
	device := c.Request.Options.Device
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return process.New(process.Spec{
		Exe: c.Exe, Dir: c.Dir, Name: programName, Title: device, Subject: "worker of " + device, Resource: "device",
		Option: "worker_path", Env: slices.Concat(environment(os.Environ()), readable(c.Reads), c.Env),
		Handshake: handshake(), Present: c.Present, Timing: c.Timing, Starts: c.Starts, Log: c.Log.With("device", device), Rand: c.Rand,
	}, &contract{request: c.Request, handler: h, orders: c.Orders, expected: c.Expected})
}

// contract implements process.Contract.
type contract struct {
	request verbs.Request
	handler Handler
	orders  *Orders // nil: none

	expected bool // as in Config
}

// Begin implements process.Contract.
func (c *contract) Begin() (process.Attempt[message], []*os.File, error) {
	bell, err := ledger.NewDoorbell()
	if err != nil {
		return nil, nil, err
	}
	theirs, err := bell.Share()
	if err != nil {
		return nil, nil, errors.Join(err, bell.Close())
	}
	led, file, err := ledger.New(c.request.Options.Device)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close(), bell.Close())
	}
	a := &attempt{contract: c, led: led, bell: bell, rings: verbs.NewInbox(led)}
	a.rings.Check = func(it *verbs.Item, now int64) error { return checkItem(it, c.request.Options.Device, now) }
	c.handler.Started(led, a.collect)
	return a, []*os.File{file, theirs}, nil
}

// Status implements process.Contract.
func (c *contract) Status(s status.Status) { c.handler.Status(s) }

// attempt is one worker. It implements process.Attempt.
type attempt struct {
	*contract
	led  *ledger.Ledger
	snap ledger.Contents
	bell *ledger.Doorbell

	mu     sync.Mutex              // held while the handler gets what the rings have, so that it gets that in order
	refuse context.CancelCauseFunc // ends the stream; nil: there is none yet
	rings  *verbs.Inbox
	opened bool // the handler knows that the device is open: events come after that
	over   bool // the ledger is unmapped
}

// Rings of the doorbell that are heard at most: a broken library must not keep the host busy. What comes meanwhile is in the
// rings, and is taken together.
const (
	ringsASecond = 200
	ringsAtOnce  = 50
)

// listen takes what the rings have whenever the worker rings the doorbell, until ctx ends.
func (a *attempt) listen(ctx context.Context) {
	defer context.AfterFunc(ctx, a.bell.Wake)()
	pace := rate.NewLimiter(ringsASecond, ringsAtOnce)
	for a.bell.Wait() == nil && pace.Wait(ctx) == nil {
		a.collect()
	}
}

// collect hands on what the rings have. Before the handler knows that the device is open, it is left there.
func (a *attempt) collect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opened && !a.over {
		if items := a.take(nil); len(items) > 0 {
			a.handler.Seen(items)
		}
	}
}

// take merges the items of the stream, which Stream has checked, with those in the rings, which the Inbox checks. The caller must
// hold a.mu.
func (a *attempt) take(items []verbs.Item) []verbs.Item {
	all, err := a.rings.Merge(items, clock.Monotonic())
	if err != nil && a.refuse != nil {
		a.refuse(fmt.Errorf("%w: %w", ErrRefused, err))
	}
	return all
}

// Stream implements process.Attempt.
func (a *attempt) Stream(ctx context.Context, c *grpc.ClientConn, next func(message) error) error {
	worker := proto.NewWorkerClient(c)
	// The watch is below: the worker refuses orders once it ends, and by then it is known that no worker takes them.
	alive, dies := context.WithCancelCause(ctx)
	defer dies(nil)
	in, err := worker.Watch(alive, requestToProto(a.request), grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return fmt.Errorf("ask the worker to watch: %w", err)
	}
	defer a.orders.giveTo(alive, worker)()
	var listening sync.WaitGroup
	defer listening.Wait()
	defer dies(nil)
	a.refuseBy(dies)
	listening.Go(func() { a.listen(alive) })
	for {
		m, err := in.Recv()
		if why := context.Cause(alive); errors.Is(why, ErrRefused) {
			return why
		}
		if err != nil {
			return fmt.Errorf("read from the worker: %w", err)
		}
		one := messageFromProto(m)
		if err := one.check(a.request.Options.Device, clock.Monotonic()); err != nil {
			return err
		}
		a.faultIfExpected(one.end)
		if err := next(one); err != nil {
			return err
		}
	}
}

// refuseBy sets how the stream is ended if the rings are damaged.
func (a *attempt) refuseBy(end context.CancelCauseFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = end
}

// faultIfExpected makes it a fault that nothing can open a device that the configuration expects.
func (c *contract) faultIfExpected(end *status.End) {
	if c.expected && end != nil && end.Reason == status.ReasonUnwatchable {
		end.Reason = status.ReasonUnsupported
	}
}

// Sign implements process.Attempt.
func (*attempt) Sign(m message) process.Sign {
	s := process.Sign{End: m.end}
	if m.end != nil {
		s.Retry = RetryAfter(m.end.Reason)
	}
	for i := range m.batch.Items {
		s.Running = s.Running || m.batch.Items[i].Opened != nil
	}
	return s
}

// Take implements process.Attempt.
func (a *attempt) Take(m message, s status.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range m.batch.Items {
		a.opened = a.opened || m.batch.Items[i].Opened != nil
	}
	if a.opened {
		m.batch.Items = a.take(m.batch.Items)
	}
	a.handler.Batch(m.batch, s)
}

// Alive implements process.Attempt.
func (a *attempt) Alive() int64 { return a.led.LastAlive() }

// Busy implements process.Attempt.
func (a *attempt) Busy(held func(thread int) bool) process.Call {
	a.led.CopyTo(&a.snap)
	return callOf(a.snap.LongestCall(held))
}

// Faulted implements process.Attempt.
func (a *attempt) Faulted() process.Call {
	a.led.CopyTo(&a.snap)
	return callOf(a.snap.FaultedCall())
}

func callOf(l ledger.ThreadCall) process.Call {
	if l.Call == ledger.CallNone {
		return process.Call{}
	}
	return process.Call{Name: l.Call.String(), Since: l.Since}
}

// Ended implements process.Attempt.
func (a *attempt) Ended(why status.End) {
	a.collect()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.handler.Ended(why)
	_ = a.led.Close()  // unmapping fails only of an address that is not mapped
	_ = a.bell.Close() // nothing was written
}

// RetryAfter returns when another worker may succeed.
func RetryAfter(why status.Reason) process.Retry {
	switch why {
	case status.ReasonRemoved, status.ReasonRenamed:
		return process.OnWake
	case status.ReasonNoLibrary, status.ReasonNoPermission, status.ReasonNoDevice,
		status.ReasonUnsupported, status.ReasonExcludedNetns, status.ReasonLimit:
		return process.Slowly
	case status.ReasonUnwatchable:
		return process.Rarely
	}
	return process.Soon
}
