package process

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newOnce returns a Once that runs a shell script.
func newOnce(t *testing.T, script string) *Once {
	t.Helper()
	exe, err := OpenExe("/bin/sh")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, exe.Close()) })
	return &Once{Exe: exe, Name: "sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin", "A=b"}, Limit: patience}
}

func TestAnAnswerIsWhatTheProgramPrintedWithItsStatus(t *testing.T) {
	a, err := newOnce(t, `echo "$A"; echo why >&2; exit 3`).Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, Answer{Stdout: []byte("b\n"), Stderr: "why", Status: 3}, a)
}

func TestAProgramThatDoesNotAnswerIsKilledAndItsOutputKept(t *testing.T) {
	o := newOnce(t, `echo begun; sleep 1000 & sleep 1000`)
	o.Limit = 200 * time.Millisecond
	a, err := o.Run(t.Context())
	require.ErrorIs(t, err, ErrNoAnswer)
	require.NotErrorIs(t, err, ErrAbandoned)
	require.EqualError(t, err, "no answer within 200ms")
	require.Equal(t, Answer{Stdout: []byte("begun\n"), Status: -1}, a)
}

// SIGKILL has no effect on a process in state D. Here the function that kills has no effect instead.
func TestAProgramThatCannotBeKilledIsLeftBehind(t *testing.T) {
	o := newOnce(t, `echo begun; echo odd >&2; exec sleep 1000`)
	o.Limit, o.Kill = 200*time.Millisecond, 50*time.Millisecond
	var left *child
	o.kill = func(c *child) { left = c }
	a, err := o.Run(t.Context())
	require.ErrorIs(t, err, ErrNoAnswer)
	require.ErrorIs(t, err, ErrAbandoned)
	require.ErrorContains(t, err, "is left behind") // held or, on an overloaded host, not started yet
	require.Equal(t, "begun\n", string(a.Stdout))
	require.Equal(t, "odd", a.Stderr)
	_, ended := left.state()
	require.Nil(t, ended)
	left.kill() // as the kernel does when the call of the driver returns
	<-left.exited
}

// On an overloaded host, a killed process may wait for a processor. The kernel does not hold it.
func TestAProgramWithoutCPUTimeIsNotSaidToBeHeldByTheKernel(t *testing.T) {
	o := newOnce(t, `while :; do :; done`)
	o.Limit, o.Kill = 200*time.Millisecond, 50*time.Millisecond
	var left *child
	o.kill = func(c *child) { left = c }
	_, err := o.Run(t.Context())
	left.kill()
	<-left.exited
	require.ErrorIs(t, err, ErrAbandoned)
	require.ErrorContains(t, err, "has had no CPU time to exit, and is left behind")
}

func TestTheEndOfTheContextKillsTheProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	note := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(note, 0o600))
	go func() {
		defer cancel()
		_, _ = os.ReadFile(note) // the program has begun
	}()
	o := newOnce(t, `echo $$ > "$1"; exec sleep 1000`)
	o.Args = append(o.Args, "sh", note)
	_, err := o.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestACrashIsAnErrorWithWhatWasPrinted(t *testing.T) {
	a, err := newOnce(t, `echo half; kill -SEGV $$`).Run(t.Context())
	require.ErrorContains(t, err, "segmentation fault")
	require.Equal(t, "half\n", string(a.Stdout))
}

func TestAnAnswerThatIsTooLongIsCut(t *testing.T) {
	a, err := newOnce(t, `yes | head -c 17000000`).Run(t.Context())
	require.NoError(t, err)
	require.Len(t, a.Stdout, mostStdout)
	require.True(t, strings.HasPrefix(string(a.Stdout), "y\n"))
}

func TestAProgramThatCannotBeExecutedIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("no program"), 0o700))
	exe, err := OpenExe(path)
	require.NoError(t, err)
	defer exe.Close()
	_, err = (&Once{Exe: exe, Name: "x", Limit: patience}).Run(t.Context())
	require.ErrorIs(t, err, unix.ENOEXEC)
}
