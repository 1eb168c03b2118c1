package health

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/health/healthtest"
	"rdma_events/internal/device/verbs"
)

// restart returns the Keeper of the plugin that runs after k, with what it reads from the file of k.
func restart(t *testing.T, k *Keeper, now time.Time) *Keeper {
	text, err := json.Marshal(k.History())
	require.NoError(t, err)
	var past []AlertHistory
	require.NoError(t, json.Unmarshal(text, &past))
	next := NewKeeper("v2", "gpu-17")
	next.Restore(past, now)
	return next
}

// restartDuringOutage returns a host whose port has been down since noon, and the Keeper of the plugin that starts on it at the time at.
func restartDuringOutage(t *testing.T) (k *Keeper, h *healthtest.Host, at time.Time) {
	k, h = NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Port.State = verbs.PortDown
	require.Equal(t, "port-down", problemIDs(observeFor(k, h, noon, time.Hour)))
	at = noon.Add(61 * time.Minute)
	return restart(t, k, at), h, at
}

// All hosts of a cluster get a new version while a port of one of them is down. The plugin starts before its device answers.
func TestRestartIsNotTheBeginningOfAnOutage(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	h.Port.State = verbs.PortDown
	began := noon.Add(2 * time.Minute)
	require.Equal(t, "port-down", problemIDs(observeFor(k, h, began, time.Hour)))

	at := noon.Add(3 * day)
	observeFor(k, h, at.Add(-time.Minute), time.Minute)
	for range 2 {
		k = restart(t, k, at)
		h.Device.Open, h.Port.Known, h.Port.HasState = false, false, false
		require.Empty(t, observeFor(k, h, at, 30*time.Second).Problems, "it is not known whether it is still down")
		h.Device.Open, h.Port.Known, h.Port.HasState = true, true, true
		s := observeFor(k, h, at.Add(40*time.Second), 0)
		require.Equal(t, "port-down", problemIDs(s))
		require.Equal(t, began, s.Problems[0].Since)
		at = at.Add(time.Minute)
	}
	h.Port.State = verbs.PortActive
	require.Empty(t, observeFor(k, h, at, 0).Problems)
	require.Empty(t, k.History())
}

// The port came back while no plugin ran, and fails again a little later: that is another outage.
func TestOutageThatEndedBeforeTheRestartIsOver(t *testing.T) {
	k, h, at := restartDuringOutage(t)
	h.Port.State = verbs.PortActive
	require.Empty(t, observeFor(k, h, at, 10*time.Second).Problems)
	h.Port.State = verbs.PortDown
	at = at.Add(20 * time.Second)
	require.Empty(t, observeFor(k, h, at, 50*time.Second).Problems)
	s := observeFor(k, h, at.Add(time.Minute), 0)
	require.Equal(t, "port-down", problemIDs(s))
	require.Equal(t, at, s.Problems[0].Since)
}

// If a device does not answer until minutes after the restart, its link may have been up in between.
func TestOutageThatIsNotConfirmedSoonBeginsAnew(t *testing.T) {
	k, h, at := restartDuringOutage(t)
	h.Port.Known, h.Port.HasState = false, false
	require.Empty(t, observeFor(k, h, at, 10*time.Minute).Problems)
	h.Port.Known, h.Port.HasState = true, true
	at = at.Add(11 * time.Minute)
	require.Equal(t, at, observeFor(k, h, at, time.Minute).Problems[0].Since)
}

// A device has a fatal error, and five minutes later the plugin is restarted: its counters begin at 0.
func TestRestartDoesNotEndAProblemOfACounter(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	grown := noon.Add(2 * time.Minute)
	h.Device.Fatals, h.Collector.Queue.Skipped = 1, 5
	require.Equal(t, "device-fatal plugin-late", problemIDs(observeFor(k, h, grown, 5*time.Minute)))

	h.Device.Fatals, h.Collector.Queue.Skipped = 0, 0
	restarted := grown.Add(6 * time.Minute)
	k = restart(t, k, restarted)
	s := observeFor(k, h, restarted, 0)
	require.Equal(t, "device-fatal", problemIDs(s), "intervals that the plugin skipped are those of the old process")
	require.Equal(t, grown, s.Problems[0].Since)
	require.Equal(t, "device-fatal", problemIDs(observeFor(k, h, grown.Add(halfHour-time.Minute), 0)))
	require.Empty(t, observeFor(k, h, grown.Add(halfHour+10*time.Second), 0).Problems)
	h.Device.Fatals = 1
	require.Equal(t, "device-fatal", problemIDs(observeFor(k, h, grown.Add(time.Hour), 0)))
}

// The clock of the host was set back during the restart.
func TestProblemDoesNotBeginInTheFuture(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	h.Port.State, h.Device.Fatals = verbs.PortDown, 1
	observeFor(k, h, noon.Add(2*time.Minute), time.Hour)
	h.Device.Fatals = 2
	observeFor(k, h, noon.Add(63*time.Minute), 0)
	h.Device.Fatals = 0
	k = restart(t, k, noon)
	s := observeFor(k, h, noon, time.Minute)
	require.Len(t, s.Problems, 2)
	for _, p := range s.Problems {
		require.Equal(t, noon, p.Since, p.ID)
	}
	require.Equal(t, "port-down", problemIDs(observeFor(k, h, noon.Add(halfHour+10*time.Second), 0)))
}

func TestHistoryOfUnknownAlertsIsIgnored(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, 0)
	require.Empty(t, k.History(), "a healthy host has none")
	past := []AlertHistory{{Alert: "no-such-alert", Series: h.Port.Key(), HeldSince: noon, Began: noon}, {Alert: "port-down", HeldSince: noon, Began: noon}}
	k.Restore(past, noon.Add(time.Minute))
	require.Empty(t, observeFor(k, h, noon.Add(time.Minute), time.Hour).Problems)
}

// A switch restarts: its links are back after six minutes, and the subnet manager later.
func TestAProblemBeginsOnceWhateverItsStates(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	at := noon.Add(2 * time.Minute)
	h.Port.State, h.Port.HasStateAge, h.Port.StateAgeNS = verbs.PortDown, true, int64(4*time.Second)
	observeFor(k, h, at, 0)
	h.Port.StateAgeNS = int64(64 * time.Second)
	require.Equal(t, at.Add(-4*time.Second), observeFor(k, h, at.Add(time.Minute), 0).Problems[0].Since)
	h.Port.State, h.Port.StateAgeNS = verbs.PortInit, 0
	s := observeFor(k, h, at.Add(6*time.Minute), 0)
	require.Equal(t, "port-down", problemIDs(s))
	require.Equal(t, at.Add(-4*time.Second), s.Problems[0].Since)
	require.Equal(t, "the port is init", s.Problems[0].Text)
}
