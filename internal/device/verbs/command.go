package verbs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// CommandCall is a call that some drivers turn into a command to the device's firmware. While
// the firmware hangs, such a call gets no answer.
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

// AnswerLimit is the time within which a healthy device answers a command. A slower device may hang
// soon, so the session no longer makes calls that would hold a lock of other processes.
const AnswerLimit = 100 * time.Millisecond

// Command records the outcome of one CommandCall.
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

// Unanswered reports whether a Status shows that the device did not answer. Drivers return
// ETIMEDOUT, ETIME (efa and erdma) or EIO (mlx4 and hns) when a command times out. After an
// earlier command has timed out, mlx5 returns ENOLINK, and efa, erdma and ionic return ENODEV,
// without sending the command at all (Linux 6.12). Other drivers use EBUSY and EINVAL, which
// have other meanings as well and are not included.
func Unanswered(status string) bool {
	switch status {
	case "ETIMEDOUT", "ETIME", "EIO", "ENOLINK", "ENODEV":
		return true
	}
	return false
}
