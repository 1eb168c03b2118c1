package tracer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer/proto"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// contractVersion changes with every change of the contract that is not
// additive; the handshake compares it.
const contractVersion = 2

// ProgramName is the name of the tracer program in messages and in ps(1), and of its file.
const ProgramName = "rdma-events-tracer"

// subject is the name of the process in messages.
const subject = "tracer"

// startLimit is how long a tracer may take until the handshake before its start is called slow. To load its programs into a
// kernel that is busy takes seconds.
const startLimit = 15 * time.Second

func handshake() process.Handshake {
	return process.Handshake{
		Version: contractVersion,
		Key:     "RDMA_EVENTS_TRACER",
		Value:   "5f0c8a7e-93d4-4b6e-8e0b-2d7a61c4f918",
	}
}

// Config configures the supervision of a host's tracers. Fields without a comment are as in process.Spec.
type Config struct {
	Exe      *os.File
	Dir      *process.Dir
	Request  trace.Request // the request that each tracer gets
	Settings Settings      // what each tracer is started with
	Env      []string      // "key=value", added to the variable of the Settings
	Timing   process.Timing
	Starts   *process.Starts
	Log      *slog.Logger
	Rand     func() float64
}

// Handler receives the reports of a Supervisor: for each tracer Attached, Snapshot..., Ended, or Ended alone if it never
// attached, with Status in between. No two calls overlap, and none is made after Run has returned. No method may block.
type Handler interface {
	// Attached is called when a tracer has begun, with the status that follows from it. Its counts begin at 0.
	Attached(trace.Attached, status.Status)
	// Snapshot is called for each Snapshot, about once a second. The handler may keep it.
	Snapshot(*trace.Snapshot)
	// Ended is called when the tracer has exited, or was given up; why is the reason. What it would have reported next is
	// lost.
	Ended(why status.End)
	// Status is called for each change of the status that no message brings.
	Status(status.Status)
}

// message is a message of a tracer. One of its fields is set, none in a message of a kind that this program does not know.
type message struct {
	attached *trace.Attached
	snapshot *trace.Snapshot
	end      *status.End // why the tracer is about to exit
}

// Supervisor keeps one tracer running.
type Supervisor = process.Supervisor[message]

// New returns the Supervisor of a host's tracer.
func New(c Config, h Handler) *Supervisor {
	if c.Timing.Start == 0 {
		c.Timing.Start = startLimit
	}
	return process.New(process.Spec{
		Exe: c.Exe, Dir: c.Dir, Name: ProgramName, Title: c.Request.Backend, Subject: subject, Resource: "hooks",
		Option: "applications.tracer_path", Env: append([]string{settingsKey + "=" + c.Settings.text()}, slices.Clone(c.Env)...),
		Handshake: handshake(), Timing: c.Timing, Starts: c.Starts, Log: c.Log, Rand: c.Rand, KernelCloses: true,
	}, &contract{request: c.Request, handler: h})
}

// contract implements process.Contract.
type contract struct {
	request trace.Request
	handler Handler
}

// Begin implements process.Contract. A tracer shares no file with its host: what it counts, it counts in the kernel.
func (c *contract) Begin() (process.Attempt[message], []*os.File, error) { return attempt{c}, nil, nil }

// Status implements process.Contract.
func (c *contract) Status(s status.Status) { c.handler.Status(s) }

// attempt is one tracer. It implements process.Attempt.
type attempt struct{ *contract }

// errEnded ends the stream of a tracer that has said why it ends.
var errEnded = errors.New("the tracer has ended")

// maxMessage is the most bytes of a message that the host reads. One with the most and longest of all that the host takes
// has less.
const maxMessage = 8 << 20

// Stream implements process.Attempt. When ctx is done it asks the tracer for its last message.
func (a attempt) Stream(ctx context.Context, c *grpc.ClientConn, next func(message) error) error {
	call, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	var asking sync.WaitGroup
	defer asking.Wait()
	defer hangUp()
	in, err := proto.NewTracerClient(c).Trace(call, grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return fmt.Errorf("call the tracer: %w", err)
	}
	// Send returns io.EOF if the tracer has already refused the call; Recv then returns the status that says why.
	if err := in.Send(requestToProto(a.request)); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send the request to the tracer: %w", err)
	}
	asking.Go(func() {
		select {
		case <-ctx.Done():
			_ = in.CloseSend() // it fails with the stream, which is read below
		case <-call.Done():
		}
	})
	for {
		m, err := in.Recv()
		if err != nil {
			return fmt.Errorf("read from the tracer: %w", err)
		}
		if err := next(messageFromProto(m)); err != nil {
			return err
		}
		if m.GetEnded() != nil {
			return errEnded // to hang up is what the tracer waits for
		}
	}
}

// Sign implements process.Attempt.
func (attempt) Sign(m message) process.Sign {
	s := process.Sign{Running: m.attached != nil, End: m.end}
	if m.end != nil {
		s.Retry = RetryAfter(m.end.Reason)
	}
	return s
}

// Take implements process.Attempt.
func (a attempt) Take(m message, s status.Status) {
	switch {
	case m.attached != nil:
		a.handler.Attached(*m.attached, s)
	case m.snapshot != nil:
		a.handler.Snapshot(m.snapshot)
	}
}

// Alive implements process.Attempt. A tracer sends a message each second.
func (attempt) Alive() int64 { return 0 }

// Busy implements process.Attempt. A tracer that hangs sends nothing, and has no means to say where.
func (attempt) Busy(func(thread int) bool) process.Call { return process.Call{} }

// Faulted implements process.Attempt. A tracer is in no call of the verbs library.
func (attempt) Faulted() process.Call { return process.Call{} }

// Ended implements process.Attempt.
func (a attempt) Ended(why status.End) { a.handler.Ended(why) }
