package execd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ends has the two ends of a pipe. The test or the cleanup closes them.
type ends struct{ r, w *os.File }

// newPipe returns a pipe in blocking mode, as a process inherits it.
func newPipe(t *testing.T) ends {
	t.Helper()
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	p := ends{os.NewFile(uintptr(fds[0]), "read end"), os.NewFile(uintptr(fds[1]), "write end")}
	t.Cleanup(func() {
		for _, f := range []*os.File{p.r, p.w} {
			if err := f.Close(); err != nil {
				require.ErrorIs(t, err, os.ErrClosed)
			}
		}
	})
	return p
}

func newOutput(t *testing.T, f *os.File) *Output {
	t.Helper()
	o, err := NewOutput(int(f.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

func newInput(t *testing.T, f *os.File) *Input {
	t.Helper()
	in, err := NewInput(int(f.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return in
}

// fillPipe writes until the pipe is full.
func fillPipe(t *testing.T, f *os.File) {
	t.Helper()
	w := int(f.Fd())
	require.NoError(t, unix.SetNonblock(w, true))
	for {
		_, err := unix.Write(w, make([]byte, pipeBuf))
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		require.NoError(t, err)
	}
	require.NoError(t, unix.SetNonblock(w, false))
}

// inBackground runs a call that may block, and sends its error.
func inBackground(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

func writeCall(o *Output, text []byte) func() error {
	return func() error {
		_, err := o.Write(text)
		return err
	}
}

func TestOutputWritesMoreThanThePipeHolds(t *testing.T) {
	p := newPipe(t)
	want := bytes.Repeat([]byte("0123456789abcdef\n"), 40_000)
	result := inBackground(writeCall(newOutput(t, p.w), want))
	got := make([]byte, len(want))
	_, err := io.ReadFull(newInput(t, p.r), got)
	require.NoError(t, err)
	require.NoError(t, <-result)
	require.True(t, bytes.Equal(want, got))
}

func TestInterruptEndsAWriteToAFullPipe(t *testing.T) {
	p := newPipe(t)
	fillPipe(t, p.w)
	o := newOutput(t, p.w)
	result := inBackground(writeCall(o, []byte("late\n")))
	o.Interrupt()
	require.ErrorIs(t, <-result, ErrInterrupted)
	require.ErrorIs(t, writeCall(o, []byte("later\n"))(), ErrInterrupted)
	o.Interrupt()
}

func TestOutputReportsThatTheReaderIsGone(t *testing.T) {
	p := newPipe(t)
	require.NoError(t, p.r.Close())
	require.ErrorIs(t, writeCall(newOutput(t, p.w), []byte("line\n"))(), unix.EPIPE)
}

func TestOutputReportsAClosedDescriptor(t *testing.T) {
	p := newPipe(t)
	o := newOutput(t, p.w)
	require.NoError(t, p.w.Close())
	require.ErrorIs(t, writeCall(o, []byte("line\n"))(), unix.EBADF)
}

func TestOutputCopesWithANonBlockingDescriptor(t *testing.T) {
	p := newPipe(t)
	o := newOutput(t, p.w)
	require.NoError(t, unix.SetNonblock(o.fd, true))
	const size = 300_000
	result := inBackground(writeCall(o, make([]byte, size)))
	_, err := io.CopyN(io.Discard, p.r, size)
	require.NoError(t, err)
	require.NoError(t, <-result)
}

func TestLongLinesComeWhole(t *testing.T) {
	p := newPipe(t)
	line := strings.Repeat("x", 3*pipeBuf) + "\n"
	require.NoError(t, writeCall(newOutput(t, p.w), []byte(line))())
	buf := make([]byte, len(line))
	_, err := io.ReadFull(p.r, buf)
	require.NoError(t, err)
	require.Equal(t, line, string(buf))
}

func TestDrainWaitsForTheReader(t *testing.T) {
	p := newPipe(t)
	o := newOutput(t, p.w)
	require.NoError(t, writeCall(o, []byte("line\n"))())

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, o.Drain(canceled), "a line is still unread")

	drained := make(chan bool, 1)
	go func() { drained <- o.Drain(t.Context()) }()
	n, err := p.r.Read(make([]byte, 16))
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.True(t, <-drained)
}

func TestDrainDoesNotWaitForAReaderThatHasGone(t *testing.T) {
	p := newPipe(t)
	o := newOutput(t, p.w)
	require.NoError(t, writeCall(o, []byte("line\n"))())
	require.NoError(t, p.r.Close())
	require.False(t, o.Drain(t.Context()), "the line is lost")
}

func TestDrainDoesNotWaitForAFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	o := newOutput(t, f)
	require.NoError(t, writeCall(o, []byte("line\n"))())
	require.True(t, o.Drain(t.Context()))
	require.NoError(t, f.Close())
}

func readCall(in *Input) func() error {
	return func() error {
		_, err := in.Read(make([]byte, 8))
		return err
	}
}

func TestInputReadsUntilTheOtherSideCloses(t *testing.T) {
	p := newPipe(t)
	in := newInput(t, p.r)
	_, err := p.w.WriteString("\n")
	require.NoError(t, err)
	buf := make([]byte, 8)
	n, err := in.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "\n", string(buf[:n]))

	result := inBackground(readCall(in))
	require.NoError(t, p.w.Close())
	require.ErrorIs(t, <-result, io.EOF)
}

func TestInterruptEndsAReadOfAnEmptyPipe(t *testing.T) {
	in := newInput(t, newPipe(t).r)
	result := inBackground(readCall(in))
	in.Interrupt()
	require.ErrorIs(t, <-result, ErrInterrupted)
	require.ErrorIs(t, readCall(in)(), ErrInterrupted)
}
