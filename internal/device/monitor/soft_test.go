package monitor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

func softDevice(name string, index int) verbs.Found {
	f := foundDevice(name, index)
	f.Soft = true
	return f
}

// startSoft runs a Monitor that has a soft device open.
func startSoft(t *testing.T, change func(*Config)) (*harness, *fakeSupervisor) {
	t.Helper()
	h := startMonitor(t, change)
	h.reportFound(softDevice("rxe0", 0))
	sup := h.sup("rxe0", 0)
	h.openDevice(sup, "rxe0")
	h.mono.Store(sec)
	return h, sup
}

func requireReason(t *testing.T, s gathered, device string, reason status.Reason, missing bool) {
	t.Helper()
	v := findDevice(s, device)
	require.Equal(t, reason, v.Reason)
	require.Equal(t, missing, v.Missing())
	require.False(t, v.Present)
}

func TestDeletedSoftDeviceIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sup := startSoft(t, nil)
		for n := uint64(1); n <= 3; n++ {
			sup.Ended(status.End{Reason: status.ReasonRemoved})
			requireReason(t, h.gather(), "rxe0", status.ReasonDeleted, false)
			h.reportFound()
			h.mono.Add(int64(time.Minute))
			s := h.gather()
			requireReason(t, s, "rxe0", status.ReasonDeleted, false)
			require.Zero(t, s.Hosts[0].Missing)
			requireRemovals(t, h, "rxe0", n, 0)
			h.reopenDevice(sup, softDevice("rxe0", int(n)))
			require.True(t, findDevice(h.gather(), "rxe0").Open)
		}
		require.Empty(t, h.cfg.Memory.Devices(), "it was not open for a minute")
	})
}

func TestDeletedSoftDeviceIsForgottenAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sup := startSoft(t, nil)
		h.removeDevice(sup)
		h.mono.Add(int64(forgetAfter) - sec)
		requireReason(t, h.gather(), "rxe0", status.ReasonDeleted, false)
		h.mono.Add(sec)
		require.Empty(t, h.gather().Devices)
	})
}

func TestExpectedSoftDeviceIsMissing(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"by name": func(c *Config) { c.Expect = []string{"rxe0"} },
		"by a glob": func(c *Config) {
			c.Groups = []Group{{Label: "rxe*", Count: 1, Matches: func(name string) bool { return strings.HasPrefix(name, "rxe") }}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, sup := startSoft(t, change)
				h.removeDevice(sup)
				h.mono.Add(int64(2 * forgetAfter))
				requireReason(t, h.gather(), "rxe0", status.ReasonRemoved, true)
				requireRemovals(t, h, "rxe0", 1, 1)
			})
		})
	}
}

// Newer kernels withdraw a deleted soft device from the processes that have it open, with a device_fatal for each.
func TestDeletionOfASoftDeviceIsNoFatalFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sup := startSoft(t, nil)
		h.batch(sup, eventItem(verbs.EventDeviceFatal, 0, 1, sec, sec))
		require.Zero(t, findDevice(h.gather(), "rxe0").Fatals)
		h.reportFound()
		require.Zero(t, findDevice(h.gather(), "rxe0").Fatals)
		h.reopenDevice(sup, softDevice("rxe0", 1))
		h.batch(sup, eventItem(verbs.EventDeviceFatal, 0, 1, 2*sec, 2*sec))
		h.reportFound(softDevice("rxe0", 2)) // deleted and added again between two looks
		h.runUntil(sup, h.mono.Load()+int64(time.Minute))
		require.Zero(t, findDevice(h.gather(), "rxe0").Fatals)
	})
}

func TestFatalOfASoftDeviceThatStaysIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sup := startSoft(t, nil)
		h.batch(sup, eventItem(verbs.EventDeviceFatal, 0, 1, sec, sec))
		h.runUntil(sup, h.mono.Load()+int64(fatalLimit))
		require.EqualValues(t, 1, findDevice(h.gather(), "rxe0").Fatals)
	})
}
