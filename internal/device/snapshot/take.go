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

// The limits of the calls. Together they fit into the 10 s that the host gives the process:
// after a call that is late, no other command is sent to the device.
const (
	openLimit = 4 * time.Second
	callLimit = 3 * time.Second
)

// ErrLate is wrapped by the error of Take if the device has not answered a call. The thread
// of that call is still in it, so the process should exit.
var ErrLate = errors.New("the device has not answered")

// Unopened reads what the kernel knows of a device without asking it. A sysfs.FS is one.
type Unopened interface {
	Device(name string) verbs.DeviceAttr
	Ports(device string) []int
	GIDs(device string, port int) ([]verbs.GID, error)
}

// Taker takes the snapshot of one device.
type Taker struct {
	Device string
	Open   func() (verbs.Device, error)
	// Unopened is asked if the device cannot be opened; nil: there is no other source.
	Unopened Unopened
	Mono     func() int64 // CLOCK_MONOTONIC, ns
	Out      io.Writer

	dev verbs.Device
	// virtual has whether there is hardware below a port's network device, where there is one.
	virtual map[int]bool

	late   string // a call that was not answered, after which no command is sent
	slow   string // a command that was not answered within verbs.AnswerLimit, after which nothing takes the RTNL lock
	failed error  // of Out
}

// Take writes the snapshot as Entries, one a line. The error is that of a call that was late
// (ErrLate) or of Out; a call that fails is an Entry. Take is called once.
func (t *Taker) Take() error {
	opened := make(chan verbs.Device, 1)
	_, err := t.call(attributesPart, 0, openLimit, func() (any, error) {
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
		t.readKernel()
		t.askDevice()
	case t.Unopened != nil:
		t.readUnopened()
	}
	if t.late != "" {
		return errors.Join(ErrLate, t.failed)
	}
	return t.failed
}

// ports returns the numbers of the ports of the open device.
func (t *Taker) ports() []int {
	var all []int
	for port := 1; port <= min(t.dev.Attr().Ports, verbs.MaxPorts); port++ {
		all = append(all, port)
	}
	return all
}

// readKernel takes what the kernel answers itself.
func (t *Taker) readKernel() {
	t.virtual = map[int]bool{}
	for _, port := range t.ports() {
		_ = t.read("gids", port, func() (any, error) {
			table, err := t.dev.ReadGIDs(port)
			return newGIDs(table.Entries), err
		})
		read := make(chan bool, 1)
		err := t.read("netdev", port, func() (any, error) {
			n, err := t.dev.ReadNetDev(port)
			read <- n.Virtual
			return newNetDev(&n), err
		})
		if err == nil {
			t.virtual[port] = <-read
		}
	}
}

// unprovable is why a device is not asked for counters that may be commands or have effects if
// they fail: bnxt_re never asks its device again after one failure.
const unprovable = "without a queue pair nothing shows whether this device answers"

// askDevice takes what may be commands to the device, and what its network device's driver
// answers under the kernel's RTNL lock.
func (t *Taker) askDevice() {
	set := t.dev.Commands()
	unless := ""
	if set.Has(verbs.CommandQueryQP) && !set.Has(verbs.CommandQueryPort) && !set.Has(verbs.CommandHWCounters) {
		unless = unprovable
	}
	for _, port := range t.ports() {
		t.ask(attributesPart, port, "", set.Has(verbs.CommandQueryPort), func() (any, error) {
			attr, err := t.dev.QueryPort(port)
			return newPort(&attr), err
		})
	}
	for _, port := range t.ports() {
		t.counters(port, verbs.CountersHardware, unless, set.Has(verbs.CommandHWCounters))
		t.counters(port, verbs.CountersPort, unless, false)
	}
	_ = t.read(string(verbs.CountersPCI), 0, func() (any, error) { return t.dev.ReadCounters(1, verbs.CountersPCI) })
	for _, port := range t.ports() {
		if virtual, ok := t.virtual[port]; ok {
			t.askNetDev(port, cmp.Or(unless, t.slow, unshown(set, virtual)))
		}
	}
}

// unshown is why the driver of a network device is not asked that has hardware below, of which no
// command of the RDMA device shows whether it answers.
func unshown(set verbs.CommandSet, virtual bool) string {
	if virtual || set != 0 {
		return ""
	}
	return "the RDMA device has no command that shows whether the firmware of its network device answers"
}

// askNetDev takes what the driver of a port's network device answers under the RTNL lock.
func (t *Taker) askNetDev(port int, unless string) {
	t.ask("link", port, unless, false, func() (any, error) {
		l, err := t.dev.AskLink(port)
		return newLink(&l), err
	})
	t.counters(port, verbs.CountersNetDev, unless, false)
}

// counters takes the counters of a port from one source; see ask.
func (t *Taker) counters(port int, from verbs.CounterSource, unless string, isCommand bool) {
	t.ask(string(from), port, unless, isCommand, func() (any, error) { return t.dev.ReadCounters(port, from) })
}

// ask takes what may be a command, unless there is a reason not to, or a call was not answered.
// isCommand: it is one for certain, so its time says whether the device answers.
func (t *Taker) ask(part string, port int, unless string, isCommand bool, f func() (any, error)) {
	if unless = cmp.Or(t.late, unless); unless != "" {
		t.write(Entry{Part: part, Port: port, Error: "not asked: " + unless})
		return
	}
	took, err := t.call(part, port, callLimit, f)
	switch {
	case !isCommand || errors.Is(err, verbs.ErrUnsupported):
	case err != nil:
		t.slow = name(part, port) + " failed"
	case took > verbs.AnswerLimit:
		t.slow = fmt.Sprintf("%s took %s", name(part, port), took.Round(time.Millisecond))
	}
}

// readUnopened takes what the kernel knows of a device that cannot be opened, or does not answer.
func (t *Taker) readUnopened() {
	_, err := t.call("sysfs", 0, callLimit, func() (any, error) {
		attr := t.Unopened.Device(t.Device)
		if attr.NodeGUID == "" {
			return nil, verbs.ErrNoDevice
		}
		return newAttributes(attr), nil
	})
	if err != nil {
		return
	}
	for _, port := range t.Unopened.Ports(t.Device) {
		_ = t.read("gids", port, func() (any, error) {
			gids, err := t.Unopened.GIDs(t.Device, port)
			return newGIDs(gids), err
		})
	}
}

// read takes what asks no device. The error is in its entry, too.
func (t *Taker) read(part string, port int, f func() (any, error)) error {
	_, err := t.call(part, port, callLimit, f)
	return err
}

// call writes what f returns, or why it returns nothing. After limit it leaves f behind, and the
// error is ErrLate.
func (t *Taker) call(part string, port int, limit time.Duration, f func() (any, error)) (time.Duration, error) {
	t.write(Entry{Part: part, Port: port, Begun: true})
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
		t.late = name(part, port) + ": " + r.err.Error()
	}
	took := time.Duration(t.Mono() - begin)
	t.write(newEntry(part, port, took, r.value, r.err))
	return took, r.err
}

func (t *Taker) write(e Entry) {
	if t.failed == nil {
		t.failed = json.NewEncoder(t.Out).Encode(e)
	}
}
