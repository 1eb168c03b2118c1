package worker

import (
	"context"
	"os"

	"google.golang.org/grpc"

	"rdma_events/internal/confine"
	"rdma_events/internal/ledger"
	"rdma_events/internal/process"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
	"rdma_events/internal/worker/proto"
)

// ServeConfig is what a worker program is made of.
type ServeConfig struct {
	// Watch watches until ctx is done, or returns why it cannot; session.Run is meant.
	Watch func(ctx context.Context, b verbs.Backend, led *ledger.Ledger, o verbs.Options,
		send func(verbs.Batch) error) (status.End, error)
	// Backend makes the backend that a request names. It is called after the
	// handshake and may call into native libraries.
	Backend func(verbs.Request) (verbs.Backend, error)
	// Needs returns what Backend's libraries use of the file system; the process
	// gives up the rest, and all capabilities. nil: it keeps everything.
	Needs func() confine.Needs
}

// Serve is the worker program: process.Serve under this contract.
func Serve(c ServeConfig) int {
	p := process.ServeConfig{
		Handshake: handshake(),
		ByHand: programName + " is started by rdma-events, one for each RDMA device; " +
			"it is not to be started by hand",
		Thread: "rdma-ev-worker",
		Make:   c.service,
	}
	if c.Needs != nil {
		p.Needs = c.needs
	}
	return process.Serve(p)
}

func (c ServeConfig) service(in process.Inherited) (register func(grpc.ServiceRegistrar), err error) {
	defer in.Shared.Close()
	led, err := ledger.Open(in.Shared)
	if err != nil {
		return nil, err
	}
	s := &service{watch: c.Watch, backend: c.Backend, ledger: led, end: in.End}
	return func(r grpc.ServiceRegistrar) { proto.RegisterWorkerServer(r, s) }, nil
}

// needs adds what the request will have the worker read.
func (c ServeConfig) needs() confine.Needs {
	n := c.Needs()
	if path := os.Getenv(readKey); path != "" {
		n.Read = append(n.Read, path)
	}
	return n
}
