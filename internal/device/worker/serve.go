package worker

import (
	"context"

	"google.golang.org/grpc"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// ServeConfig has the parts of a worker program.
type ServeConfig struct {
	// Watch watches the device until ctx is done, or returns why it cannot, and takes
	// orders meanwhile; the worker program uses session.Run and its parts.
	Watch func(ctx context.Context, b verbs.Backend, led *ledger.Ledger, o verbs.Options,
		orders *verbs.FabricOrders, send func(verbs.Batch) error) (status.End, error)
	// Backend makes the backend that a request names. It is called after the
	// handshake and may call into native libraries.
	Backend func(verbs.Request) (verbs.Backend, error)
	// Needs returns the parts of the file system that Backend's libraries use. The
	// process gives up the rest, and all capabilities. nil: it keeps everything.
	Needs func() confine.Needs
}

// Serve is the worker program: it is process.Serve with this contract.
func Serve(c ServeConfig) int {
	p := process.ServeConfig{
		Handshake: handshake(),
		ByHand: programName + " is started by rdma-events, one for each RDMA device; " +
			"it is not to be started by hand",
		Thread: status.WorkerComm,
		Shared: true,
		Make:   c.service,
	}
	if c.Needs != nil {
		p.Needs = func() (confine.Needs, error) { return c.needs(), nil }
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

// needs adds the file that the request will make the worker read.
func (c ServeConfig) needs() confine.Needs {
	n := c.Needs()
	n.Read = append(n.Read, OnceReads()...)
	return n
}
