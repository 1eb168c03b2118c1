package influx

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// Start runs a server until the end of the test, with its files in a directory of
// the test. The program is build/tools/influxd, or that of INFLUXD_BIN.
func Start(t testing.TB) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Open(ctx, Config{Program: rig.Program(t, "INFLUXD_BIN", "tools/influxd"), Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
