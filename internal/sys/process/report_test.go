package process

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/status"
)

func TestAChildThatTheKernelRefusesIsNoCrash(t *testing.T) {
	spec := new(testSpec())
	for _, row := range []struct {
		name   string
		err    error
		reason status.Reason
		advice string
	}{
		{"no process more", unix.EAGAIN, status.ReasonLimit, "TasksMax"},
		{"no memory", unix.ENOMEM, status.ReasonLimit, "MemoryMax"},
		{"no descriptor of the process", unix.EMFILE, status.ReasonLimit, "LimitNOFILE"},
		{"no descriptor of the host", unix.ENFILE, status.ReasonLimit, "LimitNOFILE"},
		{"a file of another machine", unix.ENOEXEC, status.ReasonCrashed, "child_path"},
		{"something else", errors.New("else"), status.ReasonCrashed, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			why, then := explainEnd(spec, &report{Err: fmt.Errorf("execute it: %w", row.err)}, causeNone, Call{})
			require.Equal(t, row.reason, why.Reason)
			require.Equal(t, Slowly, then)
			require.Contains(t, why.Message, "child of mlx5_0 cannot be started: execute it: "+row.err.Error())
			require.Contains(t, why.Message, row.advice)
		})
	}
}

// If the Go runtime cannot start a thread, it ends the process with SIGABRT.
func TestAChildThatIsRefusedAThreadIsNoCrash(t *testing.T) {
	spec := new(testSpec())
	for _, said := range []string{
		"runtime/cgo: pthread_create failed: Resource temporarily unavailable",
		"runtime: failed to create new OS thread (have 5 already; errno=11)",
	} {
		for _, shook := range []bool{false, true} {
			r := &report{PID: 7, Shook: shook, Crash: "SIGABRT: abort", Tail: []string{said, "SIGABRT: abort"}, Status: 2 << 8}
			why, then := explainEnd(spec, r, causeNone, Call{})
			require.Equal(t, status.ReasonLimit, why.Reason)
			require.Equal(t, Slowly, then)
			require.Contains(t, why.Message, "TasksMax")
		}
	}
}

func TestTheTraceOfACrashIsOneBoundedLine(t *testing.T) {
	const crash = "SIGSEGV: segmentation violation"
	r := report{Crash: crash, Tail: []string{"banner", crash, "PC=0x7f m=3", "\t/native.go:12 +0x1 fp=0x1a sp=0x2b pc=0x3c"}}
	require.Equal(t, crash+" | PC=0x7f m=3 | /native.go:12 +0x1", r.trace())

	for range 1000 {
		r.Tail = append(r.Tail, "goroutine 12 [select]:")
	}
	require.LessOrEqual(t, len(r.trace()), 2*traceLimit)
	require.True(t, strings.HasSuffix(r.trace(), " | ..."))

	require.Empty(t, (&report{Tail: []string{"killed"}}).trace())
}
