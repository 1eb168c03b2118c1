package process

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// init discards the errors that gRPC prints to stderr, because its callers get them anyway. The
// logger can be replaced only before its first use.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }
