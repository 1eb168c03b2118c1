package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"rdma_events/internal/device/verbs"
)

// The limits of the calls. Together they fit into the 10 s that the host gives the process,
// because the Taker sends no further command to the device after a call that is late.
const (
	openLimit = 4 * time.Second
	callLimit = 3 * time.Second
)

// ErrLate is wrapped by the error of Take if the device has not answered a call in time. A thread
// still hangs in that call, so the process should exit.
var ErrLate = errors.New("the device has not answered")

// KernelReader reads the attributes of a device that the kernel has in memory, without asking the
// device. sysfs.FS implements it.
type KernelReader interface {
	Device(name string) verbs.DeviceAttr
	Ports(device string) []int
	GIDs(device string, port int) ([]verbs.GID, error)
}

// Taker takes the snapshot of one device.
type Taker struct {
	Device string
	Open   func() (verbs.Device, error)
	// KernelReader is used if the device cannot be opened; nil: the snapshot then has no attributes.
	Kernel KernelReader
	Mono   func() int64 // CLOCK_MONOTONIC, ns
	Out    io.Writer

	dev verbs.Device
	// virtual tells, by port, whether the port's network device has no hardware of its own. It has no entry for a port
	// without network device.
	virtual map[int]bool

	late   string // the call that was not answered in time; no command is sent after it
	slow   string // a command that failed or was not answered within verbs.AnswerLimit; nothing takes the RTNL lock after it
	failed error  // of Out
}

// Take writes the snapshot as Entries, one a line. A call that fails becomes an Entry. Take
// returns ErrLate if a call was late, or the error of Out. It may be called once.
func (t *Taker) Take() error {
	opened := make(chan verbs.Device, 1)
	_, err := t.runCall(attributesPart, 0, openLimit, func() (any, error) {
		dev, err := t.Open()
		if err != nil {
			return nil, err
		}
		opened <- dev
		return newAttributes(dev.Attr()), nil
	})
	switch {
	case err == nil:
		t.dev = <-opened
		t.runKernelReads()
		t.runDeviceCommands()
	case t.Kernel != nil:
		t.runUnopenedReads()
	}
	if t.late != "" {
		return errors.Join(ErrLate, t.failed)
	}
	return t.failed
}

// portNumbers returns the numbers of the ports that are watched by default.
func (t *Taker) portNumbers() []int {
	attr := t.dev.Attr()
	return attr.WatchedPorts(nil)
}

// runKernelReads reads the parts that the kernel answers from memory.
func (t *Taker) runKernelReads() {
	t.virtual = map[int]bool{}
	for _, port := range t.portNumbers() {
		_ = t.runRead("gids", port, func() (any, error) {
			table, err := t.dev.ReadGIDs(port)
			return newGIDs(table.Entries), err
		})
		read := make(chan bool, 1)
		err := t.runRead("netdev", port, func() (any, error) {
			n, err := t.dev.ReadNetDev(port)
			read <- n.Virtual
			return newNetDev(&n), err
		})
		if err == nil {
			t.virtual[port] = <-read
		}
	}
}

// unprovenDevice is the reason for not reading counters that may be commands, or that have effects
// if they fail: bnxt_re never asks its device again after one failure.
const unprovenDevice = "without a queue pair nothing shows whether this device answers"

// runDeviceCommands reads the parts that may be commands to the device, and the parts that the
// driver of its network device answers under the kernel's RTNL lock.
func (t *Taker) runDeviceCommands() {
	set := t.dev.Commands()
	unless := ""
	if set.Has(verbs.CommandQueryQP) && !set.Has(verbs.CommandQueryPort) && !set.Has(verbs.CommandHWCounters) {
		unless = unprovenDevice
	}
	for _, port := range t.portNumbers() {
		t.runCommand(attributesPart, port, "", set.Has(verbs.CommandQueryPort), func() (any, error) {
			attr, err := t.dev.QueryPort(port)
			return newPort(&attr), err
		})
	}
	for _, port := range t.portNumbers() {
		t.runCounters(port, verbs.CountersHardware, unless, set.Has(verbs.CommandHWCounters))
		t.runCounters(port, verbs.CountersPort, unless, false)
	}
	_ = t.runRead(string(verbs.CountersPCI), 0, func() (any, error) { return t.dev.ReadCounters(1, verbs.CountersPCI) })
	for _, port := range t.portNumbers() {
		if virtual, ok := t.virtual[port]; ok {
			t.runNetDevCommands(port, cmp.Or(unless, t.slow, unprovenNetDev(set, virtual)))
		}
	}
}

// unprovenNetDev returns the reason for not asking the driver of a network device, "" if it may be
// asked: the network device has hardware, and no command of the RDMA device shows whether its
// firmware answers.
func unprovenNetDev(set verbs.CommandSet, virtual bool) string {
	if virtual || set != 0 {
		return ""
	}
	return "the RDMA device has no command that shows whether the firmware of its network device answers"
}

// runNetDevCommands reads the parts that the driver of a port's network device answers under the RTNL lock.
func (t *Taker) runNetDevCommands(port int, unless string) {
	t.runCommand("link", port, unless, false, func() (any, error) {
		l, err := t.dev.AskLink(port)
		return newLink(&l), err
	})
	t.runCounters(port, verbs.CountersNetDev, unless, false)
}

// runCounters reads the counters of a port from one source; see runCommand.
func (t *Taker) runCounters(port int, from verbs.CounterSource, unless string, isCommand bool) {
	t.runCommand(string(from), port, unless, isCommand, func() (any, error) { return t.dev.ReadCounters(port, from) })
}

// runCommand reads a part with a call that may be a command, unless unless has a reason not to, or
// an earlier call was late. isCommand tells that the call is certainly a command, so that its
// duration shows whether the device answers.
func (t *Taker) runCommand(part string, port int, unless string, isCommand bool, f func() (any, error)) {
	if unless = cmp.Or(t.late, unless); unless != "" {
		t.writeEntry(Entry{Part: part, Port: port, Error: "not asked: " + unless})
		return
	}
	took, err := t.runCall(part, port, callLimit, f)
	switch {
	case !isCommand || errors.Is(err, verbs.ErrUnsupported):
	case err != nil:
		t.slow = partName(part, port) + " failed"
	case took > verbs.AnswerLimit:
		t.slow = fmt.Sprintf("%s took %s", partName(part, port), took.Round(time.Millisecond))
	}
}

// runUnopenedReads reads the parts that the kernel has of a device that cannot be opened or does not answer.
func (t *Taker) runUnopenedReads() {
	_, err := t.runCall("sysfs", 0, callLimit, func() (any, error) {
		attr := t.Kernel.Device(t.Device)
		if attr.NodeGUID == "" {
			return nil, verbs.ErrNoDevice
		}
		return newAttributes(attr), nil
	})
	if err != nil {
		return
	}
	for _, port := range t.Kernel.Ports(t.Device) {
		_ = t.runRead("gids", port, func() (any, error) {
			gids, err := t.Kernel.GIDs(t.Device, port)
			return newGIDs(gids), err
		})
	}
}

// runRead reads a part without asking the device. The entry has the returned error too.
func (t *Taker) runRead(part string, port int, f func() (any, error)) error {
	_, err := t.runCall(part, port, callLimit, f)
	return err
}

// runCall writes the beginning of a call, runs f and writes its result as an Entry. It returns how
// long f took, and its error. If f exceeds limit, runCall leaves its goroutine behind and returns ErrLate.
func (t *Taker) runCall(part string, port int, limit time.Duration, f func() (any, error)) (time.Duration, error) {
	t.writeEntry(Entry{Part: part, Port: port, Begun: true})
	type result struct {
		value any
		err   error
	}
	begin, done := t.Mono(), make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var r result
	select {
	case r = <-done:
	case <-timer.C:
		r.err = fmt.Errorf("%w within %s", ErrLate, limit)
		t.late = partName(part, port) + ": " + r.err.Error()
	}
	took := time.Duration(t.Mono() - begin)
	t.writeEntry(newEntry(part, port, took, r.value, r.err))
	return took, r.err
}

func (t *Taker) writeEntry(e Entry) {
	if t.failed == nil {
		t.failed = json.NewEncoder(t.Out).Encode(e)
	}
}
