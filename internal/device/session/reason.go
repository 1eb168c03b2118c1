package session

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// EndedBy returns the reason why a device cannot be watched after err, with advice to the
// operator.
func EndedBy(err error) status.End {
	for _, r := range []struct {
		is     error
		reason status.Reason
		advice string
	}{
		{verbs.ErrNoLibrary, status.ReasonNoLibrary, "install libibverbs and its providers (Debian: libibverbs1 ibverbs-providers)"},
		{verbs.ErrExcludedNetns, status.ReasonExcludedNetns, "run in the device's network namespace ('ip -all netns exec rdma dev' lists them)"},
		{verbs.ErrStuck, status.ReasonStuck, "the worker exits, which makes the kernel free the device"},
		{verbs.ErrRecovering, status.ReasonRecovering, "it is recovering from a fatal error (the kernel log says so), " +
			"or the rdma cgroup allows no further handle (rdma.max, hca_handle)"},
		{unix.ETIMEDOUT, status.ReasonRecovering, "the device did not answer its driver; if that lasts, its firmware hangs (the kernel log says more)"},
		{verbs.ErrLimit, status.ReasonLimit, "raise the limits of locked memory and open files (systemd: LimitMEMLOCK, LimitNOFILE)"},
		{verbs.ErrNoProvider, status.ReasonUnwatchable, ""},
		{verbs.ErrUnsupported, status.ReasonUnsupported, ""},
		{verbs.ErrNoDevice, status.ReasonNoDevice, ""},
		{os.ErrPermission, status.ReasonNoPermission, fmt.Sprintf("let user %d read and write the node by its mode (a worker has no "+
			"capabilities); in a container also allow 'c 231:* rw'", os.Getuid())},
	} {
		if errors.Is(err, r.is) {
			if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
				r.advice = verbs.Shortage(err)
			}
			return status.End{Reason: r.reason, Message: withAdvice(err, r.advice)}
		}
	}
	return status.End{Reason: status.ReasonUnsupported, Message: err.Error()}
}

func withAdvice(err error, advice string) string {
	if advice == "" {
		return err.Error()
	}
	return err.Error() + "; " + advice
}
