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

// contractVersion changes with every change of the contract that is not additive. The handshake compares it.
const contractVersion = 2

// ProgramName is the name of the tracer program in messages and in ps(1), and of its file.
const ProgramName = "rdma-events-tracer"

// subject is the name of the process in messages.
const subject = "tracer"

// startLimit is the time until the handshake after which the start of a tracer counts as slow. Loading the programs into a busy kernel
// takes seconds.
const startLimit = 15 * time.Second

func contractHandshake() process.Handshake {
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
	Request  trace.Request // sent to each tracer
	Settings Settings      // passed to each tracer at its start
	Env      []string      // "key=value", in addition to the variable of the Settings
	Timing   process.Timing
	Starts   *process.Starts
	Log      *slog.Logger
	Rand     func() float64
}

// Handler receives the reports of a Supervisor. For each tracer that attaches, the calls are Attached, any number of Update, and Ended. For
// a tracer that never attaches, the only call is Ended. Calls of Status may occur in between. Calls never overlap, and there are none after
// Run has returned. No method may block.
type Handler interface {
	// Attached is called when a tracer has attached, with the resulting status. The tracer's counts start at 0.
	Attached(trace.Attached, status.Status)
	// Update is called for each Update, about once a second. The handler may keep it.
	Update(*trace.Update)
	// Ended is called when the tracer has exited or the Supervisor has given it up. why is the reason. Data that the tracer has not sent is lost.
	Ended(why status.End)
	// Status is called for each change of the status that does not result from a message.
	Status(status.Status)
}

// message is a message of a tracer. One of its fields is set, or none if this program does not know the kind of message.
type message struct {
	attached *trace.Attached
	update   *trace.Update
	end      *status.End // the reason why the tracer is about to exit
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
		Option: "applications.tracer_path", Env: append([]string{settingsKey + "=" + c.Settings.encode()}, slices.Clone(c.Env)...),
		Handshake: contractHandshake(), Timing: c.Timing, Starts: c.Starts, Log: c.Log, Rand: c.Rand, KernelCloses: true,
	}, &contract{request: c.Request, handler: h})
}

// contract implements process.Contract.
type contract struct {
	request trace.Request
	handler Handler
}

// Begin implements process.Contract. A tracer shares no file with the host, because its counts are in the kernel.
func (c *contract) Begin() (process.Attempt[message], []*os.File, error) { return attempt{c}, nil, nil }

// Status implements process.Contract.
func (c *contract) Status(s status.Status) { c.handler.Status(s) }

// attempt is one tracer. It implements process.Attempt.
type attempt struct{ *contract }

// errEnded ends the stream of a tracer that has reported its end.
var errEnded = errors.New("the tracer has ended")

// maxMessage is the maximum size in bytes of a message that the host reads. A message with the maximum number of entries of maximum size is
// smaller.
const maxMessage = 8 << 20

// Stream implements process.Attempt. When ctx is done, it asks the tracer for its last messages.
func (a attempt) Stream(ctx context.Context, c *grpc.ClientConn, next func(message) error) error {
	call, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	var asking sync.WaitGroup
	defer asking.Wait()
	defer hangUp()
	in, err := proto.NewTracerClient(c).Trace(call, grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return fmt.Errorf("call the tracer: %w", err)
	}
	// Send returns io.EOF if the tracer has already refused the call. Recv then returns the status with the reason.
	if err := in.Send(requestToProto(a.request)); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send the request to the tracer: %w", err)
	}
	asking.Go(func() {
		select {
		case <-ctx.Done():
			_ = in.CloseSend() // an error also ends the stream, which is read below
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
			return errEnded // the tracer waits for the end of the call
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
	case m.update != nil:
		a.handler.Update(m.update)
	}
}

// Alive implements process.Attempt. A tracer sends a message each second.
func (attempt) Alive() int64 { return 0 }

// Busy implements process.Attempt. A hanging tracer sends nothing and cannot report where it hangs.
func (attempt) Busy(func(thread int) bool) process.Call { return process.Call{} }

// Faulted implements process.Attempt. A tracer does not call the verbs library.
func (attempt) Faulted() process.Call { return process.Call{} }

// Ended implements process.Attempt.
func (a attempt) Ended(why status.End) { a.handler.Ended(why) }
