package devices

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func TestANetworkDeviceIsAsItsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
[[link]]
at = "10s"
down_for = "5s"
[[link]]
at = "20s"
down_for = "5s"
why = "admin"
[[link]]
at = "30s"
down_for = "5s"
why = "no_cable"
`)
		for _, want := range []struct {
			up, has, carrier bool
			changes          int64
			ext              string
		}{
			{true, true, true, 0, ""},
			{true, true, false, 1, ""},
			{false, false, false, 3, ""},
			{true, true, false, 5, "no_cable"},
			{true, true, true, 6, ""},
		} {
			n, err := s.dev.ReadNetDev(1)
			require.NoError(t, err)
			require.Equal(t, verbs.NetDev{
				Name: "simeth0a", AdminUp: want.up, HasCarrier: want.has, Carrier: want.carrier,
				CarrierChanges: want.changes, HasCarrierChanges: true,
			}, n)
			l, err := s.dev.AskLink(1)
			require.NoError(t, err)
			require.Equal(t, want.ext, l.ExtState)
			time.Sleep(10*time.Second + time.Millisecond)
		}
	})
}

func TestAnInfiniBandPortHasNoNetworkDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "ib8", "")
		_, err := s.dev.ReadNetDev(1)
		require.ErrorIs(t, err, verbs.ErrUnsupported)
		_, err = s.dev.ReadCounters(1, verbs.CountersNetDev)
		require.ErrorIs(t, err, verbs.ErrUnsupported)
	})
}

func TestCountersGrowAsTheScenarioSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "roce2", `
[[counter]]
at = "10s"
every = "10s"
times = 2
name = "out_of_buffer"
by = 7
[[counter]]
at = "10s"
source = "ethtool"
name = "rx_prio5_pause"
`)
		read := func(from verbs.CounterSource, name string) uint64 {
			values, err := s.dev.ReadCounters(1, from)
			require.NoError(t, err)
			require.Contains(t, values, name, "it is there from the start")
			return values[name]
		}
		for _, want := range []struct{ buffer, pause uint64 }{{0, 0}, {7, 1}, {14, 1}, {14, 1}} {
			require.Equal(t, want.buffer, read(verbs.CountersHardware, "out_of_buffer"))
			require.Equal(t, want.pause, read(verbs.CountersNetDev, "rx_prio5_pause"))
			time.Sleep(10*time.Second + time.Millisecond)
		}
	})
}

func TestAnotherSubnetManagerServesThePortFromItsEventOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "ib8", `
[[event]]
at = "10s"
type = "sm_change"
sm_lid = 7
`)
		before, err := s.dev.QueryPort(1)
		require.NoError(t, err)
		require.NotEqual(t, 7, before.SMLID)
		time.Sleep(11 * time.Second)
		after, err := s.dev.QueryPort(1)
		require.NoError(t, err)
		require.Equal(t, 7, after.SMLID)
	})
}

func TestReadingCountersHangsWithTheFirmware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "mlx5", `
[[command]]
at = "10s"
for = "10s"
`)
		time.Sleep(11 * time.Second)
		done := make(chan error, 1)
		go func() {
			_, err := s.dev.ReadCounters(1, verbs.CountersHardware)
			done <- err
		}()
		synctest.Wait()
		_, lane := s.led.ControlCalls()
		require.Equal(t, ledger.CallReadSysfs, lane.Call)
		begun := time.Now()
		require.NoError(t, <-done)
		require.Equal(t, 9*time.Second, time.Since(begun))
		_, lane = s.led.ControlCalls()
		require.Equal(t, ledger.CallNone, lane.Call)
	})
}
