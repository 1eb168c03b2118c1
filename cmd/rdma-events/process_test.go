package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// program is the program as a child process, as Telegraf runs it.
type program struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	stderr bytes.Buffer
}

// startProgram runs the program on a host without devices: no device matches the configured glob.
func startProgram(t *testing.T, config string, args ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	path := configFile(t, "[[inputs.rdma_events]]\ndevices = [\"none\"]\nworker_path = \""+exe+"\"\n"+config)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, exe, append([]string{"-config", path}, args...)...)}
	p.Env = append(os.Environ(), asProgram+"=1")
	p.Stderr = &p.stderr
	p.stdin, err = p.StdinPipe()
	require.NoError(t, err)
	r, w := newPipe(t)
	p.stdout, p.Stdout = r, w
	require.NoError(t, p.Start())
	require.NoError(t, w.Close())
	return p
}

// prompt sends a prompt and returns the next line.
func (p *program) prompt(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	_, err := p.stdin.Write([]byte("\n"))
	require.NoError(t, err)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	return line
}

func TestTheProgramGathersOnAPromptAndEndsWithStandardInput(t *testing.T) {
	p := startProgram(t, "", "-poll_interval_disabled")
	line := p.prompt(t, bufio.NewReader(p.stdout))
	require.True(t, strings.HasPrefix(line, "rdma_collector "), line)
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.Wait())
}

func TestSIGTERMEndsTheProgramInOrder(t *testing.T) {
	p := startProgram(t, "", "-poll_interval_disabled")
	p.prompt(t, bufio.NewReader(p.stdout))
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.Wait())
}

// signalUntilLine sends a signal repeatedly until the program writes a line. A signal has no effect while the last
// interval is still being written.
func (p *program) signalUntilLine(t *testing.T, s os.Signal, lines *bufio.Reader) string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		line, _ := lines.ReadString('\n') // "" at the end of the program
		got <- line
	}()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		require.NoError(t, p.Process.Signal(s))
		select {
		case line := <-got:
			return line
		case <-again.C:
		}
	}
}

func TestSignalsOfExecdPromptAndKillNothing(t *testing.T) {
	p := startProgram(t, "", "-poll_interval_disabled")
	lines := bufio.NewReader(p.stdout)
	p.prompt(t, lines)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		require.True(t, strings.HasPrefix(p.signalUntilLine(t, s, lines), "rdma_collector "))
	}
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.Wait())
}

func TestAClosedStandardOutputIsAnErrorAndNoSIGPIPE(t *testing.T) {
	p := startProgram(t, "", "-poll_interval", "10ms")
	require.NoError(t, p.stdout.Close())
	err := p.Wait()
	var status *exec.ExitError
	require.ErrorAs(t, err, &status)
	require.Equal(t, exitFailed, status.ExitCode(), p.stderr.String())
	require.Contains(t, p.stderr.String(), "E! write metrics to standard output: write: broken pipe\n")
}

func TestProgramEndsInTimeWithUnreadOutput(t *testing.T) {
	p := startProgram(t, "shutdown_timeout = \"300ms\"\n", "-poll_interval", "1ms")
	size, err := unix.FcntlInt(p.stdout.Fd(), unix.F_GETPIPE_SZ, 0)
	require.NoError(t, err)
	last := 0
	require.Eventually(t, func() bool {
		before := last
		last = unreadBytes(t, p.stdout)
		return last > size*3/4 && last == before // the rest of each page may be too small for a line
	}, 10*time.Second, 100*time.Millisecond, "the pipe fills until a line finds no room")
	began := time.Now()
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.Wait())
	took := time.Since(began)
	t.Logf("ended after %v", took.Round(time.Millisecond))
	require.Less(t, took, 3*time.Second, "ten times what is promised")
	require.Contains(t, p.stderr.String(), "W! agent: Telegraf did not read the last points in time, timeout 250ms, ")
}

// unreadBytes returns the number of unread bytes in a pipe.
func unreadBytes(t *testing.T, r *os.File) int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
	require.NoError(t, err)
	return n
}

func TestEverythingWrittenIsReadBeforeTheEnd(t *testing.T) {
	p := startProgram(t, "", "-poll_interval", "1ms")
	first := p.prompt(t, bufio.NewReaderSize(p.stdout, 16))
	require.NotEmpty(t, first)
	require.NoError(t, p.stdin.Close())
	rest, err := io.ReadAll(p.stdout)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(rest, []byte("\n")) || len(rest) == 0)
	require.NoError(t, p.Wait())
	require.NotContains(t, p.stderr.String(), "lost")
}

func TestABadConfigurationIsOneErrorLineAndExitStatus1(t *testing.T) {
	p := startProgram(t, "nonsense = 1\n")
	err := p.Wait()
	var status *exec.ExitError
	require.ErrorAs(t, err, &status)
	require.Equal(t, exitFailed, status.ExitCode())
	require.Equal(t, 1, strings.Count(p.stderr.String(), "\n"))
	require.True(t, strings.HasPrefix(p.stderr.String(), "E! "), p.stderr.String())
	require.Contains(t, p.stderr.String(), "nonsense = 1 is not an option")
}
