package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// unansweredRow is how many calls in a row have to end without an answer of the device
// until they count as stuck.
const unansweredRow = 3

// command holds the calls of one series of rdma_command.
type command struct {
	port int
	call verbs.CommandCall

	calls, errors uint64
	unanswered    int // calls in a row, the last one included
	refusals      int // of these, EIO of a device that has never answered the call, which may refuse it
	answeredOnce  bool
	status        string
	took          latency

	busy  int64 // how long the call under way had lasted at the last look, in ns
	stuck bool
	// reopened is when a worker opened the device again while the calls were stuck,
	// CLOCK_MONOTONIC ns; 0: a call has ended since.
	reopened int64
	stamp    stamp
}

// command returns the calls of a port, and creates them if necessary. It returns nil for a
// port that is not to be counted, and for a call that is not known.
func (d *Device) command(port int, call verbs.CommandCall) *command {
	i, ok := d.findCommand(port, call)
	if ok {
		return d.commands[i]
	}
	if d.port(port) == nil || call < verbs.CommandHWCounters || call > verbs.CommandQueryQP {
		return nil
	}
	c := &command{port: port, call: call, took: latency{window: aggregate.NewWindow(d.cfg.Window)}}
	d.commands = slices.Insert(d.commands, i, c)
	return c
}

// findCommand returns where the calls of a port are, or belong, among the device's, and
// whether they are there.
func (d *Device) findCommand(port int, call verbs.CommandCall) (int, bool) {
	order := func(c *command, _ struct{}) int { return cmp.Or(c.port-port, int(c.call)-int(call)) }
	return slices.BinarySearchFunc(d.commands, struct{}{}, order)
}

// commandEnded handles a call that has ended.
func (d *Device) commandEnded(it *verbs.Command, t *moment) {
	if !d.open {
		return // it arrives after the removal was found
	}
	c := d.command(it.Port, it.Call)
	if c == nil {
		return
	}
	d.held.note(it.Mono, it.Took)
	c.busy, c.reopened = 0, 0
	c.calls++
	c.took.interval.Add(it.Took)
	c.took.window.Add(t.mono, it.Took)
	switch {
	case it.Status == "":
		d.answered(c, t)
		return
	case verbs.Unanswered(it.Status):
		c.unanswered++
		if it.Status == "EIO" && !c.answeredOnce {
			c.refusals++
		}
	default:
		c.unanswered, c.refusals = 0, 0
	}
	c.errors++
	c.status = it.Status
	if c.unanswered >= unansweredRow && c.unanswered > c.refusals {
		d.setStuck(c, true, t)
	}
}

// unasked is how long calls stay stuck after a worker has opened the device again and made
// none: it cannot, since the counters or the probe are gone.
const unasked = int64(time.Minute)

// lookAtCommands reads in the ledger how long the calls under way have lasted.
func (d *Device) lookAtCommands(t *moment) {
	for _, c := range d.commands {
		c.busy = 0
		if c.stuck && c.reopened > 0 && t.mono-c.reopened > unasked {
			d.clearStuck(c, t)
		}
	}
	if d.led == nil || !d.open || d.cfg.CommandStuck <= 0 {
		return
	}
	control, evidence := d.led.ControlCalls()
	if control.Call == ledger.CallQueryPort || control.Call == ledger.CallReadSysfs {
		d.lookAt(control, verbs.CommandQueryPort, t)
	}
	switch evidence.Call {
	case ledger.CallReadSysfs:
		d.lookAt(evidence, verbs.CommandHWCounters, t)
	case ledger.CallQueryQP:
		d.lookAt(evidence, verbs.CommandQueryQP, t)
	}
	d.lookAtEthtool(evidence, t)
}

// lookAt handles a call under way. Port 0 is the opening of the device, for which the
// worker has a limit of its own.
func (d *Device) lookAt(lane ledger.ThreadCall, call verbs.CommandCall, t *moment) {
	lasted := t.lasted(lane.Lasted(t.mono))
	late := lasted >= int64(d.cfg.CommandStuck)
	// With a driver whose call is no command, only one that is late gets a series.
	if _, counted := d.findCommand(lane.Port, call); lane.Port == 0 || !late && !counted {
		return
	}
	if c := d.command(lane.Port, call); c != nil {
		c.busy = lasted
		if late {
			d.setStuck(c, true, t)
		}
	}
}

// lookAtEthtool logs once that a call under the kernel's RTNL lock does not end. It is no
// command of the RDMA device.
func (d *Device) lookAtEthtool(lane ledger.ThreadCall, t *moment) {
	late := lane.Call == ledger.CallEthtool && t.lasted(lane.Lasted(t.mono)) >= int64(d.cfg.CommandStuck)
	if late && !d.ethtoolLate {
		d.log.Warn(fmt.Sprintf("ethtool has not answered about port %d for %v: another process holds the kernel's RTNL lock, "+
			"or the firmware of the network device hangs; evidence.ethtool = \"off\" asks it no more", lane.Port, d.cfg.CommandStuck))
	}
	d.ethtoolLate = late
}

// answered handles an answer of the firmware.
func (d *Device) answered(c *command, t *moment) {
	if c.stuck {
		d.log.Info("the device answers again", c.attrs()...)
	}
	c.status, c.answeredOnce = measure.CommandOK, true
	d.clearStuck(c, t)
}

// clearStuck forgets why calls were stuck.
func (d *Device) clearStuck(c *command, t *moment) {
	c.busy, c.unanswered, c.refusals, c.reopened = 0, 0, 0, 0
	d.setStuck(c, false, t)
}

// setStuck emits a change at once.
func (d *Device) setStuck(c *command, stuck bool, t *moment) {
	if c.stuck == stuck {
		return
	}
	c.stuck = stuck
	if stuck {
		d.log.Warn(c.text(d.cfg.CommandStuck), c.attrs()...)
	}
	if role, known := d.tagOf(c.port); known {
		v := c.view(d.name, t, nil)
		v.Role, v.At = role, c.stamp.next(t.wall(t.mono), t.epoch)
		d.cfg.Emit(v)
	}
	d.noteStuck(c, t)
}

// text says why the calls are stuck.
func (c *command) text(limit time.Duration) string {
	if c.busy > 0 {
		return fmt.Sprintf("the device has not answered for %v", limit)
	}
	return fmt.Sprintf("%d calls in a row ended in %s", c.unanswered, c.status)
}

// attrs says in a line of the log which calls it is about.
func (c *command) attrs() []any { return []any{"call", c.call.String(), "port", c.port} }

// portAnswered handles a query of a port that was answered. With most drivers it is no
// command, and this is all that comes of it.
func (d *Device) portAnswered(port int, t *moment) {
	if i, ok := d.findCommand(port, verbs.CommandQueryPort); ok {
		d.answered(d.commands[i], t)
	}
}

// endCommands forgets the calls of a device that is gone: what is stuck now is the removal.
func (d *Device) endCommands(t *moment) {
	for _, c := range d.commands {
		d.clearStuck(c, t)
	}
}

// view returns the point of the calls. For a Gather it ends the interval.
func (c *command) view(device string, t *moment, g *gathering) *measure.Command {
	v := &measure.Command{
		Device: device, Port: c.port, Call: c.call, Calls: c.calls, Errors: c.errors, Status: c.status,
		BusyNS: c.busy, Stuck: c.stuck,
	}
	if g != nil {
		v.Took, v.At = c.took.interval.End(), c.stamp.next(g.now.UnixNano(), t.epoch)
		v.TookP = c.took.window.Percentiles(t.mono, g.tmp)
	}
	return v
}
