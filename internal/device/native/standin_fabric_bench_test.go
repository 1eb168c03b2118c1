//go:build bench && linux && cgo

package native_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// benched is the time for which the thread is measured.
const benched = 40 * time.Second

func init() { scenes["minute"] = sceneMinute }

// sceneMinute makes each side probe the other with eight pairs, twice a second, each side in a thread of its own, and records the
// CPU time of the near side's thread. It includes the work of the stand-in within a post, but no work of a device's driver.
func sceneMinute(f *fabrics) error {
	const pairs = 8
	for i := range pairs {
		if err := f.meet(i, uint64(i+1)); err != nil {
			return err
		}
		if err := f.meetBack(pairs+i, uint64(pairs+i+1)); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_, _ = measureEndpoint(f.far, func(*verbs.FabricFact) {})
	})
	used, err := measureEndpoint(f.near, func(fact *verbs.FabricFact) { f.note(kindNames[fact.Kind], f.s.report.Steps[kindNames[fact.Kind]]+1) })
	f.note("us", int(used/time.Microsecond))
	return err
}

var kindNames = map[verbs.FabricKind]string{
	verbs.FabricSent: "sent", verbs.FabricEcho: "echoes", verbs.FabricWrite: "writes", verbs.FabricWriteDone: "written",
}

// measureEndpoint runs an endpoint in its own thread, as the session does, and returns the CPU time of the thread.
func measureEndpoint(fab verbs.FabricEndpoint, see func(*verbs.FabricFact)) (used time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	facts := make([]verbs.FabricFact, 2*verbs.MinFabricFacts)
	began, err := threadTime()
	for end := time.Now().Add(benched); err == nil && time.Now().Before(end); {
		var n int
		n, _, err = fab.Run(facts, 500*time.Millisecond)
		for i := range facts[:n] {
			see(&facts[i])
		}
	}
	if err != nil {
		return 0, err
	}
	ended, err := threadTime()
	return ended - began, err
}

func threadTime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}

// meetBack joins both sides of a pair whose requester is the far side.
func (f *fabrics) meetBack(place int, session uint64) error {
	turned := &fabrics{s: f.s, near: f.far, far: f.near, nearPort: f.farPort, farPort: f.nearPort}
	return turned.meet(place, session)
}

func TestBenchThreadOfAPort(t *testing.T) {
	r := carryOutFabric(t, order{
		Scene: "minute", Fabric: verbs.FabricOptions{Paths: 4, Interval: 500 * time.Millisecond, GIDIndex: -1, PKeyIndex: -1},
	})
	used := time.Duration(r.Steps["us"]) * time.Microsecond
	require.Positive(t, used)
	require.InDelta(t, r.Steps["sent"], r.Steps["echoes"], 8, "a probe of each pair may be under way")
	require.InDelta(t, r.Steps["writes"], r.Steps["written"], 8)
	t.Logf("%d probes and %d writes in %v, and as many of the other side: %v of the thread's CPU time, %.3f %% of a core",
		r.Steps["sent"], r.Steps["writes"], benched, used, 100*used.Seconds()/benched.Seconds())
}
