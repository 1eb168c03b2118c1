package native

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

func TestErrnoCarriesTheSentinelThatCallersActUpon(t *testing.T) {
	for _, row := range []struct {
		errno unix.Errno
		is    error
	}{
		{unix.EACCES, os.ErrPermission}, {unix.EPERM, verbs.ErrPermission},
		{unix.ENODEV, verbs.ErrNoDevice}, {unix.ENXIO, verbs.ErrNoDevice},
		{unix.ENOMEM, verbs.ErrLimit}, {unix.EMFILE, verbs.ErrLimit},
	} {
		err := verbs.NewOpError("ibv_open_device", "mlx5_0", 0, toVerbsError(row.errno))
		require.ErrorIs(t, err, row.is)
		require.ErrorIs(t, err, row.errno)
	}
	require.NotErrorIs(t, toVerbsError(unix.EINVAL), verbs.ErrUnsupported)
	require.NotErrorIs(t, toVerbsError(unix.EIO), verbs.ErrNoDevice, "firmware answers it too")
	require.ErrorIs(t, probeError(unix.ENETUNREACH), verbs.ErrUnsupported)
	require.ErrorIs(t, probeError(unix.ENOMEM), verbs.ErrLimit)
	require.NoError(t, verbs.NewOpError("x", "y", 1, nil))
}

func TestAnOpErrorNamesOperationDeviceAndPort(t *testing.T) {
	err := verbs.NewOpError("ibv_query_port", "mlx5_0", 2, errors.New("boom"))
	require.EqualError(t, err, "ibv_query_port mlx5_0 port 2: boom")
	require.EqualError(t, verbs.NewOpError("ibv_open_device", "mlx5_0", 0, verbs.ErrNoDevice), "ibv_open_device mlx5_0: no such RDMA device")
}

func TestLinkRatesOfKnownGenerations(t *testing.T) {
	for _, row := range []struct {
		width int
		speed uint32
		text  string
		gbps  float64
	}{
		{1, 1, "1x", 2.5}, {2, 32, "4x", 103.125}, {2, 128, "4x", 400}, {8, 4, "12x", 120}, {16, 64, "2x", 100},
		{2, 0, "4x", 0}, {0, 1, "", 0},
	} {
		text, gbps := linkRate(row.width, row.speed)
		require.Equal(t, row.text, text)
		require.InDelta(t, row.gbps, gbps, 1e-9)
	}
}

func TestMTUIsInBytes(t *testing.T) {
	require.Equal(t, []int{0, 256, 1024, 4096, 0}, []int{mtuBytes(0), mtuBytes(1), mtuBytes(3), mtuBytes(5), mtuBytes(6)})
}
