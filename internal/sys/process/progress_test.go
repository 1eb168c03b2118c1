package process

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// readTap writes a text in parts, and returns the text that a tap passes on, the first line that it keeps, and the steps.
func readTap(t *testing.T, parts ...string) (text, first string, steps []string) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, part := range parts {
			_, _ = w.WriteString(part)
		}
		w.Close()
	}()
	c := &tap{File: r, step: func(step string) { steps = append(steps, step) }}
	all, err := io.ReadAll(c)
	require.NoError(t, err)
	<-done
	return string(all), c.line(), steps
}

func TestProgressIsTakenOutOfStdout(t *testing.T) {
	const hello = "1|1|unix|/x|grpc|\n"
	for name, row := range map[string]struct {
		parts []string
		text  string
		first string
		steps []string
	}{
		"none":              {[]string{hello}, hello, "1|1|unix|/x|grpc|", nil},
		"nothing":           {nil, "", "", nil},
		"two steps":         {[]string{progressMark + "starting\n" + progressMark + "loading\n", hello}, hello, "1|1|unix|/x|grpc|", []string{"starting", "loading"}},
		"in parts":          {[]string{"rdma-ev", "ents-start|sta", "rting\n1|1", "|unix|/x|grpc|\n"}, hello, "1|1|unix|/x|grpc|", []string{"starting"}},
		"it ends":           {[]string{progressMark + "starting\n"}, "", "", []string{"starting"}},
		"it ends in a line": {[]string{progressMark + "star"}, progressMark + "star", progressMark + "star", nil},
		"odd bytes":         {[]string{progressMark + "lo\x1bad\xffing\n"}, "", "", []string{"lo?ad\ufffding"}},
		"a similar line":    {[]string{"rdma-events: usage\n"}, "rdma-events: usage\n", "rdma-events: usage", nil},
		"after the hello":   {[]string{hello, progressMark + "late\n"}, hello + progressMark + "late\n", "1|1|unix|/x|grpc|", nil},
	} {
		t.Run(name, func(t *testing.T) {
			text, first, steps := readTap(t, row.parts...)
			require.Equal(t, row.text, text)
			require.Equal(t, row.first, first)
			require.Equal(t, row.steps, steps)
		})
	}
}

func TestProgressWithoutAnEndIsBounded(t *testing.T) {
	long := progressMark
	for range 1000 {
		long += "0123456789"
	}
	text, _, steps := readTap(t, long)
	require.Equal(t, long, text)
	require.Empty(t, steps)
}
