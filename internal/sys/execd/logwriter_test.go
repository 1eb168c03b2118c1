package execd

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestLinesBeginWithTheirLevel(t *testing.T) {
	const stamp = "2026-11-21T11:31:53Z "
	for _, tt := range []struct{ name, in, want string }{
		{"a redirected message", stamp + "W! (category=,plugin=) mlx5_0: stuck\n", "W! mlx5_0: stuck\n"},
		{"attributes the other way round", stamp + "E! (plugin=,category=) gone\n", "E! gone\n"},
		{"a named plugin", stamp + "D! [inputs.x] (category=inputs,plugin=x) y\n", "D! [inputs.x] (category=inputs,plugin=x) y\n"},
		{"no stamp", "T! trace\n", "T! trace\n"},
		{"no level", "stray print\n", "I! stray print\n"},
		{"several lines", stamp + "E! a\nb\nc\n", "E! a\nE! b\nE! c\n"},
		{"an empty line inside", stamp + "I! a\n\nb\n", "I! a\nI! \nI! b\n"},
		{"carriage return", stamp + "I! a\r\n", "I! a\n"},
		{"nothing", "", "I! \n"},
		{"a short text with the mark of a level", "no!", "I! no!\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, string(formatMessage([]byte(tt.in))))
		})
	}
}

func TestEveryLineIsCapped(t *testing.T) {
	msg := "2026-11-21T11:31:53Z I! " + strings.Repeat("x", 70_000) + "\n" + strings.Repeat("y", 5000) + "\nz\n"
	out := formatMessage([]byte(msg))
	require.Less(t, len(out), maxMessage)
	for line := range strings.Lines(string(out)) {
		require.LessOrEqual(t, len(line), len("I! ")+maxLine+len(truncated)+1)
		require.True(t, strings.HasPrefix(line, "I! "))
	}
	require.Contains(t, string(out), truncated)
}

func TestFormatLeavesItsInputAlone(t *testing.T) {
	backing := []byte(strings.Repeat("x", maxMessage+10) + "tail")
	kept := bytes.Clone(backing)
	formatMessage(backing[:maxMessage+10])
	require.True(t, bytes.Equal(kept, backing))
}

// stalled blocks in Write until released.
type stalled struct {
	entered chan struct{}
	release chan struct{}

	mu  sync.Mutex
	got bytes.Buffer
}

func newStalled() *stalled {
	return &stalled{entered: make(chan struct{}, 1), release: make(chan struct{})}
}

func (s *stalled) Write(p []byte) (int, error) {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(p)
}

func TestLoggingGoesOnWhileStandardErrorIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newStalled()
		l := NewLogWriter(out)
		done := make(chan error, 1)
		go func() { done <- l.Run() }()

		_, err := l.Write([]byte("I! first\n"))
		require.NoError(t, err)
		<-out.entered

		const messages = 200_000
		line := []byte("2026-11-21T11:31:53Z W! (category=,plugin=) mlx5_0: worker restarted\n")
		for range messages {
			_, err := l.Write(line)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(l.pending), maxPending)

		close(out.release)
		l.Close()
		require.NoError(t, <-done)

		text := out.got.String()
		kept := strings.Count(text, "W! mlx5_0: worker restarted\n")
		require.Positive(t, kept)
		require.Less(t, kept, messages)
		want := "W! " + strconv.Itoa(messages-kept) + " log messages were dropped: standard error was not read\n"
		require.Contains(t, text, want)
		require.True(t, strings.HasPrefix(text, "I! first\n"))
	})
}

func TestManyMessagesTakeNoMemory(t *testing.T) {
	l := NewLogWriter(discard{})
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	line := []byte("2026-11-21T11:31:53Z I! (category=,plugin=) " + strings.Repeat("x", 200) + "\n")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 200_000 {
		_, err := l.Write(line)
		require.NoError(t, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// There are two buffers of at most maxPending, which append may have grown by half.
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(4*maxPending))
	l.Close()
	require.NoError(t, <-done)
}

// pausing lets the test log the next message while one is being written.
type pausing struct {
	got     bytes.Buffer
	entered chan struct{}
	leave   chan struct{}
}

func (p *pausing) Write(b []byte) (int, error) {
	p.entered <- struct{}{}
	<-p.leave
	return p.got.Write(b)
}

func TestMessagesThatComeDuringAWriteDoNotDisturbIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &pausing{entered: make(chan struct{}), leave: make(chan struct{})}
		l := NewLogWriter(out)
		done := make(chan error, 1)
		go func() { done <- l.Run() }()
		var want strings.Builder
		log := func(text string) {
			_, err := l.Write([]byte("I! " + text + "\n"))
			require.NoError(t, err)
			want.WriteString("I! " + text + "\n")
		}
		for i := range 50 {
			log("first " + strconv.Itoa(i))
			<-out.entered
			log("other " + strconv.Itoa(i))
			out.leave <- struct{}{}
			<-out.entered
			out.leave <- struct{}{}
			synctest.Wait() // until Run has nothing more to write and sleeps
		}
		l.Close()
		require.NoError(t, <-done)
		require.Equal(t, want.String(), out.got.String())
	})
}

func TestEverythingLoggedBeforeCloseIsWritten(t *testing.T) {
	var out bytes.Buffer
	l := NewLogWriter(&out)
	for range 100 {
		_, err := l.Write([]byte("E! last words\n"))
		require.NoError(t, err)
	}
	l.Close()
	require.NoError(t, l.Run())
	require.Equal(t, strings.Repeat("E! last words\n", 100), out.String())
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
