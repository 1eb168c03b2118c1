package verbs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// CommandCall is a call that is a command to the device with some drivers: its firmware
// must answer it, and does not while it hangs.
type CommandCall uint8

// The calls.
const (
	CommandHWCounters CommandCall = iota + 1 // reading a file in hw_counters
	CommandQueryPort                         // ibv_query_port, and the reads of sysfs that complete it
	CommandQueryQP                           // ibv_query_qp
)

// String returns the call as it is written in tags: "hw_counters", "query_port" or
// "query_qp".
func (c CommandCall) String() string {
	switch c {
	case CommandHWCounters:
		return "hw_counters"
	case CommandQueryPort:
		return "query_port"
	case CommandQueryQP:
		return "query_qp"
	}
	return "unknown"
}

// CommandSet is a set of calls.
type CommandSet uint8

// NewCommandSet returns a set of calls.
func NewCommandSet(calls ...CommandCall) CommandSet {
	var s CommandSet
	for _, c := range calls {
		s |= 1 << c
	}
	return s
}

// Has reports whether c is in the set.
func (s CommandSet) Has(c CommandCall) bool { return s&(1<<c) != 0 }

// AnswerLimit is within what time a device answers a command. One that took longer may hang soon:
// it is asked nothing then that others would have to wait for.
const AnswerLimit = 100 * time.Millisecond

// Command is one call that a device has answered, or a failure of it.
type Command struct {
	Call   CommandCall
	Port   int
	Mono   int64  // CLOCK_MONOTONIC ns, before the call
	Took   int64  // ns
	Status string // the errno's name, as in "ETIMEDOUT"; "" for success
}

// CommandStatus returns the Status of a Command that ended with err.
func CommandStatus(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &errno):
		return err.Error()
	}
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return errno.Error()
}

// Unanswered reports whether a Status is one with which drivers end a command that the
// device did not answer (ETIMEDOUT, ETIME of efa and erdma, EIO of mlx4 and hns), or to
// which they give none any more because it did not answer an earlier one (ENOLINK of mlx5,
// ENODEV of efa, erdma and ionic; Linux 6.12). Others use EBUSY and EINVAL, which also
// mean something else.
func Unanswered(status string) bool {
	switch status {
	case "ETIMEDOUT", "ETIME", "EIO", "ENOLINK", "ENODEV":
		return true
	}
	return false
}
