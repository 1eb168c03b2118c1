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

// contractVersion is the version of the contract. It is raised with every change that is not
// additive, and the handshake compares it.
//
// 2: the host sends orders (Order), which a worker of version 1 does not accept.
// 3: events and rounds pass through rings in the shared memory, no longer through the stream.
const contractVersion = 3

// programName is the name of the worker program in messages and in ps(1).
const programName = "rdma-events-worker"

func contractHandshake() process.Handshake {
	return process.Handshake{
		Version: contractVersion,
		Key:     "RDMA_EVENTS_WORKER",
		Value:   "b1c5e0a2-4d1f-4c57-9a0e-6f0d6e2c7b31",
	}
}

// Config configures the supervision of one device's workers. Fields without a comment are
// described at process.Spec.
type Config struct {
	Exe     *os.File
	Dir     *process.Dir
	Request verbs.Request // the request for each worker
	Reads   []string      // files, besides libraries, that a worker reads for the request
	Present func() bool   // reports whether the device is present; it must not block; nil: always present
	Env     []string      // "key=value", added to the variables taken from the host's environment
	Timing  process.Timing
	Starts  *process.Starts
	Orders  *Orders // passes orders to the running worker; nil: no orders
	// Expected reports whether the device should be open. It is then a fault that no library can open the device
	// (status.ReasonUnsupported). Expected must not block; nil: never.
	Expected func() bool
	Log      *slog.Logger
	Rand     func() float64
}

// Handler receives the reports of a Supervisor. For each worker it gets Started, then Batch and
// RingItems, then Ended, with Status at any time. Calls do not overlap, except calls of Status. No
// call is made after Run has returned. No method may block.
type Handler interface {
	// Started passes the ledger of a worker that is about to start. The ledger stays
	// mapped until Ended returns. If the rings of the ledger have entries, collect calls
	// RingItems before it returns. Any goroutine may call collect, also after Ended, but no
	// method of the Handler may.
	Started(led *ledger.Ledger, collect func())
	// Batch is called for each batch of the worker's stream, with the status that
	// follows from it. The batch includes the events and rounds from the rings that precede
	// its items. It is valid until Batch returns.
	Batch(verbs.Batch, status.Status)
	// RingItems is called with the events and rounds in the rings of the ledger: after the
	// worker has rung the doorbell, by collect, and before Ended. The items are valid until
	// RingItems returns.
	RingItems([]verbs.Item)
	// Ended is called when the worker has exited or was given up, with the reason. The
	// ledger then has its last values.
	Ended(why status.End)
	// Status is called for each change of the status that no batch reports.
	Status(status.Status)
}

// message is a message of a worker.
type message struct {
	batch verbs.Batch
	end   *status.End // why the worker is about to exit; nil: it is not about to exit
}

// Supervisor keeps one worker running for one device.
type Supervisor = process.Supervisor[message]

// New returns the Supervisor of the device c.Request.Options.Device.
func New(c Config, h Handler) *Supervisor {
	device := c.Request.Options.Device
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return process.New(process.Spec{
		Exe: c.Exe, Dir: c.Dir, Name: programName, Title: device, Subject: "worker of " + device, Resource: "device",
		Option: "worker_path", Env: slices.Concat(inheritedEnvironment(os.Environ()), readEnvironment(c.Reads), c.Env),
		Handshake: contractHandshake(), Present: c.Present, Timing: c.Timing, Starts: c.Starts, Log: c.Log.With("device", device), Rand: c.Rand,
	}, &contract{request: c.Request, handler: h, orders: c.Orders, expected: c.Expected})
}

// contract implements process.Contract.
type contract struct {
	request verbs.Request
	handler Handler
	orders  *Orders // nil: no orders

	expected func() bool // Config.Expected
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

	mu       sync.Mutex              // held while the handler gets ring entries, so that it gets them in order
	refuse   context.CancelCauseFunc // ends the stream; nil: no stream yet
	rings    *verbs.Inbox
	opened   bool // the handler knows that the device is open: events come after that
	unmapped bool // the ledger is unmapped
}

// The limits on how often the host reacts to the doorbell, so that a broken library cannot keep it busy. Entries that come
// meanwhile wait in the rings and are read together.
const (
	ringsASecond = 200
	ringsAtOnce  = 50
)

// listen calls collect whenever the worker rings the doorbell, until ctx ends.
func (a *attempt) listen(ctx context.Context) {
	defer context.AfterFunc(ctx, a.bell.Wake)()
	limiter := rate.NewLimiter(ringsASecond, ringsAtOnce)
	for a.bell.Wait() == nil && limiter.Wait(ctx) == nil {
		a.collect()
	}
}

// collect passes the entries of the rings to the handler. It leaves them in the rings until the handler knows that the device is
// open.
func (a *attempt) collect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opened && !a.unmapped {
		if items := a.mergeRings(nil); len(items) > 0 {
			a.handler.RingItems(items)
		}
	}
}

// mergeRings merges items of the stream with the entries of the rings. Stream has checked the items; the Inbox checks the entries.
// The caller holds a.mu.
func (a *attempt) mergeRings(items []verbs.Item) []verbs.Item {
	all, err := a.rings.Merge(items, clock.Monotonic())
	if err != nil && a.refuse != nil {
		a.refuse(fmt.Errorf("%w: %w", ErrRefused, err))
	}
	return all
}

// Stream implements process.Attempt.
func (a *attempt) Stream(ctx context.Context, c *grpc.ClientConn, next func(message) error) error {
	worker := proto.NewWorkerClient(c)
	// alive ends before the watch does, since the worker refuses orders once its watch has ended: Order then returns ErrNoWorker.
	alive, dies := context.WithCancelCause(ctx)
	defer dies(nil)
	in, err := worker.Watch(alive, requestToProto(a.request), grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return fmt.Errorf("ask the worker to watch: %w", err)
	}
	defer a.orders.attachWorker(alive, worker)()
	var listening sync.WaitGroup
	defer listening.Wait()
	defer dies(nil)
	a.setRefuse(dies)
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

// setRefuse sets the function that ends the stream if the rings are damaged.
func (a *attempt) setRefuse(end context.CancelCauseFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = end
}

// faultIfExpected turns the reason "unwatchable" into a fault if the device should be open.
func (c *contract) faultIfExpected(end *status.End) {
	if end != nil && end.Reason == status.ReasonUnwatchable && c.expected != nil && c.expected() {
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
		m.batch.Items = a.mergeRings(m.batch.Items)
	}
	a.handler.Batch(m.batch, s)
}

// Alive implements process.Attempt.
func (a *attempt) Alive() int64 { return a.led.LastAlive() }

// Busy implements process.Attempt.
func (a *attempt) Busy(held func(thread int) bool) process.Call {
	a.led.CopyTo(&a.snap)
	return toCall(a.snap.LongestCall(held))
}

// Faulted implements process.Attempt.
func (a *attempt) Faulted() process.Call {
	a.led.CopyTo(&a.snap)
	return toCall(a.snap.FaultedCall())
}

func toCall(l ledger.ThreadCall) process.Call {
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
	a.unmapped = true
	a.handler.Ended(why)
	_ = a.led.Close()  // unmapping fails only for an address that is not mapped
	_ = a.bell.Close() // no data can be lost
}

// RetryAfter returns when to start another worker after one that ended for a reason.
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
