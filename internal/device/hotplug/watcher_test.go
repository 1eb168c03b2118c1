package hotplug

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/netlink"
)

const guid = "e01f:e5ff:fe51:e9c2"

var rxe0 = verbs.Found{Name: "rxe0", Index: 0, Node: "uverbs0", NodeGUID: guid, Soft: true}

// watched is a Watcher that runs in a synctest bubble.
type watched struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error

	mu      sync.Mutex
	reports [][]verbs.Found
	warned  []string
}

func watchHost(t *testing.T, cfg Config) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watched{t: t, stop: cancel, done: make(chan error, 1)}
	cfg.Warn = w.warn
	go func() { w.done <- New(cfg).Run(ctx, w.report) }()
	t.Cleanup(w.end)
	return w
}

func (w *watched) report(found []verbs.Found) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, found)
}

func (w *watched) warn(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warned = append(w.warned, err.Error())
}

func (w *watched) end() {
	w.stop()
	require.ErrorIs(w.t, <-w.done, context.Canceled)
}

// expect waits for d and requires that these sets, and no others, are reported
// by then.
func (w *watched) expect(d time.Duration, want ...[]verbs.Found) {
	w.t.Helper()
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(w.t, want, w.reports)
	w.reports = nil
}

// testInBubble runs a test in a synctest bubble. Cleanups that the test registers also run in the bubble.
func testInBubble(t *testing.T, test func(t *testing.T, h *host, u *uevents)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newHost(t), newUevents()) })
}

func TestRunReportsWhatIsThereAtOnce(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		h.add("mlx5_0", "uverbs1", "0c42:a103:0065:bafe", 1)
		function := filepath.Join(h.sysfs, "devices/0000:3b:00.3")
		h.write(filepath.Join(function, "physfn"), "")
		require.NoError(t, os.Symlink("../bus/pci/drivers/mlx5_core", filepath.Join(function, "driver")))
		require.NoError(t, os.Symlink(function, filepath.Join(h.sysfs, "devices/virtual/infiniband/mlx5_0/device")))
		w := watchHost(t, h.config(u.open))

		w.expect(0, []verbs.Found{
			{
				Name: "mlx5_0", Index: 1, Node: "uverbs1", NodeGUID: "0c42:a103:0065:bafe", VirtualFunction: true,
				PCI: "0000:3b:00.3", Driver: "mlx5_core",
			},
			rxe0,
		})
	})
}

func TestRunReportsAnEmptySetWithoutRDMA(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		require.NoError(t, os.RemoveAll(h.sysfs))
		w := watchHost(t, h.config(u.open))
		w.expect(0, nil)
		require.Empty(t, w.warned)
	})
}

func TestAUeventIsFollowedByAScanOnceThingsHaveSettled(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, nil)

		h.add("rxe0", "uverbs0", guid, 0)
		u.send(nodeEvent("add", "uverbs0")...)
		w.expect(299 * time.Millisecond)
		u.send(deviceEvent("add", "rxe0")...)
		w.expect(299 * time.Millisecond)
		w.expect(2*time.Millisecond, []verbs.Found{withAdditions(rxe0, 1)})

		h.remove("rxe0", "uverbs0")
		u.send(nodeEvent("remove", "uverbs0")...)
		w.expect(time.Second, nil)
	})
}

// A device that moves to another network namespace and back within Config.Settle has
// the same index and node again.
func TestADeviceThatIsAddedAgainAsItWasIsReportedAgain(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, []verbs.Found{rxe0})

		u.send(deviceEvent("remove", "rxe0")...)
		u.send(deviceEvent("add", "rxe0")...)
		w.expect(time.Second, []verbs.Found{withAdditions(rxe0, 1)})
		u.send(deviceEvent("change", "rxe0")...)
		w.expect(time.Minute)
		u.send(deviceEvent("add", "rxe0")...)
		w.expect(time.Second, []verbs.Found{withAdditions(rxe0, 2)})
	})
}

func withAdditions(f verbs.Found, times int) verbs.Found {
	f.Added = times
	return f
}

func TestARenameBehindAnAdditionIsNotSeen(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, nil)

		h.add("mlx5_0", "uverbs0", guid, 4)
		u.send(deviceEvent("add", "mlx5_0")...)
		<-time.After(100 * time.Millisecond)
		h.remove("mlx5_0", "uverbs0")
		h.add("rocep59s0", "uverbs0", guid, 4)
		u.send(deviceEvent("move", "rocep59s0")...)

		w.expect(time.Second, []verbs.Found{{Name: "rocep59s0", Index: 4, Node: "uverbs0", NodeGUID: guid, Soft: true}})
	})
}

func TestAnUnendingSeriesOfUeventsPutsAScanOffForALimitedTime(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, nil)

		h.add("rxe0", "uverbs0", guid, 0)
		for range 14 {
			u.send(deviceEvent("change", "rxe0")...)
			w.expect(100 * time.Millisecond)
		}
		u.send(deviceEvent("change", "rxe0")...)
		w.expect(101*time.Millisecond, []verbs.Found{rxe0})
	})
}

func TestAChangeBeforeTheSubscriptionIsNotMissed(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		subscribe := make(chan struct{})
		w := watchHost(t, h.config(func() (Source, error) {
			<-subscribe
			return u, nil
		}))
		w.expect(time.Second, nil)

		h.add("rxe0", "uverbs0", guid, 0)
		close(subscribe)
		w.expect(301*time.Millisecond, []verbs.Found{rxe0})
	})
}

func TestUeventsOfOtherSubsystemsAreIgnored(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, nil)

		h.add("rxe0", "uverbs0", guid, 0)
		u.send("add@/devices/virtual/net/d0", "ACTION=add", "DEVPATH=/devices/virtual/net/d0", "SUBSYSTEM=net")
		w.expect(8 * time.Second)
		w.expect(time.Second, []verbs.Found{rxe0})
	})
}

func TestLostUeventsAreFollowedByAScan(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, nil)

		h.add("rxe0", "uverbs0", guid, 0)
		u.fail(netlink.ErrOverrun)
		w.expect(301*time.Millisecond, []verbs.Found{rxe0})
		require.Empty(t, w.warned)
	})
}

func TestAMessageWithoutAChangeIsNotReported(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, []verbs.Found{rxe0})
		u.send(deviceEvent("change", "rxe0")...)
		w.expect(time.Minute)
	})
}

func TestWithoutUeventsChangesAreFoundByScanning(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, _ *uevents) {
		w := watchHost(t, h.config(refuseSource))
		w.expect(time.Second, nil)

		h.add("rxe0", "uverbs0", guid, 0)
		w.expect(8 * time.Second)
		w.expect(2*time.Second, []verbs.Found{rxe0})
		w.expect(time.Minute)
		require.Equal(t, []string{"watch RDMA devices by scanning only: refused by the test"}, w.warned)
	})
}

func TestAFailedSubscriptionIsRenewed(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, _ *uevents) {
		var sources []*uevents
		cfg := h.config(func() (Source, error) {
			sources = append(sources, newUevents())
			return sources[len(sources)-1], nil
		})
		w := watchHost(t, cfg)
		w.expect(time.Second, nil)

		sources[0].fail(errRefused)
		w.expect(11 * time.Second)
		require.Len(t, sources, 2)
		h.add("rxe0", "uverbs0", guid, 0)
		sources[1].send(deviceEvent("add", "rxe0")...)
		w.expect(301*time.Millisecond, []verbs.Found{withAdditions(rxe0, 1)})
		require.Equal(t, []string{"watch RDMA devices by scanning only: refused by the test"}, w.warned)
	})
}

func TestADeviceWithoutANodeIsThereButNotUsable(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "", guid, 0)
		w := watchHost(t, h.config(u.open))
		bare := verbs.Found{Name: "rxe0", Index: 0, NodeGUID: guid, Soft: true}
		require.False(t, bare.Usable())
		w.expect(time.Second, []verbs.Found{bare})

		h.addNode("rxe0", "uverbs0")
		u.send(nodeEvent("add", "uverbs0")...)
		w.expect(time.Second, []verbs.Found{rxe0})
		require.True(t, rxe0.Usable())
	})
}

func TestAReplacementUnderTheSameNamesHasAnotherIndex(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, []verbs.Found{rxe0})

		h.setIndex("rxe0", 1)
		u.send(nodeEvent("add", "uverbs0")...)
		successor := rxe0
		successor.Index = 1
		w.expect(time.Second, []verbs.Found{successor})
		require.False(t, rxe0.Same(successor))
	})
}

func TestWithoutRDMANetlinkIndexesAreUnknown(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		cfg := h.config(u.open)
		cfg.Indexes = func() (map[string]int, error) { return nil, errRefused }
		w := watchHost(t, cfg)
		w.expect(0, []verbs.Found{{Name: "rxe0", Index: -1, Node: "uverbs0", NodeGUID: guid, Soft: true}})
	})
}

func TestTheLastSetStandsWhileSysfsCannotBeRead(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, []verbs.Found{rxe0})

		class := filepath.Join(h.sysfs, "class/infiniband")
		require.NoError(t, os.Rename(class, class+".old"))
		h.write(class, "not a directory")
		w.expect(time.Minute)
		require.Len(t, w.warned, 1)
		require.Contains(t, w.warned[0], "list RDMA devices: ")

		require.NoError(t, os.Remove(class))
		require.NoError(t, os.Rename(class+".old", class))
		h.remove("rxe0", "uverbs0")
		w.expect(11*time.Second, nil)
	})
}

func TestSameFollowsADeviceThroughARename(t *testing.T) {
	renamed := rxe0
	renamed.Name = "foo"
	require.True(t, rxe0.Same(renamed))

	unknown := renamed
	unknown.Index = -1
	require.True(t, rxe0.Same(unknown), "by node and GUID")
	unknown.NodeGUID = "0000:0000:0000:0001"
	require.False(t, rxe0.Same(unknown))
	require.False(t, verbs.Found{Name: "a", Index: -1}.Same(verbs.Found{Name: "b", Index: -1}), "nothing identifies them")
}

func TestAComplaintIsMadeOncePerCause(t *testing.T) {
	var warned []error
	c := problemReporter{warn: func(err error) { warned = append(warned, err) }}
	other := errors.New("another")
	for _, err := range []error{errRefused, errRefused, other, nil, other} {
		c.report(err)
	}
	require.Equal(t, []error{errRefused, other, other}, warned)
}

// Descriptors run out between two files of a scan.
func TestScanWithoutDescriptorsIsAnError(t *testing.T) {
	h := hostWithRxe(t)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	_, err := scanDevices(sysfs.New(h.sysfs), func() (map[string]int, error) {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
		return h.readIndexes()
	})
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.ErrorIs(t, err, unix.EMFILE, "the device would lose its GUID")
	require.ErrorContains(t, scanProblem(err), "cannot read: ")
	require.ErrorContains(t, scanProblem(err), "raise RLIMIT_NOFILE (systemd: LimitNOFILE)")

	for _, short := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS} {
		_, err := scanDevices(sysfs.New(h.sysfs), func() (map[string]int, error) { return nil, short })
		require.ErrorIs(t, err, short, "the device would lose its index")
	}
}
