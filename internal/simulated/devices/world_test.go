package devices

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

func TestProfilesHaveTheirDevices(t *testing.T) {
	for profile, want := range map[string]int{"roce2": 2, "ib8": 8, "dual": 1, "iwarp": 1, "efa": 1, "fleet1": 1, "fleet256": 256} {
		require.Len(t, mustLoad(t, Options{Profile: profile}).Devices(clock.Monotonic()), want, profile)
	}
	require.Equal(t, []string{"sim0", "sim1"}, mustLoad(t, Options{Profile: "roce2"}).Devices(0))
}

func TestDevicesOfAFleetDiffer(t *testing.T) {
	guids, addresses := map[string]bool{}, map[string]bool{}
	for _, h := range mustLoad(t, Options{Profile: "fleet256"}).hardware {
		guids[h.attr.NodeGUID], addresses[h.attr.PCIAddress] = true, true
	}
	require.Len(t, guids, 256)
	require.Len(t, addresses, 256)
}

func TestADeviceIsRemovedAndComesBackOnTime(t *testing.T) {
	w := mustLoad(t, Options{Profile: "roce2", Epoch: 100 * second, Scenario: writeScenario(t, `
		[[fault]]
		kind = "removed"
		device = "sim1"
		at = "10s"
		for = "4s"
		every = "20s"
		times = 2`)})
	var times []int64
	var devices [][]string
	for at, ok := w.NextChange(0); ok; at, ok = w.NextChange(at) {
		times = append(times, at/second)
		devices = append(devices, w.Devices(at))
	}
	both, one := []string{"sim0", "sim1"}, []string{"sim0"}
	require.Equal(t, []int64{110, 114, 130, 134}, times)
	require.Equal(t, [][]string{one, both, one, both}, devices)
	require.Equal(t, both, w.Devices(0))
}

func TestRemovedReturnsWhenADeviceGoes(t *testing.T) {
	w := mustLoad(t, Options{Profile: "roce2", Epoch: 100 * second, Scenario: writeScenario(t, `
		[[fault]]
		kind = "removed"
		device = "sim1"
		at = "10s"
		for = "4s"`)})
	for _, row := range []struct {
		device   string
		after    int64
		want     int64
		expected bool
	}{
		{"sim1", 100, 110, true},
		{"sim1", 112, 112, true},
		{"sim1", 114, 0, false},
		{"sim0", 100, 0, false},
		{"other", 100, 100, true},
	} {
		at, ok := w.Removed(row.device, row.after*second)
		require.Equal(t, row.expected, ok, "%s after %d", row.device, row.after)
		if ok {
			require.Equal(t, row.want, at/second, "%s after %d", row.device, row.after)
		}
	}
}

func TestARenamedDeviceOpensUnderItsNewNameAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
			[[fault]]
			kind = "renamed"
			device = "sim0"
			to = "mlx5_bond_0"
			at = "10s"
			for = "10s"`)
		time.Sleep(15 * time.Second)
		require.Equal(t, []string{"mlx5_bond_0", "sim1"}, s.w.Devices(fakeTime()))
		_, err := New(s.w).Open("sim0", s.led)
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		dev, _ := s.open("mlx5_bond_0")
		require.Equal(t, "mlx5_bond_0", dev.Attr().Name)
		_, err = s.dev.QueryPort(1)
		require.NoError(t, err, "a handle opened under the old name goes on")
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"sim0", "sim1"}, s.w.Devices(fakeTime()))
	})
}

func TestOpenFailsWithTheErrorOfTheScenario(t *testing.T) {
	for name, want := range openErrors() {
		synctest.Test(t, func(t *testing.T) {
			w := mustLoad(t, Options{Profile: "roce2", Clock: fakeTime, Scenario: writeScenario(t, `
				[[fault]]
				kind = "open_error"
				error = "`+name+`"
				device = "sim0"
				for = "1s"`)})
			_, err := New(w).Open("sim0", newLedger(t))
			require.ErrorIs(t, err, want)
			require.ErrorContains(t, err, "ibv_open_device sim0: ")
			time.Sleep(time.Second)
			dev, err := New(w).Open("sim0", newLedger(t))
			require.NoError(t, err)
			require.NoError(t, dev.Close(time.Second))
		})
	}
}

func TestInjectAndSetLinkRefuseWhatIsNotThere(t *testing.T) {
	w := mustLoad(t, Options{Profile: "roce2"})
	require.ErrorIs(t, w.Inject("sim9", verbs.EventSMChange, 1, 1), verbs.ErrNoDevice)
	require.ErrorIs(t, w.Inject("sim0", verbs.EventSMChange, 0, 1), verbs.ErrUnsupported)
	require.ErrorIs(t, w.Inject("sim0", verbs.EventSMChange, 2, 1), verbs.ErrUnsupported)
	require.ErrorIs(t, w.Inject("sim0", verbs.EventDeviceFatal, 1, 1), verbs.ErrUnsupported)
	require.ErrorIs(t, w.SetLink("sim0", 2, false), verbs.ErrNoDevice)
	require.ErrorIs(t, w.SetLink("sim9", 1, false), verbs.ErrNoDevice)
}
