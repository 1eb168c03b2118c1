package exchange

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// By default, gRPC writes errors to stderr instead of a log, including text that strangers send. Its callers get these errors anyway, so
// this discards them. The logger may be replaced only before its first use. Package process does the same.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }
