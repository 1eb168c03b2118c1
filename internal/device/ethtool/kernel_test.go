package ethtool

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/confine"
	"rdma_events/tests/prerequisite"
)

// childKey is the environment variable with the name of an interface. If it is set, the test program
// reports what it can read about that interface with its privileges.
const childKey, confineKey = "ETHTOOL_TEST_INTERFACE", "ETHTOOL_TEST_CONFINE"

// confine.Enter must be called from the first thread.
func init() {
	if os.Getenv(confineKey) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if name := os.Getenv(childKey); name != "" {
		if err := reportAs(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type childReport struct {
	User       int
	Effective  uint64 // capabilities
	Landlock   int
	Link       Link
	Statistics Statistics
}

func reportAs(name string) error {
	if os.Getenv(confineKey) != "" {
		if err := confine.Enter(confine.Needs{}); err != nil {
			return err
		}
	}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0]); err != nil {
		return err
	}
	r := childReport{User: os.Getuid(), Effective: uint64(caps[1].Effective)<<32 | uint64(caps[0].Effective), Landlock: confine.Landlock()}
	var err error
	if r.Link, err = QueryLink(name); err != nil {
		return err
	}
	if r.Statistics, err = QueryStatistics(name); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// ownNamespace gives the test's goroutine a network namespace. The thread is never unlocked, so
// that it ends with the goroutine, and the namespace with it.
func ownNamespace(t *testing.T) {
	t.Helper()
	prerequisite.RequireRoot(t, "not root: only root can make a network namespace")
	if _, err := exec.LookPath("ip"); err != nil {
		prerequisite.Missing(t, prerequisite.Interfaces, "no program ip (iproute2) to make interfaces with")
	}
	runtime.LockOSThread()
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET), "make a network namespace")
}

// runIP runs the program in the namespace of the calling thread, which a child inherits.
func runIP(t *testing.T, line string) {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
	if bytes.Contains(out, []byte("Unknown device type")) {
		prerequisite.Missing(t, prerequisite.Interfaces, "the kernel has no interfaces of the type of: ip "+line)
	}
	require.NoError(t, err, "ip %s: %s", line, out)
}

func TestLinkOfVethFollowsBothEnds(t *testing.T) {
	ownNamespace(t)
	runIP(t, "link add near type veth peer name far")
	runIP(t, "link set near up")
	runIP(t, "link set far up")
	state := func() Link {
		l, err := QueryLink("near")
		require.NoError(t, err)
		return l
	}
	up, down := Link{Up: true, HasUp: true}, Link{HasUp: true}
	require.Equal(t, up, state())
	runIP(t, "link set far down")
	require.Equal(t, down, state(), "the peer is down")
	runIP(t, "link set far up")
	require.Equal(t, up, state())
	runIP(t, "link set near down")
	require.Equal(t, down, state(), "administratively down")
}

func TestStatisticsOfVethAreThoseAboutDrops(t *testing.T) {
	ownNamespace(t)
	runIP(t, "link add near type veth peer name far")
	s, err := QueryStatistics("near")
	require.NoError(t, err)
	require.Contains(t, s.Values, "rx_queue_0_drops")
	require.Contains(t, s.Values, "rx_queue_0_xdp_drops")
	require.NotContains(t, s.Values, "peer_ifindex")
	require.Greater(t, s.Claimed, len(s.Values))
	require.Zero(t, s.LeftOut)

	peer, err := net.InterfaceByName("far")
	require.NoError(t, err)
	s, err = queryStatistics("near", func(name []byte) bool { return string(name) == "peer_ifindex" })
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"peer_ifindex": uint64(peer.Index)}, s.Values, "each value stands at its name")
}

func TestKernelCannotWriteBehindAnAnswer(t *testing.T) {
	ownNamespace(t)
	runIP(t, "link add near numrxqueues 64 numtxqueues 64 type veth peer name far")
	fd, err := openSocket()
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	do := commandFor(fd, "near")
	n, err := countStatistics(do)
	require.NoError(t, err)
	require.Greater(t, n*8, os.Getpagesize(), "neither names nor values of all fit into one page")
	// The driver now has more statistics than when they were counted.
	for _, c := range []struct {
		header []uint32
		entry  int
	}{
		{[]uint32{unix.ETHTOOL_GSTRINGS, setStatistics, 1}, nameSize},
		{[]uint32{unix.ETHTOOL_GSTRINGS, setStatistics, uint32(n) - 1}, nameSize},
		{[]uint32{unix.ETHTOOL_GSTATS, 1}, 8},
		{[]uint32{unix.ETHTOOL_GSTATS, uint32(n) - 1}, 8},
	} {
		err = readEntries(do, c.header, c.entry, func([]byte) { t.Error("these are not the driver's statistics") })
		require.Error(t, err)
		t.Log(err)
	}
}

func TestMissingInterfacesAndDriversWithoutAnswersAreKnown(t *testing.T) {
	ownNamespace(t)
	long := strings.Repeat("n", unix.IFNAMSIZ)
	runIP(t, "link add "+long[1:]+" type veth peer name far") // which a cut name would be
	for _, name := range []string{"none", "", long} {
		_, err := QueryLink(name)
		require.ErrorIs(t, err, ErrNoInterface)
		_, err = QueryStatistics(name)
		require.ErrorIs(t, err, ErrNoInterface)
		require.ErrorContains(t, err, fmt.Sprintf("%q", name))
	}
	_, err := QueryStatistics("lo")
	require.ErrorIs(t, err, ErrUnsupported)
}

// TestNoCapabilityIsNeeded reads as another user, and as a process that has confined itself like
// a worker.
func TestNoCapabilityIsNeeded(t *testing.T) {
	for _, confined := range []bool{false, true} {
		t.Run(fmt.Sprint("confined ", confined), func(t *testing.T) {
			ownNamespace(t)
			runIP(t, "link add near type veth peer name far")
			runIP(t, "link set near up")
			runIP(t, "link set far up")
			var out, problems bytes.Buffer
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), childKey+"=near", "GORACE=atexit_sleep_ms=0")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if confined {
				cmd.Env, cmd.SysProcAttr = append(cmd.Env, confineKey+"=1"), nil
			}
			cmd.Stdout, cmd.Stderr = &out, &problems
			require.NoError(t, cmd.Run(), "%s", &problems)
			var r childReport
			require.NoError(t, json.Unmarshal(out.Bytes(), &r))
			t.Logf("%+v", r)
			require.Zero(t, r.Effective, "it had no capabilities")
			require.Equal(t, !confined, r.User == 65534)
			require.Equal(t, Link{Up: true, HasUp: true}, r.Link)
			require.Contains(t, r.Statistics.Values, "rx_queue_0_drops")
		})
	}
}

func TestMemoryEndsBeforeAPageThatCannotBeWritten(t *testing.T) {
	const size = 100
	memory, release, err := reserveMemory(size)
	require.NoError(t, err)
	defer release()
	require.Len(t, memory, size)
	zero, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(zero) }()
	binary.NativeEndian.PutUint32(memory, 7)
	// The kernel stops at the end of the first page, however many statistics there are.
	n, _, _ := unix.Syscall(unix.SYS_READ, uintptr(zero), uintptr(unsafe.Pointer(&memory[0])), 1<<20)
	require.LessOrEqual(t, int(n), os.Getpagesize())
	require.Zero(t, binary.NativeEndian.Uint32(memory), "it wrote what fits")
}
