package worker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
