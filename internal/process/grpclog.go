package process

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// gRPC prints to stderr what its callers are told as errors anyway, past every
// log. It may be told so only before its first use.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }
