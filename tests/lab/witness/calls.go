//go:build guest

package witness

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// callsScript counts the system calls of a process by their number. It prints a line each second, and the first one when it
// counts: bpftrace prints nothing before it has attached everything.
const callsScript = `
tracepoint:raw_syscalls:sys_enter /pid == $1/ { @calls[args->id] = count(); }
interval:s:1 { printf("second"); }
`

// callsLimit bounds the time of bpftrace, which takes tens of seconds to start in an emulated guest.
const callsLimit = 5 * time.Minute

// Calls is a running bpftrace that counts the system calls of a process.
type Calls struct {
	cmd    *exec.Cmd
	lines  *json.Decoder
	counts map[int]int64
}

// StartCalls starts bpftrace and returns when it counts.
func StartCalls(t testing.TB, pid int) *Calls {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callsLimit)
	t.Cleanup(cancel)
	c := &Calls{
		cmd:    exec.CommandContext(ctx, "bpftrace", "-f", "json", "-e", callsScript, strconv.Itoa(pid)),
		counts: map[int]int64{},
	}
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.cmd.Stderr = os.Stderr
	c.lines = json.NewDecoder(out)
	require.NoError(t, c.cmd.Start())
	c.AwaitSeconds(t, 1)
	return c
}

// AwaitSeconds returns when bpftrace has counted for some seconds more.
func (c *Calls) AwaitSeconds(t testing.TB, seconds int) {
	t.Helper()
	for seconds > 0 {
		isSecond, err := c.readLine()
		require.NoError(t, err)
		if isSecond {
			seconds--
		}
	}
}

// Stop ends bpftrace and returns how often the process has made each system call.
func (c *Calls) Stop(t testing.TB) map[int]int64 {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	for {
		_, err := c.readLine()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.NoError(t, c.cmd.Wait())
	return c.counts
}

// readLine reads a line of bpftrace, and reports whether it is that of a second.
func (c *Calls) readLine() (isSecond bool, err error) {
	var line struct {
		Type string
		Data json.RawMessage
	}
	if err := c.lines.Decode(&line); err != nil {
		return false, err
	}
	if line.Type != "map" {
		return line.Type == "printf", nil
	}
	var maps map[string]map[int]int64
	if err := json.Unmarshal(line.Data, &maps); err != nil {
		return false, err
	}
	for number, n := range maps["@calls"] {
		c.counts[number] = n
	}
	return false, nil
}
