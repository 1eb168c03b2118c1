package verbs

import (
	"time"

	"rdma_events/internal/ledger"
)

// Backend opens devices: the native one or the simulator.
type Backend interface {
	// Open opens the device called name and counts in led from then on. led
	// must stay mapped until the Device is closed. Errors: ErrNoLibrary,
	// ErrNoDevice, ErrPermission, ErrUnsupported, ErrRecovering, ErrLimit,
	// wrapped in an OpError.
	Open(name string, led *ledger.Ledger) (Device, error)
}

// Device is an open device. All methods may be called concurrently, but
// ReadEvents by one goroutine at a time: readers of one context compete for
// its events. The caller closes it.
type Device interface {
	// Attr returns what the device was at open.
	Attr() DeviceAttr

	// QueryPort asks for the attributes of a port (1-based). It does not block
	// by design, but a hung firmware can hold it. ErrNoDevice after removal.
	QueryPort(port int) (PortAttr, error)

	// ReadEvents waits until at least one event is queued, reads and
	// acknowledges all that are queued, as far as runs has room, and returns
	// how many elements it filled. wait < 0 waits for ever; with wait == 0 or
	// past wait it returns 0, nil. Close wakes it: what is queued by
	// then is still read, and then it returns ErrClosed.
	ReadEvents(runs []Run, wait time.Duration) (int, error)

	// NewProbe makes a probe. ErrUnsupported: the port cannot do this method
	// now (port down, no GID, no such vector, refused by the device).
	// ErrNoDevice: the device is gone, as its port says too.
	NewProbe(ProbeConfig) (Probe, error)

	// Close wakes what blocks, waits for it, closes the probes that are still
	// open and then the device. After timeout it gives up with ErrStuck. Later
	// calls return ErrClosed.
	Close(timeout time.Duration) error
}

// Probe is one completion queue with its queue pair. Round, Rounds and Keep may be
// called by one goroutine at a time; Nudge and Close by any.
type Probe interface {
	// Round waits for pause, makes one completion happen and waits for its
	// event, at most ProbeConfig.Timeout. The pause is part of the call because
	// the latency depends on what the CPU did before: this way the thread has
	// slept and nothing else. The error is nil whenever the round has an
	// outcome, OutcomeError included; ErrClosed when Close came first.
	Round(pause time.Duration) (Round, error)

	// Rounds is Round again and again: the first after pace.Pause, the others
	// every pace.Interval, for pace.For at most. It returns how many rounds it
	// filled in, and ends early when they are full and with a round that does
	// not succeed, a canceled one included. Between its rounds the thread sleeps
	// and does nothing else.
	Rounds(rounds []Round, pace Pace) (int, error)

	// Keep ends a trial (ProbeConfig.Trial): how its rounds ended is counted, and
	// later ones count as they end. Without it they never count, so that trying
	// what a device cannot do is no error of the device. The goroutine of Round
	// calls it; it does nothing on a probe that is closed or was no trial.
	Keep()

	// Nudge ends the pause of the Round that is under way, or else of the next
	// one, with OutcomeCanceled and no error. It does not block, and does
	// nothing once the probe is closed.
	Nudge()

	// Usable reports whether another Round can succeed without making the
	// probe anew: false once its queue pair is in the error state by accident.
	Usable() bool

	// Close acknowledges what is unacknowledged, destroys the queue pair, the
	// CQ and the channel. After timeout it gives up with ErrStuck.
	Close(timeout time.Duration) error
}
