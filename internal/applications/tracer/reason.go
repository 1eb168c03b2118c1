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

// EndOf returns the reason and message with which a tracer ends after an error of its source.
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

// maxReason is the maximum size of the message of an end in bytes.
const maxReason = 1024

// cleanEnd sanitizes the end that a tracer has reported.
func cleanEnd(e status.End) status.End {
	switch e.Reason {
	case status.ReasonNoPermission, status.ReasonUnsupported, status.ReasonNoDevice, status.ReasonRemoved, status.ReasonLimit:
	default:
		// ReasonOK is not valid for an end that the host has not requested.
		e.Reason = status.ReasonCrashed
	}
	if e.Message = strings.TrimSpace(sanitize.Text(e.Message, maxReason, ' ')); e.Message == "" {
		e.Message = subject + " has ended without a reason"
	}
	return e
}

// RetryAfter returns how soon to start another tracer. After the driver core was unloaded, another tracer starts soon to find out whether
// the core is loaded again, because discovery may not have noticed its absence.
func RetryAfter(why status.Reason) process.Retry {
	switch why {
	case status.ReasonNoDevice, status.ReasonNoPermission, status.ReasonUnsupported, status.ReasonLimit:
		return process.Slowly
	}
	return process.Soon
}
