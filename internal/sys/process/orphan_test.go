package process

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A child ends when its host closes the stream. Two other mechanisms end it if the library does not close the device: the lifeline
// and the parent-death signal. Two modes disable one of them, and "has neither" disables both in a child that closes its device.
// The last mode disables both in a confined child, which sets the signal again.
func TestNoChildOutlivesAHostThatIsKilled(t *testing.T) {
	for _, mode := range []string{"works", "has no lifeline", "has no parent-death signal", "has neither", "is executed with capabilities"} {
		t.Run(mode, func(t *testing.T) {
			base := shortDir(t)
			host := exec.Command("/proc/self/exe")
			host.Env = append(os.Environ(), hostKey+"="+mode, noteKey+"="+base)
			host.Stderr = os.Stderr
			out, err := host.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, host.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			require.NoError(t, err, line)
			require.NoError(t, host.Process.Signal(unix.SIGKILL))
			require.Error(t, host.Wait())
			awaitGone(t, pid)

			left, err := filepath.Glob(filepath.Join(base, dirPrefix+"*", "plugin-dir*"))
			require.NoError(t, err)
			require.Len(t, left, 1, "the socket of a killed host stays")
			dir, err := OpenDir(base)
			require.NoError(t, err)
			defer dir.Close()
			require.NoDirExists(t, left[0], "the next host sweeps it")
		})
	}
}
