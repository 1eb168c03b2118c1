package monitor

import (
	"cmp"
	"slices"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// unansweredLimit is the number of calls in a row that must end without an answer of the
// device before the series counts as stuck.
const unansweredLimit = 3

// command holds the counts and durations of one series of rdma_command: the calls of one kind for one port.
type command struct {
	port int
	call verbs.CommandCall

	calls, errors uint64
	unanswered    int // the calls in a row, up to the last one, that the device did not answer
	refusals      int // those among them that ended in EIO before the device had ever answered: it may refuse the call
	answeredOnce  bool
	status        string
	durations     durationStats

	busy  int64 // duration of the call under way at the last check, ns
	stuck bool
	// reopened is when a worker opened the device again while the calls were stuck,
	// CLOCK_MONOTONIC ns; 0: a call has ended since.
	reopened int64
	stamp    stamp
}

// ensureCommand returns the series of a call and port, and creates it if necessary. It returns
// nil for a port that is not counted and for an unknown call.
func (d *Device) ensureCommand(port int, call verbs.CommandCall) *command {
	i, ok := d.findCommand(port, call)
	if ok {
		return d.commands[i]
	}
	if d.ensurePort(port) == nil || call < verbs.CommandHWCounters || call > verbs.CommandQueryQP {
		return nil
	}
	c := &command{port: port, call: call, durations: durationStats{window: aggregate.NewWindow(d.cfg.Window)}}
	d.commands = slices.Insert(d.commands, i, c)
	return c
}

// findCommand returns the index in d.commands at which the series of a call and port is or
// belongs, and whether it exists.
func (d *Device) findCommand(port int, call verbs.CommandCall) (int, bool) {
	order := func(c *command, _ struct{}) int { return cmp.Or(c.port-port, int(c.call)-int(call)) }
	return slices.BinarySearchFunc(d.commands, struct{}{}, order)
}

// handleCommand handles a call that has ended.
func (d *Device) handleCommand(it *verbs.Command, t *moment) {
	if !d.open {
		return // the item arrived after the removal
	}
	c := d.ensureCommand(it.Port, it.Call)
	if c == nil {
		return
	}
	d.stall.recordCall(it.Mono, it.Took)
	c.busy, c.reopened = 0, 0
	c.calls++
	c.durations.interval.Add(it.Took)
	c.durations.window.Add(t.mono, it.Took)
	switch {
	case it.Status == "":
		d.handleAnswer(c, t)
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
	if c.unanswered >= unansweredLimit && c.unanswered > c.refusals {
		d.setStuck(c, true, t)
	}
}

// stuckAfterReopen is the time for which a series stays stuck if a worker has reopened the device and makes
// no such call. The worker cannot make any if the counters or the probe are gone.
const stuckAfterReopen = int64(time.Minute)

// checkRunningCalls reads from the ledger how long the calls under way have lasted, and marks late ones as stuck.
func (d *Device) checkRunningCalls(t *moment) {
	for _, c := range d.commands {
		c.busy = 0
		if c.stuck && c.reopened > 0 && t.mono-c.reopened > stuckAfterReopen {
			d.clearStuck(c, t)
		}
	}
	if d.ledger == nil || !d.open || d.cfg.CommandStuck <= 0 {
		return
	}
	control, evidence := d.ledger.ControlCalls()
	if control.Call == ledger.CallQueryPort || control.Call == ledger.CallReadSysfs {
		d.checkCall(control, verbs.CommandQueryPort, t)
	}
	switch evidence.Call {
	case ledger.CallReadSysfs:
		d.checkCall(evidence, verbs.CommandHWCounters, t)
	case ledger.CallQueryQP:
		d.checkCall(evidence, verbs.CommandQueryQP, t)
	}
	d.checkEthtool(evidence, t)
}

// checkCall updates the series of a call under way. It ignores port 0, which stands for the
// opening of the device: the worker limits its duration itself.
func (d *Device) checkCall(running ledger.ThreadCall, call verbs.CommandCall, t *moment) {
	lasted := t.withoutPause(running.Lasted(t.mono))
	late := lasted >= int64(d.cfg.CommandStuck)
	// With a driver that answers the call without a command, only a late call gets a series.
	if _, counted := d.findCommand(running.Port, call); running.Port == 0 || !late && !counted {
		return
	}
	if c := d.ensureCommand(running.Port, call); c != nil {
		c.busy = lasted
		if late {
			d.setStuck(c, true, t)
		}
	}
}

// checkEthtool logs once that a call under the kernel's RTNL lock does not end. Such a call is
// no command of the RDMA device.
func (d *Device) checkEthtool(running ledger.ThreadCall, t *moment) {
	late := running.Call == ledger.CallEthtool && t.withoutPause(running.Lasted(t.mono)) >= int64(d.cfg.CommandStuck)
	if late && !d.ethtoolLate {
		d.log.Warn("ethtool not responding", "port", running.Port, "for", d.cfg.CommandStuck.String(),
			"hint", "another process holds the kernel's RTNL lock, or the firmware of the network device hangs; "+
				"evidence.ethtool = \"off\" stops these queries")
	}
	d.ethtoolLate = late
}

// handleAnswer handles an answer of the firmware.
func (d *Device) handleAnswer(c *command, t *moment) {
	if c.stuck {
		d.log.Info("device responding again", c.logAttrs()...)
	}
	c.status, c.answeredOnce = measure.CommandOK, true
	d.clearStuck(c, t)
}

// clearStuck makes the series no longer stuck, and resets the counts that decide it.
func (d *Device) clearStuck(c *command, t *moment) {
	c.busy, c.unanswered, c.refusals, c.reopened = 0, 0, 0, 0
	d.setStuck(c, false, t)
}

// setStuck sets whether the series is stuck. It logs the beginning and emits each change at once.
func (d *Device) setStuck(c *command, stuck bool, t *moment) {
	if c.stuck == stuck {
		return
	}
	c.stuck = stuck
	if stuck {
		d.log.Warn("device not responding", append(c.logAttrs(), c.stuckAttrs(d.cfg.CommandStuck)...)...)
	}
	if role, known := d.roleTag(c.port); known {
		v := c.makePoint(d.name, t, nil)
		v.Role, v.At = role, c.stamp.next(t.wall(t.mono), t.epoch)
		d.cfg.Emit(v)
	}
	d.recordStuckCommand(c, t)
}

// stuckAttrs returns attributes of a log line that tell why the calls are stuck.
func (c *command) stuckAttrs(limit time.Duration) []any {
	if c.busy > 0 {
		return []any{"for", limit.String()}
	}
	return []any{"failed_calls", c.unanswered, "status", c.status}
}

// logAttrs returns attributes of a log line that name the calls.
func (c *command) logAttrs() []any { return []any{"call", c.call.String(), "port", c.port} }

// handlePortAnswer handles an answered query of a port. With most drivers the query is no
// command, so that no verbs.Command reports its end.
func (d *Device) handlePortAnswer(port int, t *moment) {
	if i, ok := d.findCommand(port, verbs.CommandQueryPort); ok {
		d.handleAnswer(d.commands[i], t)
	}
}

// clearCommands clears the stuck series of a device that is gone or closed: from now on a call that hangs delays only the removal.
func (d *Device) clearCommands(t *moment) {
	for _, c := range d.commands {
		d.clearStuck(c, t)
	}
}

// makePoint returns the point of the series. With g set it also ends the interval.
func (c *command) makePoint(device string, t *moment, g *gathering) *measure.Command {
	v := &measure.Command{
		Device: device, Port: c.port, Call: c.call, Calls: c.calls, Errors: c.errors, Status: c.status,
		BusyNS: c.busy, Stuck: c.stuck,
	}
	if g != nil {
		v.Took, v.At = c.durations.interval.End(), c.stamp.next(g.now.UnixNano(), t.epoch)
		v.TookP = c.durations.window.Percentiles(t.mono, g.tmp)
	}
	return v
}
