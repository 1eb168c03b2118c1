package verbs

import (
	"time"

	"rdma_events/internal/device/ledger"
)

// Backend opens devices. It is either the native backend or the simulator.
type Backend interface {
	// Open opens the device called name, which counts in led from then on. led
	// must stay mapped until the Device is closed. Errors: ErrNoLibrary,
	// ErrNoDevice, ErrPermission, ErrExcludedNetns, ErrNoProvider,
	// ErrUnsupported, ErrRecovering, ErrLimit, wrapped in an OpError.
	Open(name string, led *ledger.Ledger) (Device, error)
}

// Device is an open device. All methods may be called concurrently, except that
// only one goroutine at a time may call ReadEvents: concurrent readers of one
// context compete for its events. The caller must close the Device.
type Device interface {
	// Attr returns the attributes that the device had when it was opened.
	Attr() DeviceAttr

	// QueryPort queries the attributes of a port (1-based). It does not block
	// by design, but firmware that hangs can block it. It returns ErrNoDevice
	// after the removal of the device.
	QueryPort(port int) (PortAttr, error)

	// ReadGIDs reads the GID table of a port (1-based) from the kernel, which
	// keeps it. It asks no device. It returns ErrNoDevice after the removal
	// of the device.
	ReadGIDs(port int) (GIDTable, error)

	// Commands returns the calls about a port that are commands to this device.
	Commands() CommandSet

	// ReadCounter reads one hw_counter of a port (1-based) and drops the
	// value. It returns ErrUnsupported if the port has none. It blocks as long
	// as the firmware does not answer; Close does not wait for it.
	ReadCounter(port int) error

	// ReadNetDev reads what the kernel has about the network device of a port
	// (1-based). It asks no driver. It returns ErrUnsupported if the port has
	// none, or if it is in another network namespace.
	ReadNetDev(port int) (NetDev, error)

	// ReadCounters reads the counters of a port (1-based) from one source. It
	// returns ErrUnsupported if there are none. It blocks as long as the
	// firmware does not answer; Close does not wait for it. Those of
	// CountersNetDev and CountersFEC are read under the kernel's RTNL lock, see AskLink.
	ReadCounters(port int, from CounterSource) (map[string]uint64, error)

	// AskLink asks the driver of a port's network device (1-based port) why there
	// is no link. It takes the kernel's RTNL lock, which is one for the whole
	// host, and blocks as long as another process holds it or the firmware does
	// not answer; Close does not wait for it. It returns ErrUnsupported if the
	// port has no network device, or if its driver or the kernel has no answer.
	AskLink(port int) (Link, error)

	// QueryQP queries the state of a queue pair that a probe of the port
	// (1-based) has, and drops the answer. It returns ErrUnsupported if none
	// has one that lasts. It blocks as long as the firmware does not answer.
	QueryQP(port int) error

	// ListObjects lists the objects of the device that programs and the kernel
	// hold, of some kinds. The holder of a queue pair or shared receive queue
	// whose thread has ended is known only where contexts and protection
	// domains are listed too. What came of each list is in the Objects; the
	// only errors are ErrClosed and ErrNoDevice. It blocks for as long as the
	// kernel and, for queue pairs, the firmware need; Close does not wait for
	// it.
	ListObjects(kinds ...ObjectKind) (*Objects, error)

	// ReadEvents waits until at least one event is queued. It then reads and
	// acknowledges the queued events, as many as runs has space for, writes the
	// runs into the ring of the ledger and rings its doorbell, and
	// returns the number of elements that it filled in. With wait < 0 it waits
	// for ever. With wait == 0, or after wait, it returns 0, nil. Close wakes
	// it: it still reads the events that are queued by then, and after that it
	// returns ErrClosed.
	ReadEvents(runs []Run, wait time.Duration) (int, error)

	// NewProbe makes a probe. It returns ErrUnsupported if the port cannot do
	// this method now (port down, no GID, no such vector, refused by the
	// device). It returns ErrNoDevice if the device is gone; QueryPort then
	// returns the same.
	NewProbe(ProbeConfig) (Probe, error)

	// NewFabric makes the queues for probes between a port and other hosts. The
	// FabricPort has neither Epoch nor Reason. It returns ErrUnsupported if the
	// port cannot now (not active, no GID) and ErrNeverFabric if it never can
	// (iWARP, no UD or RC queue pairs); else as NewProbe.
	NewFabric(FabricConfig) (Fabric, FabricPort, error)

	// Close wakes the calls that block and waits until they return. It then
	// closes the probes and Fabrics that are still open and, after them, the device. After
	// timeout it gives up with ErrStuck. Later calls return ErrClosed.
	Close(timeout time.Duration) error
}

// Probe is one completion queue with its queue pair. Only one goroutine at a
// time may call Round, Rounds and Keep; any goroutine may call Nudge and Close.
type Probe interface {
	// Round waits for pause, causes one completion and waits for its event, for
	// at most ProbeConfig.Timeout. The pause is part of the call because the
	// latency depends on what the CPU did before: this way the thread only
	// sleeps before the round. A round that is not canceled is written into the
	// ring of the ledger, unless it is one of a trial. The error is nil if the
	// round has an outcome, OutcomeError included. It is ErrClosed if Close
	// came first.
	Round(pause time.Duration) (Round, error)

	// Rounds runs several rounds, each as Round does: the first after
	// pace.Pause, the others every pace.Interval, for at most pace.For. It ends
	// early after a round that does not succeed, a canceled one included. It
	// returns the last round, and how many rounds there were without a canceled
	// one. Between its rounds the thread only sleeps.
	Rounds(pace Pace) (last Round, done int, err error)

	// Keep ends a trial (ProbeConfig.Trial): the outcomes of its rounds are
	// counted, and later rounds are counted as they end. Without Keep they are
	// never counted, because it is no error of a device if it fails at
	// something that it does not support. The last of the trial's rounds is
	// then written into the ring of the ledger. The goroutine that calls Round must
	// call Keep. Keep does nothing on a probe that is closed or was no trial.
	Keep()

	// Nudge ends the pause of the Round that is under way, or else of the next
	// one, with OutcomeCanceled and no error. It does not block, and it does
	// nothing after the probe is closed.
	Nudge()

	// Usable reports whether another Round can succeed on this probe. It
	// returns false after an accident has put the queue pair into the error
	// state; the probe must then be recreated.
	Usable() bool

	// Close acknowledges the events that are not acknowledged yet and destroys
	// the queue pair, the CQ and the channel. After timeout it gives up with
	// ErrStuck.
	Close(timeout time.Duration) error
}
