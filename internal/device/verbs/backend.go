package verbs

import (
	"time"

	"rdma_events/internal/device/ledger"
)

// Backend opens devices. It is either the native backend or the simulator.
type Backend interface {
	// Open opens the device called name. The Device counts its events in led,
	// which must stay mapped until the Device is closed. Errors: ErrNoLibrary,
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

	// QueryPort queries the attributes of a port (1-based). It returns at once,
	// unless the firmware hangs. After the removal of the device it returns
	// ErrNoDevice.
	QueryPort(port int) (PortAttr, error)

	// ReadGIDs reads the GID table of a port (1-based) from the kernel, which
	// caches it, so that the device is not accessed. It returns ErrNoDevice
	// after the removal of the device.
	ReadGIDs(port int) (GIDTable, error)

	// Commands returns the calls that this device's driver turns into firmware
	// commands.
	Commands() CommandSet

	// ReadCounter reads one hw_counter of a port (1-based) and discards the
	// value. It returns ErrUnsupported if the port has no hw_counters. It blocks
	// until the firmware answers; Close does not wait for it.
	ReadCounter(port int) error

	// ReadNetDev reads the state of a port's network device (1-based port) from
	// the kernel, without a call of its driver. It returns ErrUnsupported if the
	// port has no network device, or one in another network namespace.
	ReadNetDev(port int) (NetDev, error)

	// ReadCounters reads the counters of a port (1-based) from one source. It
	// returns ErrUnsupported if the source has no counters. It blocks until the
	// firmware answers; Close does not wait for it. The kernel reads
	// CountersNetDev and CountersFEC under its RTNL lock, see AskLink.
	ReadCounters(port int, from CounterSource) (map[string]uint64, error)

	// AskLink asks the driver of a port's network device (1-based port) why there
	// is no link. The kernel takes its RTNL lock, of which the host has one. The
	// call blocks until the lock is free and the firmware answers; Close does not
	// wait for it. AskLink returns ErrUnsupported if the port has no network
	// device, or if its driver or the kernel has no answer.
	AskLink(port int) (Link, error)

	// QueryQP queries the state of the queue pair of one of the port's probes
	// (1-based port), and discards the answer. It returns ErrUnsupported if no
	// probe keeps its queue pair between rounds. It blocks until the firmware
	// answers.
	QueryQP(port int) error

	// ListObjects lists the objects of these kinds that programs and the kernel
	// hold on the device. If the thread that created a queue pair or shared
	// receive queue has ended, its holder is known only if contexts and
	// protection domains are listed too. Objects reports for each kind whether
	// the list succeeded; the only errors are ErrClosed and ErrNoDevice.
	// ListObjects blocks until the kernel and, for queue pairs, the firmware
	// answer; Close does not wait for it.
	ListObjects(kinds ...ObjectKind) (*Objects, error)

	// ReadEvents waits until at least one event is queued. It then reads and
	// acknowledges as many queued events as runs has space for, writes the runs
	// into the ring of the ledger, rings the ledger's doorbell, and returns the
	// number of elements of runs that it filled in. If no event comes within
	// wait, it returns 0, nil; a negative wait has no limit, and 0 does not
	// block. Close wakes ReadEvents: it still returns the events that were
	// queued by then, and ErrClosed from the next call on.
	ReadEvents(runs []Run, wait time.Duration) (int, error)

	// NewProbe creates a probe. It returns ErrUnsupported if the port cannot use
	// this method now (port down, no GID, no such vector, refused by the
	// device). It returns ErrNoDevice if the device has been removed; QueryPort
	// then returns the same.
	NewProbe(ProbeConfig) (Probe, error)

	// NewFabricEndpoint creates the queues for probes between a port and other
	// hosts. The returned FabricPort has no Epoch and no Reason. It returns
	// ErrUnsupported if the port cannot be probed now (not active, no GID) and
	// ErrNeverFabric if it never can (iWARP, no UD or RC queue pairs). Its other
	// errors are those of NewProbe.
	NewFabricEndpoint(FabricConfig) (FabricEndpoint, FabricPort, error)

	// Close wakes the calls that block and waits until they return. It then
	// reads and acknowledges the events that are still queued, as ReadEvents
	// does, closes the probes and FabricEndpoints that are still open, and the
	// device last. It returns ErrStuck if that takes longer than timeout. Later
	// calls return ErrClosed.
	Close(timeout time.Duration) error
}

// Probe is one completion queue with its queue pair. Only one goroutine at a
// time may call Round, Rounds and Keep; any goroutine may call Nudge and Close.
type Probe interface {
	// Round sleeps for pause, causes one completion and waits for its event, for
	// at most ProbeConfig.Timeout. The pause is part of the call because the
	// latency depends on what the CPU did before: in this way the thread does
	// nothing but sleep before each round. A round is written into the ring of
	// the ledger unless it was canceled or belongs to a trial. The error is nil
	// if the round has an outcome, OutcomeError included. It is ErrClosed if
	// Close came first.
	Round(pause time.Duration) (Round, error)

	// Rounds runs several rounds, each as Round does: the first after
	// pace.Pause, the others every pace.Interval, for at most pace.For. It
	// returns early after a round without success, which includes a canceled
	// one. It returns the last round and the number of rounds that were not
	// canceled. Between rounds the thread only sleeps.
	Rounds(pace Pace) (last Round, done int, err error)

	// Keep ends a trial (ProbeConfig.Trial) and keeps its probe: it counts the
	// outcomes of the trial's rounds and writes the last one into the ring of
	// the ledger. Later rounds are counted as they end. Without Keep the rounds
	// of a trial are never counted: a device that lacks a method has not failed.
	// The goroutine that calls Round must call Keep. Keep does nothing on a
	// closed probe, or on one that is no trial.
	Keep()

	// Nudge ends the pause of the current Round, or of the next one if none is
	// running. That round returns OutcomeCanceled and no error. Nudge does not
	// block, and does nothing once the probe is closed.
	Nudge()

	// Usable reports whether another Round can succeed on this probe. It
	// returns false once a failure has put the queue pair into the error state;
	// the caller must then create another probe.
	Usable() bool

	// Close acknowledges the remaining events and destroys the queue pair, the
	// completion queue and the completion channel. It returns ErrStuck if that
	// takes longer than timeout.
	Close(timeout time.Duration) error
}
