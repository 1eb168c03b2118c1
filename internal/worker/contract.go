package worker

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"rdma_events/internal/worker/proto"
)

// contractVersion changes with every change of the contract that is not
// additive; go-plugin compares it in the handshake.
const contractVersion = 1

// A worker's exit statuses, beside 0 and those of the Go runtime. A panic is 2
// as well, and tells itself from exitByHand by what it prints.
const (
	exitByHand = 2 // not started by a host
	exitOrphan = 3 // the host is gone
	exitStuck  = 4 // the library does not let go of the device
	exitSetup  = 5 // what the host handed over is not usable
)

// The descriptors that a worker is started with, after the standard ones.
const (
	lifelineFD = 3 // the read end of a pipe; at its end the host is gone
	ledgerFD   = 4
	programFD  = 5 // the program's file, by which it was executed
)

const pluginName = "rdma"

func handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  contractVersion,
		MagicCookieKey:   "RDMA_EVENTS_WORKER",
		MagicCookieValue: "b1c5e0a2-4d1f-4c57-9a0e-6f0d6e2c7b31",
	}
}

// border is the contract in go-plugin's terms: service on the worker's side,
// nil on the host's.
type border struct {
	plugin.NetRPCUnsupportedPlugin
	service proto.WorkerServer
}

// GRPCServer implements plugin.GRPCPlugin.
func (b *border) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	proto.RegisterWorkerServer(s, b.service)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin; it returns a proto.WorkerClient.
func (*border) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return proto.NewWorkerClient(c), nil
}
