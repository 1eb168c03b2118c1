package session

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

func TestEveryFailureHasItsReasonAndOneLine(t *testing.T) {
	for _, row := range []struct {
		err  error
		want status.Reason
		text string
	}{
		{verbs.ErrNoLibrary, status.ReasonNoLibrary, "install libibverbs"},
		{fmt.Errorf("/dev/infiniband/uverbs0: %w", unix.EACCES), status.ReasonNoPermission, "read and write the node"},
		{fmt.Errorf("%w: %w", verbs.ErrExcludedNetns, unix.EPERM), status.ReasonExcludedNetns, "ip -all netns exec rdma dev"},
		{fmt.Errorf("%w: %w", verbs.ErrLimit, unix.ENOMEM), status.ReasonLimit, "LimitMEMLOCK"},
		{fmt.Errorf("%w: %w", verbs.ErrRecovering, unix.EAGAIN), status.ReasonRecovering, "a fatal error"},
		{fmt.Errorf("%w: %w", verbs.ErrRecovering, unix.EAGAIN), status.ReasonRecovering, "the rdma cgroup"},
		{fmt.Errorf("%w: %w", verbs.ErrLimit, unix.EMFILE), status.ReasonLimit, "raise RLIMIT_NOFILE (systemd: LimitNOFILE)"},
		{fmt.Errorf("%w: %w", verbs.ErrLimit, unix.ENFILE), status.ReasonLimit, "fs.file-max"},
		{fmt.Errorf("/dev/infiniband/uverbs0: %w", unix.ETIMEDOUT), status.ReasonRecovering, "did not answer"},
		{verbs.ErrNoDevice, status.ReasonNoDevice, "no such RDMA device"},
		{verbs.ErrUnsupported, status.ReasonUnsupported, "unsupported"},
		{fmt.Errorf("%w: there is none for irdma", verbs.ErrNoProvider), status.ReasonUnwatchable, "there is none for irdma"},
		{verbs.ErrStuck, status.ReasonStuck, "does not let go"},
		{errors.New("odd"), status.ReasonUnsupported, "odd"},
	} {
		e := EndedBy(&verbs.OpError{Op: "ibv_open_device", Device: "mlx5_0", Err: row.err})
		require.Equal(t, row.want, e.Reason)
		require.Contains(t, e.Message, row.text)
		require.Contains(t, e.Message, "mlx5_0")
		require.NotContains(t, e.Message, "\n")
	}
}
