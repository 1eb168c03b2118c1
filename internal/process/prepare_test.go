package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"rdma_events/internal/confine"
)

const preparedKey = "RDMA_EVENTS_TEST_PREPARED"

// prepares is a child that says what it does before the handshake, or fails to prepare.
func prepares(fails bool) int {
	says := func(what string) { fmt.Fprintln(os.Stderr, what, os.Getenv(preparedKey)) }
	c := serveConfig()
	c.Shared = false
	c.Prepare = func() error {
		says("prepares")
		if fails {
			return errors.New("no luck today")
		}
		return os.Setenv(preparedKey, "prepared")
	}
	c.Needs = func() (confine.Needs, error) { says("needs"); return confine.Needs{}, nil }
	c.Make = func(Inherited) (func(grpc.ServiceRegistrar), error) {
		says("makes")
		sleepForEver()
		return nil, nil
	}
	return Serve(c)
}

// started starts a child without a Supervisor, with the other end of its lifeline open or not, and returns what it says and
// its exit status. Once it makes its service the lifeline is closed.
func started(t *testing.T, mode string, alive bool) (lines []string, code int) {
	t.Helper()
	line, end, err := os.Pipe()
	require.NoError(t, err)
	defer line.Close()
	defer end.Close()
	if !alive {
		require.NoError(t, end.Close())
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(helperEnv(mode, t.TempDir()), testHandshake().Key+"="+testHandshake().Value)
	cmd.ExtraFiles = []*os.File{line}
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for in := bufio.NewScanner(stderr); in.Scan(); {
		lines = append(lines, in.Text())
		if in.Text() == "makes prepared" {
			require.NoError(t, end.Close())
		}
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	return lines, exit.ExitCode()
}

func TestAChildPreparesOnceBeforeItIsConfined(t *testing.T) {
	lines, code := started(t, "prepares", true)
	require.Equal(t, []string{"prepares ", "needs prepared", "needs prepared", "makes prepared"}, lines)
	require.Equal(t, exitOrphan, code)
}

func TestAChildThatCannotPrepareEnds(t *testing.T) {
	lines, code := started(t, "cannot prepare", true)
	require.Equal(t, []string{"prepares ", "prepare this process: no luck today"}, lines)
	require.Equal(t, exitSetup, code)
}

func TestAChildWhoseHostIsGoneDoesNotPrepare(t *testing.T) {
	lines, code := started(t, "prepares", false)
	require.Empty(t, lines)
	require.Equal(t, exitOrphan, code)
}
