package process

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// gRPC prints errors directly to stderr, although its callers get them anyway. Its logger can
// be replaced only before its first use.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }
