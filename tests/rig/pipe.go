package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// IsFull reports whether a descriptor of a process is a pipe that is full at the
// moment, so that a write to it blocks.
func IsFull(t testing.TB, pid, fd int) bool {
	t.Helper()
	own, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open descriptor %d of process %d: %v", fd, pid, err)
	}
	defer unix.Close(own)
	poll := []unix.PollFd{{Fd: int32(own), Events: unix.POLLOUT}}
	if _, err := unix.Poll(poll, 0); err != nil {
		t.Fatalf("poll descriptor %d of process %d: %v", fd, pid, err)
	}
	return poll[0].Revents&unix.POLLOUT == 0
}

// Fill writes to a pipe or FIFO until it is full. The file must be open for
// writing without blocking.
func Fill(t testing.TB, f *os.File) {
	t.Helper()
	if err := f.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write(make([]byte, 2<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("fill %s: want it full before 2 MiB, got %d bytes and %v", f.Name(), n, err)
	}
}

// FullFIFO makes a full FIFO that any user may write to. It is removed at the end
// of the test.
func FullFIFO(t testing.TB) *os.File {
	t.Helper()
	path := filepath.Join(sharedDir(t), "fifo")
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatalf("make %s: %v", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // no test needs the bytes in it
	Fill(t, f)
	return f
}

// AwaitText reads a pipe or FIFO until it has read text.
func AwaitText(t testing.TB, f *os.File, text string) {
	t.Helper()
	if err := f.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for buf := make([]byte, 64<<10); !bytes.Contains(got, []byte(text)); {
		n, err := f.Read(buf)
		if err != nil {
			t.Fatalf("want %q in %s, got %q and %v", text, f.Name(), bytes.Trim(got, "\x00"), err)
		}
		got = append(got, buf[:n]...)
	}
}
