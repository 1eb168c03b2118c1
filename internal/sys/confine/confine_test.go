package confine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/prerequisite"
)

// helper is a running helper process that has made its attempts.
type helper struct {
	pid     int
	results map[string]string
}

// startHelper makes a helper process carry out o. The helper runs until the end of the test.
func startHelper(t *testing.T, o order) helper {
	t.Helper()
	return startHelperAs(t, self, &syscall.SysProcAttr{}, o)
}

// startHelperAs is like startHelper, with a copy of the test program and with process attributes.
func startHelperAs(t *testing.T, program string, attr *syscall.SysProcAttr, o order) helper {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	cmd := exec.Command(program)
	// By default the race detector sleeps a second at a program's end.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", orderKey+"="+string(text))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	// The thread that forks has to exist as long as the helper.
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	require.NoError(t, cmd.Start())
	h := helper{pid: cmd.Process.Pid}
	decoding := json.NewDecoder(stdout).Decode(&h.results)
	t.Cleanup(func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, cmd.Wait(), "%s", &stderr)
	})
	require.NoError(t, decoding, "%s", &stderr)
	return h
}

// newTarget makes the target of the attempts.
func newTarget(t *testing.T) target {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") //nolint:usetesting // the directory of a test contains its name, which is too long for the path of a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	for _, d := range []string{"read", "devices", "sockets"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	for _, f := range []string{"there", "writable", "removable", "giveable", "named", "read/file"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte("text"), 0o644))
	}
	program, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/read/program", program, 0o755))
	to := target{Dir: dir, Socket: filepath.Base(dir), PID: startHelper(t, order{}).pid}
	to.TCP = startListener(t, "tcp", "127.0.0.1:0").(*net.TCPAddr).Port
	startListener(t, "unix", dir+"/socket")
	startListener(t, "unix", "@"+to.Socket)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, udp.Close()) })
	to.UDP = udp.LocalAddr().(*net.UDPAddr).Port
	return to
}

// startListener listens until the end of the test. It accepts no connection: they stay in the queue.
func startListener(t *testing.T, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr()
}

// forbidden lists the attempts that are refused, with the first version of Landlock that refuses each one. 0: it is always
// refused, because a capability is missing.
var forbidden = map[string]struct {
	since int
	errno string
}{
	"read a secret":          {1, "EACCES"},
	"list the root":          {1, "EACCES"},
	"read another's file":    {1, "EACCES"},
	"write a file":           {1, "EACCES"},
	"make a file":            {1, "EACCES"},
	"remove a file":          {1, "EACCES"},
	"make a directory":       {1, "EACCES"},
	"execute a program":      {1, "EACCES"},
	"execute in a named dir": {1, "EACCES"},
	"write in a named dir":   {1, "EACCES"},
	"write a named file":     {1, "EACCES"},
	"make a device":          {1, "EACCES"},
	"trace a process":        {0, "EPERM"},
	"truncate a file":        {3, "EACCES"},
	"connect by TCP":         {4, "EACCES"},
	"listen by TCP":          {4, "EACCES"},
	"signal a process":       {6, "EPERM"},
	"connect to an abstract": {6, "EPERM"},
	"connect to a socket":    {9, "EACCES"},
	"send by UDP":            {10, "EACCES"},
	"open a raw socket":      {0, "EPERM"},
	"become another user":    {0, "EPERM"},
	"give a file away":       {0, "EPERM"},
	"mount":                  {0, "EPERM"},
}

func TestAConfinedProcessCanDoOnlyWhatItNeeds(t *testing.T) {
	requireRoot(t)
	abi := Landlock()
	require.Positive(t, abi, "this kernel has no Landlock: boot it with landlock in lsm=")
	requireRefused(t, abi, confinedOrder(newTarget(t)))
}

func TestWithoutLandlockCapabilitiesAreGivenUpAllTheSame(t *testing.T) {
	requireRoot(t)
	o := confinedOrder(newTarget(t))
	o.NoLandlock = true
	requireRefused(t, 0, o)
}

// The confinement, and nothing else, refuses the attempts above.
func TestWithoutConfinementAllOfThatIsPossible(t *testing.T) {
	requireRoot(t)
	require.Empty(t, startHelper(t, order{Target: newTarget(t)}).results)
}

func requireRefused(t *testing.T, abi int, o order) {
	t.Helper()
	want := map[string]string{}
	for what, row := range forbidden {
		if abi >= row.since {
			want[what] = row.errno
		}
	}
	require.Equal(t, want, startHelper(t, o).results, "Landlock %d", abi)
}

// requireRoot requires root. Without root some attempts fail anyway, so that they would prove nothing.
func requireRoot(t *testing.T) {
	t.Helper()
	prerequisite.RequireRoot(t, "not root: only root may do everything that is to be refused")
}

func confinedOrder(to target) order {
	return order{Confine: true, Target: to, Needs: Needs{
		Read:    []string{to.Dir + "/named", to.Dir + "/read", "/nowhere"},
		Devices: []string{to.Dir + "/devices", "/dev", "/nowhere"},
		Sockets: to.Dir + "/sockets",
	}}
}

func TestEveryThreadHasNothing(t *testing.T) {
	h := startHelper(t, order{Confine: true})
	requireOnEachThread(t, h, "CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n",
		"CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t0\n")
	if os.Geteuid() == 0 {
		requireOnEachThread(t, h, "CapBnd:\t0000000000000000\n")
	}
}

// requireOnEachThread requires lines of proc_pid_status(5).
func requireOnEachThread(t *testing.T, h helper, lines ...string) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", h.pid))
	require.NoError(t, err)
	require.Greater(t, len(tasks), 1)
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, line := range lines {
			require.Contains(t, string(text), line)
		}
	}
}

func TestASecondStartThatIsNotConfinedIsRefused(t *testing.T) {
	text, err := json.Marshal(order{Confine: true})
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), orderKey+"="+string(text), marker+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.True(t, strings.HasPrefix(string(out), ErrNotConfined.Error()+": "), "%s", out)
}
