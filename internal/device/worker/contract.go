package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

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
const contractVersion = 2

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

// Handler receives the reports of a Supervisor: Started, Batch..., Ended for each worker,
// with Status in between. No two calls overlap, and none is made after Run has returned.
// No method may block.
type Handler interface {
	// Started passes the ledger of a worker that is about to start. The ledger stays
	// mapped until Ended returns.
	Started(*ledger.Ledger)
	// Batch is called for each batch of the worker's stream, with the status that
	// follows from it. The batch is valid until Batch returns.
	Batch(verbs.Batch, status.Status)
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
func (c *contract) Begin() (process.Attempt[message], *os.File, error) {
	led, file, err := ledger.New(c.request.Options.Device)
	if err != nil {
		return nil, nil, err
	}
	c.handler.Started(led)
	return &attempt{contract: c, led: led}, file, nil
}

// Status implements process.Contract.
func (c *contract) Status(s status.Status) { c.handler.Status(s) }

// attempt is one worker. It implements process.Attempt.
type attempt struct {
	*contract
	led  *ledger.Ledger
	snap ledger.Snapshot
}

// Stream implements process.Attempt.
func (a *attempt) Stream(ctx context.Context, c *grpc.ClientConn, next func(message) error) error {
	worker := proto.NewWorkerClient(c)
	// The watch is below: the worker refuses orders once it ends, and by then it is known that no worker takes them.
	alive, dies := context.WithCancel(ctx)
	defer dies()
	in, err := worker.Watch(alive, requestToProto(a.request), grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return fmt.Errorf("ask the worker to watch: %w", err)
	}
	defer a.orders.giveTo(alive, worker)()
	for {
		m, err := in.Recv()
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
func (a *attempt) Take(m message, s status.Status) { a.handler.Batch(m.batch, s) }

// Busy implements process.Attempt.
func (a *attempt) Busy(held func(thread int) bool) process.Call {
	a.led.Snapshot(&a.snap)
	return callOf(a.snap.Busy(held))
}

// Faulted implements process.Attempt.
func (a *attempt) Faulted() process.Call {
	a.led.Snapshot(&a.snap)
	return callOf(a.snap.Faulted())
}

func callOf(l ledger.Lane) process.Call {
	if l.Call == ledger.CallNone {
		return process.Call{}
	}
	return process.Call{Name: l.Call.String(), Since: l.Beat}
}

// Ended implements process.Attempt.
func (a *attempt) Ended(why status.End) {
	a.handler.Ended(why)
	_ = a.led.Close() // unmapping fails only of an address that is not mapped
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
