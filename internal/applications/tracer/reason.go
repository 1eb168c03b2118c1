package tracer

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/sys/status"
)

// EndOf returns why a tracer ends after an error of its source.
func EndOf(err error) status.End {
	reason := status.ReasonCrashed
	for _, row := range []struct {
		is     error
		reason status.Reason
	}{
		{trace.ErrClosed, status.ReasonOK},
		{trace.ErrPermission, status.ReasonNoPermission},
		{trace.ErrUnsupported, status.ReasonUnsupported},
		{trace.ErrNoDevice, status.ReasonNoDevice},
		{trace.ErrUnloaded, status.ReasonRemoved},
		{unix.EMFILE, status.ReasonLimit},
		{unix.ENFILE, status.ReasonLimit},
		{unix.ENOMEM, status.ReasonLimit},
	} {
		if errors.Is(err, row.is) {
			reason = row.reason
			break
		}
	}
	return status.End{Reason: reason, Message: subject + ": " + err.Error()}
}

// longestReason is the most bytes of the message of an end.
const longestReason = 1024

// taken returns the end that a tracer has reported as the host takes it.
func taken(e status.End) status.End {
	switch e.Reason {
	case status.ReasonNoPermission, status.ReasonUnsupported, status.ReasonNoDevice, status.ReasonRemoved, status.ReasonLimit:
	default:
		// ReasonOK is no reason for an end for which the host has not asked.
		e.Reason = status.ReasonCrashed
	}
	if e.Message = strings.TrimSpace(sanitize.Text(e.Message, longestReason, ' ')); e.Message == "" {
		e.Message = subject + " has ended without a reason"
	}
	return e
}

// RetryAfter returns when another tracer may succeed. After the driver core was unloaded, another tracer finds out whether
// it is back already; discovery may not have seen it go.
func RetryAfter(why status.Reason) process.Retry {
	switch why {
	case status.ReasonNoDevice, status.ReasonNoPermission, status.ReasonUnsupported, status.ReasonLimit:
		return process.Slowly
	}
	return process.Soon
}
