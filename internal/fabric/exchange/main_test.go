package exchange

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine is left, of this package or of gRPC.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
