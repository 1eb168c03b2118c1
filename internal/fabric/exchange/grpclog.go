package exchange

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// gRPC prints errors to stderr, past every log, although its callers get them anyway, and with the text of strangers. Its
// logger may be replaced only before its first use. Package process does the same.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }
