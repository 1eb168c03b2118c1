package rig

import (
	"fmt"
	"io"
	"testing"
)

// Reliability prints a figure of the page about reliability: a line of its own,
// "reliability: key: value".
func Reliability(t testing.TB, key, format string, args ...any) {
	t.Helper()
	_, _ = io.WriteString(t.Output(), fmt.Sprintf("reliability: "+key+": "+format+"\n", args...)) // t's own never fails
}
