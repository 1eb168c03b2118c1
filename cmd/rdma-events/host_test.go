package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/execd"
)

// sink is a service input that adds one metric per Gather and in Stop.
type sink struct {
	acc     telegraf.Accumulator
	stopped bool
}

func (*sink) SampleConfig() string { return "" }

func (r *sink) Start(acc telegraf.Accumulator) error {
	r.acc = acc
	return nil
}

func (r *sink) Gather(acc telegraf.Accumulator) error {
	acc.AddFields("gathered", map[string]any{"v": int64(1)}, nil, time.Unix(1, 2))
	return nil
}

func (r *sink) Stop() {
	r.acc.AddFields("stopped", map[string]any{"v": int64(1)}, nil, time.Unix(3, 4))
	r.stopped = true
}

// testHost is a pluginHost between two pipes.
type testHost struct {
	pluginHost
	plugin *sink
	log    *testutil.CaptureLogger
	stdin  *os.File // the test writes to it
	stdout *os.File // the test reads from it
	result chan error
}

func newRig(t *testing.T) *testHost {
	t.Helper()
	inR, inW := newPipe(t)
	outR, outW := newPipe(t)
	in, err := execd.NewInput(int(inR.Fd()))
	require.NoError(t, err)
	out, err := execd.NewOutput(int(outW.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, out.Close())
	})
	r := &testHost{plugin: &sink{}, log: &testutil.CaptureLogger{}, stdin: inW, stdout: outR, result: make(chan error, 1)}
	r.pluginHost = pluginHost{plugin: r.plugin, in: in, out: out, log: r.log, limit: time.Second}
	return r
}

func newPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, f := range []*os.File{r, w} {
			if err := f.Close(); err != nil {
				require.ErrorIs(t, err, os.ErrClosed)
			}
		}
	})
	return r, w
}

func (r *testHost) start(ctx context.Context) { go func() { r.result <- r.run(ctx) }() }

func TestALineOnStandardInputPromptsAndItsEndStops(t *testing.T) {
	r := newRig(t)
	r.start(t.Context())
	lines := bufio.NewReader(r.stdout)
	for range 3 {
		_, err := r.stdin.WriteString("\n")
		require.NoError(t, err)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "gathered v=1i 1000000002\n", line)
	}
	require.NoError(t, r.stdin.Close())
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "stopped v=1i 3000000004\n", line)
	require.NoError(t, <-r.result)
	require.Empty(t, r.log.Messages())
}

func TestTheTimerPromptsToo(t *testing.T) {
	r := newRig(t)
	r.interval = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	r.start(ctx)
	lines := bufio.NewReader(r.stdout)
	for range 3 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "gathered v=1i 1000000002\n", line)
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	require.NoError(t, <-r.result)
	require.True(t, r.plugin.stopped)
}

func TestASignalPromptsToo(t *testing.T) {
	r := newRig(t)
	prompts := make(chan os.Signal, 1)
	r.signals = prompts
	ctx, cancel := context.WithCancel(t.Context())
	r.start(ctx)
	prompts <- unix.SIGUSR1
	line, err := bufio.NewReader(r.stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "gathered v=1i 1000000002\n", line)
	cancel()
	require.NoError(t, <-r.result, "undrained output does not hold it for ever")
}

func TestALostReaderOfStandardOutputStopsThePlugin(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.stdout.Close())
	r.start(t.Context())
	_, err := r.stdin.WriteString("\n")
	require.NoError(t, err)
	require.ErrorIs(t, <-r.result, unix.EPIPE)
	require.True(t, r.plugin.stopped)
}

func TestWhatIsNotReadInTimeIsSaidToBeLost(t *testing.T) {
	r := newRig(t)
	_, err := r.out.Write([]byte("unread\n"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.drainOutput(ctx)
	require.Len(t, r.log.Warnings(), 1)
}

type broken struct{ sink }

func (*broken) Start(telegraf.Accumulator) error { return io.ErrUnexpectedEOF }

func TestAFailedStartIsTheResult(t *testing.T) {
	r := newRig(t)
	r.pluginHost.plugin = &broken{}
	require.ErrorIs(t, r.run(t.Context()), io.ErrUnexpectedEOF)
}
