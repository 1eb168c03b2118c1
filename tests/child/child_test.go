package child_test

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/child"
)

func TestStopWaitsForTheEnd(t *testing.T) {
	p, err := child.Start(exec.Command("sleep", "60"))
	require.NoError(t, err)
	require.NoError(t, p.Stop(10*time.Second))
	require.Equal(t, "sleep: signal: terminated", p.State())
	require.NoError(t, p.Stop(10*time.Second), "a second time")
}

func TestAProgramThatDoesNotListenIsKilled(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
	cmd.Stdout = w
	p, err := child.Start(cmd)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	require.ErrorIs(t, p.Stop(50*time.Millisecond), child.ErrKilled)
	require.Equal(t, "sh: signal: killed", p.State())
}

func TestAProgramThatIsNotThereIsReported(t *testing.T) {
	_, err := child.Start(exec.Command("/no/program"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
