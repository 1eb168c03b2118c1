package exchange

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// init discards the errors that gRPC writes to stderr by default, including text that strangers send. Its callers get these errors
// anyway. The logger may be replaced only before its first use. Package process does the same.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }
