package rdma_events

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// update rewrites golden files instead of comparing with them.
var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
