package hotplug

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func hostWithRxe(t *testing.T) *host {
	t.Helper()
	h := newHost(t)
	h.add("rxe0", "uverbs0", guid, 0)
	return h
}

// patient returns a configuration with a Rescan so long that no removal is found by scanning.
func (h *host) patient(uevents func() (Source, error)) Config {
	cfg := h.config(uevents)
	cfg.Rescan = time.Hour
	return cfg
}

func startRemoval(t *testing.T, cfg Config) (done chan error, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done = make(chan error, 1)
	go func() { done <- WatchRemoval(ctx, cfg, "uverbs0") }()
	t.Cleanup(cancel)
	return done, cancel
}

func TestWatchRemovalReturnsOnTheKernelsUevent(t *testing.T) {
	h, u := hostWithRxe(t), newUevents()
	done, _ := startRemoval(t, h.patient(u.open))
	u.send(nodeEvent("remove", "uverbs0")...) // nothing in /sys and /dev changes
	require.NoError(t, <-done)
	<-u.closed
}

func TestWatchRemovalReturnsWhenTheNodeAndTheDeviceAreGone(t *testing.T) {
	h := hostWithRxe(t)
	done, _ := startRemoval(t, h.patient(refuseSource))
	h.remove("rxe0", "uverbs0")
	require.NoError(t, <-done)
}

func TestWatchRemovalReturnsWhenTheDirectoryOfNodesIsGone(t *testing.T) {
	h := hostWithRxe(t)
	warned := make(chan error, 1)
	cfg := h.patient(refuseSource)
	cfg.Warn = func(err error) { warned <- err }
	done, _ := startRemoval(t, cfg)
	require.EqualError(t, <-warned, "only one way to detect removal of uverbs0 works: refused by the test")

	require.NoError(t, os.RemoveAll(filepath.Join(h.dev, "infiniband"))) // sysfs still has the device
	require.NoError(t, <-done)
}

func TestWatchRemovalFindsARemovalThatCameBeforeIt(t *testing.T) {
	h := hostWithRxe(t)
	h.remove("rxe0", "uverbs0")
	require.NoError(t, WatchRemoval(t.Context(), h.patient(newUevents().open), "uverbs0"))

	require.NoError(t, os.RemoveAll(h.dev))
	require.NoError(t, WatchRemoval(t.Context(), h.patient(refuseSource), "uverbs0"), "with nothing left to watch either")
}

func TestWatchRemovalGoesOnByLookingWhenItHasNoMeans(t *testing.T) {
	h := hostWithRxe(t)
	require.NoError(t, os.RemoveAll(h.dev))
	var warned []error
	cfg := h.config(refuseSource)
	cfg.Rescan = 10 * time.Millisecond
	cfg.Warn = func(err error) {
		warned = append(warned, err)
		h.unlink("infiniband_verbs", "uverbs0")
	}
	require.NoError(t, WatchRemoval(t.Context(), cfg, "uverbs0"))
	require.Len(t, warned, 1)
	require.ErrorIs(t, warned[0], errRefused)
	require.ErrorIs(t, warned[0], os.ErrNotExist)
	require.Equal(t, "watch removal of uverbs0 by looking every 10ms only: refused by the test; watch "+
		filepath.Join(h.dev, "infiniband")+": no such file or directory", warned[0].Error())
}

func TestWatchRemovalGoesOnByLookingWhenItsLastMeansFails(t *testing.T) {
	h, u := hostWithRxe(t), newUevents()
	require.NoError(t, os.RemoveAll(h.dev))
	warned := make(chan error, 2)
	cfg := h.config(u.open)
	cfg.Rescan = 10 * time.Millisecond
	cfg.Warn = func(err error) { warned <- err }
	done, _ := startRemoval(t, cfg)
	require.ErrorIs(t, <-warned, os.ErrNotExist)
	u.fail(errRefused)
	require.ErrorContains(t, <-warned, "by looking every 10ms only")
	h.unlink("infiniband_verbs", "uverbs0")
	require.NoError(t, <-done)
}

func TestWatchRemovalGoesOnWithTheOtherMeans(t *testing.T) {
	h, u := hostWithRxe(t), newUevents()
	warned := make(chan error, 1)
	cfg := h.patient(u.open)
	cfg.Warn = func(err error) { warned <- err }
	done, _ := startRemoval(t, cfg)
	u.fail(errRefused)
	require.ErrorIs(t, <-warned, errRefused)
	h.remove("rxe0", "uverbs0")
	require.NoError(t, <-done)
}

func TestWatchRemovalEndsWithItsContext(t *testing.T) {
	h, u := hostWithRxe(t), newUevents()
	done, cancel := startRemoval(t, h.patient(u.open))
	u.send(deviceEvent("change", "rxe0")...) // it is watching
	cancel()
	require.Equal(t, context.Canceled, <-done)
	<-u.closed
}

func TestWatchRemovalNeedsANode(t *testing.T) {
	require.EqualError(t, WatchRemoval(t.Context(), Config{}, ""), "watch removal: no uverbs node is named")
}

// startRemovalDecision runs the decision part of a removal in a bubble. The test sends the hints.
func startRemovalDecision(t *testing.T, h *host, cfg Config) (r *removal, done chan error) {
	t.Helper()
	r = newRemoval(cfg.withDefaults(), "uverbs0")
	r.known, _ = os.Stat(filepath.Join(r.class, r.node))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done = make(chan error, 1)
	go func() { done <- r.waitUntilGone(ctx) }()
	<-time.After(2 * time.Second) // past the first checks
	return r, done
}

func requireWatching(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		require.FailNow(t, "fired", "%v", err)
	default:
	}
}

func TestANodeThatIsCreatedAgainIsNoRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hostWithRxe(t)
		r, done := startRemovalDecision(t, h, h.config(refuseSource))
		require.NoError(t, os.Remove(h.nodePath("uverbs0")))
		r.hints <- hintDoubt
		<-time.After(5 * time.Millisecond)
		h.write(h.nodePath("uverbs0"), "")
		<-time.After(time.Hour)
		requireWatching(t, done)
	})
}

func TestANodeUnlinkedByHandIsNoRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hostWithRxe(t)
		r, done := startRemovalDecision(t, h, h.config(refuseSource))
		require.NoError(t, os.Remove(h.nodePath("uverbs0")))
		r.hints <- hintDoubt
		<-time.After(time.Hour)
		requireWatching(t, done)
	})
}

func TestADeviceThatGoesShortlyAfterItsNodeIsFoundSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hostWithRxe(t)
		r, done := startRemovalDecision(t, h, h.patient(refuseSource))
		require.NoError(t, os.Remove(h.nodePath("uverbs0")))
		r.hints <- hintDoubt
		<-time.After(100 * time.Millisecond)
		requireWatching(t, done)
		h.unlink("infiniband_verbs", "uverbs0")
		since := time.Now()
		require.NoError(t, <-done)
		require.LessOrEqual(t, time.Since(since), 100*time.Millisecond)
	})
}

func TestAnotherDeviceOfTheSameNodeIsARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hostWithRxe(t)
		r, done := startRemovalDecision(t, h, h.patient(refuseSource))
		h.write(filepath.Join(h.sysfs, "devices/virtual/infiniband_verbs/successor/ibdev"), "rxe1\n")
		link := filepath.Join(h.sysfs, "class/infiniband_verbs/uverbs0")
		require.NoError(t, os.Remove(link))
		require.NoError(t, os.Symlink("../../devices/virtual/infiniband_verbs/successor", link))
		r.hints <- hintDoubt
		require.NoError(t, <-done)
	})
}

func TestRescanFindsAnUnreportedRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hostWithRxe(t)
		_, done := startRemovalDecision(t, h, h.config(refuseSource))
		h.unlink("infiniband_verbs", "uverbs0") // in a container the node may stay
		<-time.After(7 * time.Second)
		requireWatching(t, done)
		<-time.After(time.Second)
		require.NoError(t, <-done)
	})
}

func TestWithoutSysfsTheNodeAloneDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hostWithRxe(t)
		require.NoError(t, os.RemoveAll(h.sysfs))
		r, done := startRemovalDecision(t, h, h.patient(refuseSource))
		r.hints <- hintDoubt
		<-time.After(time.Minute)
		requireWatching(t, done)
		require.NoError(t, os.Remove(h.nodePath("uverbs0")))
		r.hints <- hintDoubt
		require.NoError(t, <-done)
	})
}

func TestInotifyReportsOnlyPossibleRemovals(t *testing.T) {
	h := hostWithRxe(t)
	h.add("rxe1", "uverbs1", guid, 1)
	r := newRemoval(h.config(refuseSource).withDefaults(), "uverbs0")
	ctx, cancel := context.WithCancel(t.Context())
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()
	r.startInotify(ctx, &sources)
	require.Empty(t, r.problems)
	node := h.nodePath("uverbs0")

	// None of these operations sends a hint. Otherwise the last hint would not belong to the directory.
	require.NoError(t, os.Chmod(node, 0o600))
	require.NoError(t, os.Remove(h.nodePath("uverbs1")))
	h.write(h.nodePath("uverbs2"), "")

	require.NoError(t, os.Remove(node))
	require.Equal(t, hintDoubt, <-r.hints)
	h.write(node, "")
	require.NoError(t, os.Rename(node, filepath.Join(h.dev, "elsewhere")))
	require.Equal(t, hintDoubt, <-r.hints)
	h.write(h.nodePath("uverbs0.new"), "")
	require.NoError(t, os.Rename(h.nodePath("uverbs0.new"), node))
	require.NoError(t, os.Rename(filepath.Join(h.dev, "infiniband"), filepath.Join(h.dev, "other")))
	require.Equal(t, hintRemoved, <-r.hints)
}
