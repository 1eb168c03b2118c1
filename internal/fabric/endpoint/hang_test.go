package endpoint

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// hangScenario is a scenario in which the firmware does not answer between the 30th and the 50th second.
const hangScenario = "[[command]]\nat = \"29s\"\ndevice = \"sim0\"\nfor = \"21s\"\n"

// newHangingRig returns a rig with this scenario. Its device gets a command at the 30th second.
func newHangingRig(t *testing.T) *fabricRig {
	r := newFabricRig(t, "roce2", hangScenario)
	r.Options.StateInterval, r.Options.CommandInterval, r.Options.CommandStuck = 0, 10*time.Second, 5*time.Second
	return r
}

func TestNoFabricIsClosedWhileACommandHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHangingRig(t)
		r.Start(nil)
		r.After(31 * time.Second)
		first, _ := r.lastFabric()
		first.errs <- unix.EINVAL
		announced := fabricPorts(r.After(18 * time.Second))
		require.Equal(t, []verbs.FabricPort{{Port: 1, Reason: unix.EINVAL.Error()}}, announced, "the host hears it at once")
		require.False(t, first.closed.Load())
		r.After(5 * time.Second)
		require.True(t, first.closed.Load())
		_, n := r.lastFabric()
		require.Equal(t, 2, n)
	})
}

func TestNoFabricIsMadeWhileACommandHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHangingRig(t)
		r.Start(nil)
		r.After(29500 * time.Millisecond)
		first, _ := r.lastFabric()
		first.errs <- unix.EINVAL
		r.After(20 * time.Second)
		_, n := r.lastFabric()
		require.True(t, first.closed.Load())
		require.Equal(t, 1, n)
		r.After(5 * time.Second)
		_, n = r.lastFabric()
		require.Equal(t, 2, n)
	})
}

func TestAnEchoIsNotHeldUpByACommandThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHangingRig(t)
		r.Start(nil)
		r.After(31 * time.Second)
		require.Len(t, factsOf(r.After(10*time.Second)), 20)
	})
}

func TestAFabricThatCannotBeClosedEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFabricRig(t, "roce2", "")
		r.Start(nil)
		r.After(time.Minute)
		last, _ := r.lastFabric()
		last.close = func() error { return verbs.ErrStuck }
		last.errs <- unix.EINVAL
		<-r.Done
		require.NoError(t, r.Err)
		require.Equal(t, status.ReasonStuck, r.Why.Reason)
	})
}
