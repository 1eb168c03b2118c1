package child

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFreePortsAreDifferentAndFree(t *testing.T) {
	ports, err := FreePorts(t.Context(), 3)
	require.NoError(t, err)
	require.Len(t, ports, 3)
	for _, port := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) }) // all are taken at the end, so none was there twice
	}
}

func TestAwaitReadyWaitsForTheStatus200(t *testing.T) {
	p := startProgram(t, "sleep", "60")
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	require.NoError(t, p.AwaitReady(t.Context(), server.URL))
	require.EqualValues(t, 3, asked.Load())
}

func TestAwaitReadyEndsWithTheProgramAndWithItsContext(t *testing.T) {
	ports, err := FreePorts(t.Context(), 1)
	require.NoError(t, err)
	nobody := "http://127.0.0.1:" + ports[0]
	err = startProgram(t, "false").AwaitReady(t.Context(), nobody)
	require.ErrorIs(t, err, ErrExited)
	require.ErrorContains(t, err, "exit status 1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, startProgram(t, "sleep", "60").AwaitReady(ctx, nobody), context.Canceled)
}

func startProgram(t *testing.T, name string, args ...string) *Process {
	t.Helper()
	p, err := Start(exec.Command(name, args...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(time.Minute)) })
	return p
}
