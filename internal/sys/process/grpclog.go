package process

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// gRPC prints errors to stderr, past every log, although its callers get them anyway. Its
// logger may be replaced only before its first use.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }
