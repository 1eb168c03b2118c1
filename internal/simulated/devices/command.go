package devices

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// commandEntry is a [[command]] of a scenario: a period in which the firmware answers a
// call late, with an error or not at all.
type commandEntry struct {
	target
	window
	call  verbs.CommandCall
	what  string
	errno unix.Errno // error of the calls, if what is fails
	took  int64      // duration of each call in ns, if what is slow
	index int        // index of its table, for errors
}

// The values of commandEntry.what.
const (
	hangs = "hangs" // until the end of the period
	fails = "fails"
	slows = "slow"
)

func readCommand(t *table) commandEntry {
	calls := map[string]verbs.CommandCall{}
	for _, c := range []verbs.CommandCall{verbs.CommandHWCounters, verbs.CommandQueryPort, verbs.CommandQueryQP} {
		calls[c.String()] = c
	}
	errnos := map[string]unix.Errno{"ETIMEDOUT": unix.ETIMEDOUT, "EIO": unix.EIO, "EBUSY": unix.EBUSY, "ENOLINK": unix.ENOLINK}
	return commandEntry{
		target: readTarget(t, true), window: t.window("for"), index: t.index,
		call:  calls[choiceFrom(t, "call", verbs.CommandHWCounters.String(), calls)],
		what:  t.choice("what", hangs, []string{hangs, fails, slows}),
		errno: errnos[choiceFrom(t, "status", "ETIMEDOUT", errnos)],
		took:  t.span("took", int64(2*time.Second), time.Microsecond),
	}
}

// commandMedian is the median duration of a command to an idle adapter's firmware, in ns.
const commandMedian = 45_000

// Commands implements verbs.Device.
func (d *device) Commands() verbs.CommandSet { return d.h.commands }

// ReadCounter implements verbs.Device.
func (d *device) ReadCounter(port int) error {
	return opError("read hw_counter", d.attr.Name, port, d.runCommand(port, verbs.CommandHWCounters, ledger.CallReadSysfs))
}

// QueryQP implements verbs.Device.
func (d *device) QueryQP(port int) error {
	err := fmt.Errorf("%w: no probe has a queue pair", verbs.ErrUnsupported)
	if d.gate.isShutting() || d.keepsQP(port) {
		err = d.runCommand(port, verbs.CommandQueryQP, ledger.CallQueryQP)
	}
	return opError("ibv_query_qp", d.attr.Name, port, err)
}

// keepsQP reports whether a probe of the port has a permanent queue pair.
func (d *device) keepsQP(port int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.probes {
		if p.c.Port == port && p.c.Method != verbs.MethodFlush {
			return true
		}
	}
	return false
}

// runCommand simulates a command. It is outside the gate: Close does not wait for it.
func (d *device) runCommand(port int, c verbs.CommandCall, call ledger.Call) error {
	switch {
	case d.gate.isShutting():
		return verbs.ErrClosed
	case port < 1 || port > len(d.h.ports) || !d.h.commands.Has(c):
		return fmt.Errorf("%w: %v of port %d", verbs.ErrUnsupported, c, port)
	}
	d.led.SetEvidenceCall(ledger.ThreadCall{Call: call, Port: port, Since: d.w.clock()})
	defer func() { d.led.SetEvidenceCall(ledger.ThreadCall{Since: d.w.clock()}) }()
	return d.awaitAnswer(port, c)
}

// awaitAnswer waits for the firmware's answer and returns its error.
func (d *device) awaitAnswer(port int, c verbs.CommandCall) error {
	now := d.w.clock()
	until, err := now+d.commandTime(port, c), error(nil)
	for i := range d.h.slowness {
		e := &d.h.slowness[i]
		end, active := e.active(now)
		if !active || e.call != c || e.port != 0 && e.port != port {
			continue
		}
		switch e.what {
		case hangs:
			until = end
		case slows:
			until = now + e.took
		default:
			err = e.errno
		}
	}
	if !d.w.Sleep(until, d.gate.abandoned) {
		return verbs.ErrClosed
	}
	return err
}

// awaitQueryAnswer waits for the firmware's answer to a port query if the scenario has an
// entry for it.
func (d *device) awaitQueryAnswer(port int) error {
	for i := range d.h.slowness {
		if d.h.slowness[i].call == verbs.CommandQueryPort {
			return d.awaitAnswer(port, verbs.CommandQueryPort)
		}
	}
	return nil // otherwise a query takes no time, since most scenarios do not depend on it
}

// commandTime draws the duration of a command in ns.
func (d *device) commandTime(port int, c verbs.CommandCall) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commands++
	return logNormal(d.w.random(d.h.attr.Name, port, int(d.commands), c.String()), commandMedian, 0.2)
}
