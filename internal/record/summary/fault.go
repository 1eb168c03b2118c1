package summary

import (
	"fmt"
	"strings"
	"time"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/sys/status"
)

// fault is something that broke, once or several times.
type fault struct {
	at, last time.Time // when it broke first and last
	host     string    // of the first one
	where    string    // the device with its port; "": the host
	device   string    // that is at fault; "": the host, another host, or an application
	what     string
	cause    cause.Cause // only where it is certain
	count    uint64
	hosts    map[string]bool // all that it happened on, of faults that are grouped over hosts; nil: host alone
	isApp    bool
	recovers bool      // records say when it is over
	ended    time.Time // of the last one; zero: it is not over
}

// groupKey identifies faults that are told in one line.
type groupKey struct {
	place
	what string
	app  timeline.App
	peer string
}

// addFault counts a fault, which joins those before it of the same key. It returns nil if it does not count.
func (s *Summary) addFault(key groupKey, f fault) *fault {
	if s.isAfter(f.at) || s.isBefore(f.at) && !f.recovers {
		return nil
	}
	have := s.groups[key]
	if have == nil || s.isBefore(have.at) && !have.ended.IsZero() {
		if !s.hasRoom() {
			s.left++
			return nil
		}
		have = &f
		s.groups[key] = have
		s.faults = append(s.faults, have)
	} else {
		have.count += f.count
		have.ended = time.Time{}
		if f.at.Before(have.at) { // of another host, whose records came later
			have.at, have.host, have.where = f.at, f.host, f.where
		}
	}
	if have.last.Before(f.at) {
		have.last = f.at
	}
	if have.hosts != nil {
		have.hosts[f.host] = true
	}
	return have
}

// hasRoom reports whether another fault can be kept. It drops what is over only sometimes, since that reads all.
func (s *Summary) hasRoom() bool {
	if len(s.faults) == maxFaults && s.left%maxFaults == 0 {
		s.forgetEnded()
	}
	return len(s.faults) < maxFaults
}

// forgetEnded drops the faults that were over before the window.
func (s *Summary) forgetEnded() {
	kept := s.faults[:0]
	for _, f := range s.faults {
		if f.ended.IsZero() || !s.isBefore(f.ended) {
			kept = append(kept, f)
		}
	}
	clear(s.faults[len(kept):])
	s.faults = kept
	for key, f := range s.groups {
		if !f.ended.IsZero() && s.isBefore(f.ended) {
			delete(s.groups, key)
		}
	}
}

// open begins a fault of a place, unless it is broken already.
func (s *Summary) open(c *condition, p place, k *timeline.StoredRecord, what string) {
	if c.open != nil {
		return
	}
	where := p.device
	if p.port > 0 {
		where = fmt.Sprintf("%s:%d", p.device, p.port)
	}
	f := fault{at: k.Time, host: k.Host, where: where, what: what, count: 1, recovers: true}
	if k.App == nil {
		f.device = p.device
	}
	c.open = s.addFault(groupKey{place: p}, f)
	c.last = c.open
}

// end ends the fault of a place.
func (c *condition) end(at time.Time) {
	if c.open != nil {
		c.open.ended = at
		c.open = nil
	}
}

// addPort takes an event of a device or port, a change of a port's state, or the first look at a port. A port breaks when it
// leaves the state active, or has a port_err. That it is absent is told by its device.
func (s *Summary) addPort(k *timeline.StoredRecord) {
	if k.Event == verbs.EventDeviceFatal.String() {
		p := place{host: k.Host, device: k.Device}
		s.open(s.condition(p), p, k, k.Event)
		return
	}
	failed := k.Event == verbs.EventPortErr.String()
	if k.Port == 0 || k.Kind == timeline.KindEvent && !failed && k.Event != verbs.EventPortActive.String() {
		return // the state that other events have may be older than what port_err has begun
	}
	p := place{host: k.Host, device: k.Device, port: k.Port}
	c := s.condition(p)
	state := k.StateTo
	if state == verbs.PortAbsent.String() {
		return
	}
	active := verbs.PortActive.String()
	if k.Expected == expectedDown {
		c.end(k.Time)
		c.state = state
		return
	}
	before := c.state
	if before == "" && k.StateFrom != "" {
		before = k.StateFrom
	}
	if state != "" {
		c.state = state
	}
	switch {
	case failed && (state == active || state == ""):
		s.open(c, p, k, k.Event)
	case state == active:
		c.end(k.Time)
	case state == "":
	case before == active && failed:
		s.open(c, p, k, "went "+state+" ("+k.Event+")")
	case before == active && k.Kind == timeline.KindPort:
		s.open(c, p, k, "found "+state+" when recording went on")
	case before == active:
		s.open(c, p, k, "went "+state)
	case before == "" && k.Kind == timeline.KindPort:
		s.alreadyDown(c, p, k, state)
	}
	if c.open != nil && c.open.what == verbs.EventPortErr.String() && state != "" && state != active {
		c.open.what = "went " + state + " (" + c.open.what + ")"
	}
}

// expectedDown is the value of Record.Expected for a port of expected_down.
const expectedDown = "down"

// alreadyDown begins a fault that is older than the record: a port that was not active at the first look.
func (s *Summary) alreadyDown(c *condition, p place, k *timeline.StoredRecord, state string) {
	s.open(c, p, k, state+" at the first look")
	if c.open != nil && !s.query.Since.IsZero() && s.isWithin(k.Time) {
		c.open.at = s.query.Since.Add(-1) // it did not break in the window
	}
}

// isBroken lists the reasons for which a device is not watched that are faults of the device.
func isBroken(reason status.Reason) bool {
	switch reason {
	case status.ReasonRemoved, status.ReasonStuck, status.ReasonRecovering:
		return true
	}
	return false
}

func (s *Summary) addDevice(k *timeline.StoredRecord) {
	p := place{host: k.Host, device: k.Device}
	c := s.condition(p)
	if k.Opened != nil {
		c.end(k.Time)
		return
	}
	switch {
	case isBroken(k.Reason):
		s.open(c, p, k, "device "+string(k.Reason))
	case k.Reason == status.ReasonCrashed, k.Reason == status.ReasonLimit:
		s.addGap(gap{host: k.Host, since: k.Time, until: k.Time, text: k.Device + " not watched: " + string(k.Reason)})
	}
}

func (s *Summary) addCommand(k *timeline.StoredRecord) {
	p := place{host: k.Host, device: k.Device, port: k.Port, of: k.Command.Call}
	c := s.condition(p)
	if !k.Command.Stuck {
		c.end(k.Time)
		return
	}
	s.open(c, p, k, "does not answer "+k.Command.Call)
}

// addProbe takes the rounds that a probe has lost: a record is there only if there are new ones.
func (s *Summary) addProbe(k *timeline.StoredRecord) {
	p := place{host: k.Host, device: k.Device, port: k.Port, of: "probe"}
	s.addFault(groupKey{place: p}, fault{
		at: k.Time, host: k.Host, where: k.Where(), device: k.Device, what: "lost rounds of the completion-queue probe", count: 1,
	})
}

// evidenceFollows is how long after a fault its evidence is recorded at most.
const evidenceFollows = 10 * time.Second

// addCause gives the fault that evidence explains its cause.
func (s *Summary) addCause(k *timeline.StoredRecord) {
	if k.Evidence.Cause == "" {
		return
	}
	for _, port := range []int{k.Port, 0} {
		c := s.places[place{host: k.Host, device: k.Device, port: port}]
		if c != nil && c.last != nil && c.last.cause == "" && k.Time.Sub(c.last.last).Abs() <= evidenceFollows {
			c.last.cause = k.Evidence.Cause
			return
		}
	}
}

// addFabric takes a verdict about a pair or about the own port. What follows from the own port's state is left to that.
func (s *Summary) addFabric(k *timeline.StoredRecord) {
	if k.Fabric != nil {
		p := place{host: k.Host, device: k.Device, port: k.Port, of: "fabric"}
		c := s.condition(p)
		switch k.Fabric.Verdict {
		case verdict.VerdictOwnLink:
			s.open(c, p, k, "own link loses probes to other hosts")
		case verdict.VerdictOK:
			c.end(k.Time)
		}
		return
	}
	v := k.Peer.Verdict
	if !k.Peer.Bad && v != verdict.VerdictPeerDown && v != verdict.VerdictPeerPort {
		return
	}
	s.addFault(groupKey{what: string(v), peer: k.Peer.Host}, fault{
		at: k.Time, host: k.Host, where: fmt.Sprintf("%s:%d", k.Device, k.Port), count: 1, hosts: map[string]bool{},
		what: "verdict " + string(v) + " about " + k.Peer.Host,
	})
}

// addApp takes an error of an application.
func (s *Summary) addApp(k *timeline.StoredRecord) {
	p := place{host: k.Host, device: k.Device, of: "hang " + k.App.Name + " " + k.App.Unit}
	if k.Hang != nil && k.Hang.Ended() {
		s.condition(p).end(k.Time)
		return
	}
	what := ""
	switch {
	case k.Kind == timeline.KindAppEvent && isError(k.Event):
		what = k.Event
	case k.Unread != nil && !k.Unread.Ended():
		what = "unread errors"
	case k.Hang != nil:
		what = "hangs in destroy of " + k.App.Object
	default:
		return
	}
	if !s.isOfUnit(k) {
		s.countUnknownUnit(k)
		return
	}
	s.noteHeld(s.host(k.Host).unclear, k.Device) // it used this device, and perhaps others
	app := timeline.App{Name: k.App.Name, Unit: k.App.Unit}
	if k.Hang != nil {
		s.open(s.condition(p), p, k, what+" of "+nameApp(&app))
		return
	}
	s.addFault(groupKey{what: what, app: app}, fault{
		at: k.Time, host: k.Host, where: k.Device, count: max(k.Count, 1), hosts: map[string]bool{}, isApp: true,
		what: what + " of " + nameApp(&app),
	})
}

// addHolder takes a unit that holds objects of a device, or has ended to.
func (s *Summary) addHolder(h *host, k *timeline.StoredRecord) {
	to := h.unclear
	switch {
	case s.query.Unit == "":
		return
	case k.App.Unit == s.query.Unit:
		to = h.held
	case !k.App.IsOfUnknownUnit():
		return
	}
	s.noteHeld(to, k.Device)
}

// noteHeld adds a device to those of a host that the unit held, or may have held.
func (s *Summary) noteHeld(devices map[string]bool, device string) {
	if s.query.Unit != "" && len(devices) < maxHeld {
		devices[device] = true
	}
}

// mayConcernUnit reports whether a fault may concern the unit that was asked for: its device was held by it, or it is not known which
// devices were. A unit counts for all the time that the records cover, since a record of who holds what is up to a minute late.
func (s *Summary) mayConcernUnit(f *fault) bool {
	h := s.hosts[f.host]
	if s.query.Unit == "" || f.device == "" || h == nil || len(h.held) == 0 || len(h.held) == maxHeld || len(h.unclear) == maxHeld {
		return true
	}
	return h.held[f.device] || h.unclear[f.device]
}

// isOfUnit reports whether an application's record is of the unit that was asked for, if one was.
func (s *Summary) isOfUnit(k *timeline.StoredRecord) bool {
	return s.query.Unit == "" || k.App.Unit == s.query.Unit
}

// countUnknownUnit counts the errors in the window whose unit is not known: they may be of the unit that was asked for.
func (s *Summary) countUnknownUnit(k *timeline.StoredRecord) {
	if k.App.Unit == "" && s.isWithin(k.Time) {
		s.unknown += max(k.Count, 1)
	}
}

// isError reports whether an event tells of an error.
func isError(event string) bool {
	return strings.HasSuffix(event, "_err") || strings.HasSuffix(event, "_fatal")
}

func nameApp(a *timeline.App) string {
	if a.Unit == "" {
		return a.Name
	}
	return a.Name + " (" + a.Unit + ")"
}

// addStart takes the beginning of a run. A restart of the plugin is a gap and no fault; a boot without an end of the run before it
// is a host that went down.
func (s *Summary) addStart(k *timeline.StoredRecord) {
	if k.Start.LastSequence == 0 {
		return
	}
	rebooted := k.Start.LastBootID != k.BootID
	s.addGap(gap{host: k.Host, since: k.Start.LastTime, until: k.Time, rebooted: rebooted})
	if rebooted && !k.Start.Clean {
		p := place{host: k.Host, of: "boot"}
		f := fault{at: k.Start.LastTime, last: k.Time, host: k.Host, what: "host went down without an end of the record: crash, power or a kill", count: 1}
		s.addFault(groupKey{place: p}, f)
	}
	if rebooted {
		for p, c := range s.places { // nothing of the boot before hangs on
			if p.host == k.Host && p.of != "" {
				c.end(k.Time)
			}
		}
	}
}
