package hotplug

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/prerequisite"
)

// reached returns the configuration of a process that receives uevents.
func (h *host) reached(uevents func() (Source, error)) Config {
	cfg := h.patient(uevents)
	cfg.UeventsReach = func() bool { return true }
	return cfg
}

// inotifyCount returns the number of inotify instances of this process.
func inotifyCount(t *testing.T) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == "anon_inode:inotify" {
			n++
		}
	}
	return n
}

func TestInotifyIsUsedOnlyWhereNoUeventsReach(t *testing.T) {
	for _, reach := range []bool{true, false} {
		h, u := hostWithRxe(t), newUevents()
		cfg := h.reached(u.open)
		cfg.UeventsReach = func() bool { return reach }
		cfg.Warn = func(err error) { t.Error(err) }
		done, _ := startRemoval(t, cfg)
		u.send(deviceEvent("change", "rxe0")...)
		u.send(deviceEvent("change", "rxe0")...) // the uevent before has been handled
		want := 1
		if reach {
			want = 0
		}
		require.Eventually(t, func() bool { return inotifyCount(t) == want }, time.Minute, time.Millisecond)
		u.send(nodeEvent("remove", "uverbs0")...)
		require.NoError(t, <-done)
		require.Zero(t, inotifyCount(t))
	}
}

func TestInotifyTakesOverWhenUeventsFail(t *testing.T) {
	h, u := hostWithRxe(t), newUevents()
	warned := make(chan error, 1)
	cfg := h.reached(u.open)
	cfg.Warn = func(err error) { warned <- err }
	done, _ := startRemoval(t, cfg)
	u.fail(errRefused)
	require.EqualError(t, <-warned, "only one way to detect removal of uverbs0 works: refused by the test")
	require.Equal(t, 1, inotifyCount(t))
	require.NoError(t, os.RemoveAll(filepath.Join(h.dev, "infiniband"))) // no uevent, and sysfs still has it
	require.NoError(t, <-done)
}

func TestInotifyIsUsedAtOnceWhereUeventsAreRefused(t *testing.T) {
	h := hostWithRxe(t)
	done, _ := startRemoval(t, h.reached(refuseSource))
	require.Eventually(t, func() bool { return inotifyCount(t) == 1 }, time.Minute, time.Millisecond)
	h.remove("rxe0", "uverbs0")
	require.NoError(t, <-done)
}

// The test program runs itself again in other namespaces and calls UeventsReach there.
func TestUeventsReachNoNetworkOfAnotherUserNamespace(t *testing.T) {
	const key = "RDMA_EVENTS_TEST_REACHED"
	if os.Getenv(key) != "" {
		require.False(t, UeventsReach())
		return
	}
	for name, flags := range map[string]uintptr{
		"a network namespace below a user namespace": syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		"a user namespace below the network's":       syscall.CLONE_NEWUSER,
	} {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), key+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  flags,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if _, ran := err.(*exec.ExitError); err != nil && !ran { //nolint:errorlint // as Run returns it
			prerequisite.Missing(t, prerequisite.UserNamespaces, "user namespaces are refused: "+err.Error())
		}
		require.NoError(t, err, "%s: %s", name, out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
	}
}
