package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/health/healthtest"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// closeDevice makes the device one whose worker does not run.
func closeDevice(h *healthtest.Host, reason status.Reason, worker status.State) {
	h.Device.Open, h.Device.Reason, h.Device.Worker.State, h.Port.Known = false, reason, worker, false
}

func openDevice(h *healthtest.Host) {
	h.Device.Open, h.Device.Reason, h.Device.Worker.State, h.Port.Known = true, status.ReasonOK, status.StateRunning, true
}

func pendingTexts(s *Status) (all []string) {
	for _, p := range s.Pending {
		all = append(all, p.Text)
	}
	return all
}

// A node is drained for a port that is down, and its driver is replaced: a controller must not end the drain before the port is judged
// again.
func TestReleasedDeviceIsUnknownUntilItHasBeenJudgedAgain(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	h.Port.State = verbs.PortDown
	require.Equal(t, "port-down", problemIDs(observeFor(k, h, noon.Add(2*time.Minute), 2*time.Minute)))

	closeDevice(h, status.ReasonReleased, status.StateStopped)
	released := noon.Add(4*time.Minute + 10*time.Second)
	for i, present := range []bool{true, false, true} { // the driver is unloaded, and loaded again
		h.Device.Present = present
		s := observeFor(k, h, released.Add(time.Duration(i)*10*time.Second), 0)
		require.Empty(t, s.Problems)
		require.Equal(t, []Pending{{Device: "mlx5_0", Text: "the device is released"}}, s.Pending)
	}

	closeDevice(h, status.ReasonStarting, status.StateStarting)
	resumed := released.Add(30 * time.Second)
	require.Equal(t, []string{"the device is not open"}, pendingTexts(observeFor(k, h, resumed, 0)))
	openDevice(h)
	s := observeFor(k, h, resumed.Add(10*time.Second), 50*time.Second)
	require.Empty(t, s.Problems)
	require.Equal(t, []string{"the port is down"}, pendingTexts(s))
	s = observeFor(k, h, resumed.Add(70*time.Second), 0)
	require.Equal(t, "port-down", problemIDs(s))
	require.Empty(t, s.Pending)
}

func TestReleasedDeviceThatDoesNotComeBackIsUnknownUntilItIsMissing(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	closeDevice(h, status.ReasonReleased, status.StateStopped)
	observeFor(k, h, noon.Add(70*time.Second), 0)
	h.Device.Present, h.Device.Reason = false, status.ReasonRemoved
	s := observeFor(k, h, noon.Add(80*time.Second), 50*time.Second)
	require.Empty(t, s.Problems)
	require.Equal(t, []string{"the device is missing"}, pendingTexts(s))
	require.Equal(t, "device-missing", problemIDs(observeFor(k, h, noon.Add(140*time.Second), 0)))
}

// A worker that crashes, or a query that fails, says nothing about the port that was down.
func TestProblemGoesOnWhileThePortCannotBeRead(t *testing.T) {
	for name, unread := range map[string]func(*healthtest.Host){
		"the worker is replaced": func(h *healthtest.Host) { closeDevice(h, status.ReasonCrashed, status.StateBackingOff) },
		"a query fails":          func(h *healthtest.Host) { h.Port.Known = false },
	} {
		t.Run(name, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
			observeFor(k, h, noon, time.Minute)
			h.Port.State = verbs.PortDown
			down := noon.Add(2 * time.Minute)
			before := observeFor(k, h, down, 2*time.Minute)
			require.Equal(t, "port-down", problemIDs(before))

			unread(h)
			for at := 130 * time.Second; at < 4*time.Minute; at += 10 * time.Second {
				require.Equal(t, before.Problems, k.Observe(h.Points(down.Add(at)), down.Add(at)).Problems)
			}
			openDevice(h)
			require.Equal(t, before.Problems, observeFor(k, h, down.Add(4*time.Minute), 0).Problems)

			unread(h)
			observeFor(k, h, down.Add(5*time.Minute), 0)
			openDevice(h)
			h.Port.State = verbs.PortActive
			require.Empty(t, observeFor(k, h, down.Add(6*time.Minute), 0).Problems)
		})
	}
}

func TestDropDoesNotBecomeAProblemWhileThePortCannotBeRead(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	h.Port.State = verbs.PortDown
	observeFor(k, h, noon.Add(2*time.Minute), 30*time.Second)
	h.Port.Known = false
	require.Empty(t, observeFor(k, h, noon.Add(2*time.Minute+40*time.Second), 10*time.Minute).Problems)
	h.Port.Known = true
	require.Equal(t, "port-down", problemIDs(observeFor(k, h, noon.Add(13*time.Minute), 0)), "it has been down all the time")
}

func TestPortOfADeviceThatIsGoneIsNotDown(t *testing.T) {
	for name, gone := range map[string]func(*healthtest.Host){
		"missing":  func(h *healthtest.Host) { h.Device.Present, h.Device.Reason = false, status.ReasonRemoved },
		"released": func(h *healthtest.Host) { h.Device.Reason = status.ReasonReleased },
		"in a pod": func(h *healthtest.Host) { h.Device.Reason, h.Device.InOtherNetns = status.ReasonOtherNetns, true },
	} {
		t.Run(name, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
			observeFor(k, h, noon, time.Minute)
			h.Port.State = verbs.PortDown
			require.Equal(t, "port-down", problemIDs(observeFor(k, h, noon.Add(2*time.Minute), 2*time.Minute)))
			closeDevice(h, status.ReasonRemoved, status.StateStopped)
			gone(h)
			require.Empty(t, observeFor(k, h, noon.Add(5*time.Minute), 0).Problems)
		})
	}
}

// Each attempt to open the device fails with EAGAIN, as with mlx5 in its error state, so no job can use it.
func TestDeviceThatNobodyCanOpenStaysUnknown(t *testing.T) {
	for name, before := range map[string]time.Duration{"since the start": 0, "after an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
			if before > 0 {
				observeFor(k, h, noon, before)
			}
			for at := 10 * time.Second; at < 2*time.Hour; at += 10 * time.Second {
				closeDevice(h, status.ReasonRecovering, status.StateBackingOff)
				if at%(30*time.Minute) == 0 {
					closeDevice(h, status.ReasonStarting, status.StateStarting)
				}
				now := noon.Add(before + at)
				s := k.Observe(h.Points(now), now)
				require.NotEmpty(t, s.Pending, "after %s", at)
				require.Contains(t, []string{"", "worker-down"}, problemIDs(s))
			}
		})
	}
}

func TestDeviceThatThePluginMayNotOpenIsAWarning(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	closeDevice(h, status.ReasonNoPermission, status.StateBackingOff)
	require.Equal(t, []string{"the device is not open"}, pendingTexts(observeFor(k, h, noon, 110*time.Second)))
	s := observeFor(k, h, noon.Add(2*time.Minute), 10*time.Second)
	require.Equal(t, "worker-down", problemIDs(s))
	require.Empty(t, s.Pending)
}
