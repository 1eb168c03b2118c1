package process

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

func TestALineIsCapped(t *testing.T) {
	r := newRecorder()
	l := newStderrLog(r.logger(), "test-child", time.Now)
	l.startLogging()
	for range 100 {
		_, err := l.Write([]byte(strings.Repeat("z", 1000)))
		require.NoError(t, err)
	}
	_, err := l.Write([]byte("\n\n  \nnext\r\n"))
	require.NoError(t, err)
	_, tail := l.report()
	require.Equal(t, []string{strings.Repeat("z", stderrLine) + "...", "next"}, tail)
	require.Len(t, r.logLines, 2)
}

func TestALineWithoutAnEndIsKeptOnceTheChildIsGone(t *testing.T) {
	l := newStderrLog(newRecorder().logger(), "test-child", time.Now)
	_, err := l.Write([]byte("last wo\xffrds"))
	require.NoError(t, err)
	l.flush()
	_, tail := l.report()
	require.Equal(t, []string{"last wo?rds"}, tail)
}

func TestOnlyTheLastKilobytesAreKept(t *testing.T) {
	l := newStderrLog(newRecorder().logger(), "test-child", time.Now)
	for i := range 10_000 {
		fmt.Fprintln(l, "line", i)
	}
	_, tail := l.report()
	all := strings.Join(tail, "\n")
	require.LessOrEqual(t, len(all), stderrTail)
	require.Greater(t, len(all), stderrTail-100)
	require.Equal(t, "line 9999", tail[len(tail)-1])
}

func TestOfACrashTheBeginningIsKept(t *testing.T) {
	r := newRecorder()
	l := newStderrLog(r.logger(), "test-child", time.Now)
	l.startLogging()
	for i := range 10 {
		fmt.Fprintln(l, "before", i)
	}
	fmt.Fprintln(l, "SIGSEGV: segmentation violation")
	for i := range 1000 {
		fmt.Fprintln(l, "goroutine", i)
	}
	crash, tail := l.report()
	require.Equal(t, "SIGSEGV: segmentation violation", crash)
	require.Contains(t, tail, "before 9")
	require.Contains(t, tail, "goroutine 0")
	require.LessOrEqual(t, len(strings.Join(tail, "\n")), stderrTail)
	require.Len(t, r.logLines, 10, "the traceback comes with the crash report")
}

func TestAFloodIsLoggedAsFarAsTheRateAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		l := newStderrLog(r.logger(), "test-child", time.Now)
		l.startLogging()
		flood := func() {
			for range 1000 {
				fmt.Fprintln(l, "event")
			}
		}
		flood()
		require.Len(t, r.logLines, stderrBurst)
		<-time.After(3 * stderrEvery)
		flood()
		require.Len(t, r.logLines, stderrBurst+3+1)
		require.Contains(t, strings.Join(r.logLines, ""), "980 lines of test-child output dropped")
	})
}

func TestEarlyOutputIsLoggedAfterTheHandshake(t *testing.T) {
	r := newRecorder()
	l := newStderrLog(r.logger(), "test-child", time.Now)
	fmt.Fprintln(l, "early")
	require.Empty(t, r.logLines)
	l.startLogging()
	fmt.Fprintln(l, "late")
	require.Len(t, r.logLines, 2)
	require.Contains(t, r.logLines[0], "line=early")
	require.Contains(t, r.logLines[1], "line=late")
}

func TestGoPluginMessagesHaveLevelDebug(t *testing.T) {
	var b strings.Builder
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var l hclog.Logger = &pluginLog{log: log}
	l.Trace("never")
	l.With("a", 1).Named("stdio").Error("plugin process exited", "id", 7)
	require.Contains(t, b.String(), `level=DEBUG msg="go-plugin: plugin process exited" a=1 id=7`)
	require.NotContains(t, b.String(), "never")
	require.True(t, l.IsError())

	b.Reset()
	quiet := l.Named(stderrLoggerName)
	quiet.Error("a line of the child")
	require.Empty(t, b.String())
	require.Equal(t, hclog.Off, quiet.GetLevel())
	require.False(t, quiet.IsError())
}
