package devices

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

func TestCommandsAreSlowFailAndHangAsTheScenarioSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "mlx5", `
[[command]]
at = "10s"
for = "10s"
what = "slow"
took = "3s"
[[command]]
at = "20s"
for = "10s"
what = "fails"
status = "EIO"
[[command]]
at = "30s"
for = "10s"
[[command]]
at = "50s"
for = "10s"
call = "query_port"
`)
		took := func(call func(int) error) (time.Duration, error) {
			begun := time.Now()
			err := call(1)
			return time.Since(begun), err
		}
		quick, err := took(s.dev.ReadCounter)
		require.NoError(t, err)
		require.Positive(t, quick)
		require.Less(t, quick, time.Millisecond)

		time.Sleep(12 * time.Second)
		slow, err := took(s.dev.ReadCounter)
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, slow)

		time.Sleep(7 * time.Second)
		_, err = took(s.dev.ReadCounter)
		require.ErrorIs(t, err, unix.EIO)
		require.Equal(t, "EIO", verbs.CommandStatus(err))

		time.Sleep(10 * time.Second)
		go func() { _ = s.dev.ReadCounter(1) }()
		synctest.Wait()
		_, lane := s.led.ControlCalls()
		require.Equal(t, ledger.CallReadSysfs, lane.Call)
		require.Equal(t, 1, lane.Port)
		_, err = s.dev.QueryPort(1)
		require.NoError(t, err, "another call is answered")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		_, lane = s.led.ControlCalls()
		require.Equal(t, ledger.CallNone, lane.Call)

		time.Sleep(12 * time.Second)
		hung, err := took(func(port int) error { _, err := s.dev.QueryPort(port); return err })
		require.NoError(t, err)
		require.Greater(t, hung, time.Second)
	})
}

func TestCommandsAreThoseOfTheDriver(t *testing.T) {
	for profile, want := range map[string]verbs.CommandSet{
		"mlx5": verbs.DriverCommands("mlx5_core"), "qedr": verbs.DriverCommands("qedr"), "rxe": 0, "siw": 0, "irdma": verbs.DriverCommands("ice"),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, profile, "")
			require.Equal(t, want, s.dev.Commands(), profile)
			if !want.Has(verbs.CommandHWCounters) {
				require.ErrorIs(t, s.dev.ReadCounter(1), verbs.ErrUnsupported, profile)
			}
		})
	}
}
