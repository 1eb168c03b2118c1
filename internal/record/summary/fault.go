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

// fault is something that broke, once or repeatedly.
type fault struct {
	first, last time.Time // when it broke for the first and the last time
	host        string    // host of the first time
	where       string    // the device with its port; "": the host
	device      string    // device at fault; "": the fault is of the host, another host, or an application
	what        string
	cause       cause.Cause // only if it is certain
	count       uint64
	hosts       map[string]bool // all affected hosts, for faults that are grouped over hosts; nil: only host
	isApp       bool
	recovers    bool      // records tell when the fault ends
	ended       time.Time // when the last occurrence ended; zero: it has not ended
	restarted   time.Time // when the plugin was restarted, if no record since then says whether the fault lasts; zero: one does
}

// groupKey identifies faults that share one line of the summary.
type groupKey struct {
	place
	what string
	app  timeline.App
	peer string
}

// addFault adds a fault, or counts it in an earlier fault with the same key. It returns that fault, or nil if the fault is
// outside of the window or there are too many faults.
func (s *Summary) addFault(key groupKey, f fault) *fault {
	if s.isAfter(f.first) || s.isBefore(f.first) && !f.recovers {
		return nil
	}
	have := s.groups[key]
	if have == nil || s.isBefore(have.first) && !have.ended.IsZero() {
		if !s.hasSpaceForFault() {
			s.omittedFaults++
			return nil
		}
		have = &f
		s.groups[key] = have
		s.faults = append(s.faults, have)
	} else {
		have.count += f.count
		have.ended = time.Time{}
		if f.first.Before(have.first) { // of another host, whose records are read later
			have.first, have.host, have.where = f.first, f.host, f.where
		}
	}
	if have.last.Before(f.first) {
		have.last = f.first
	}
	if have.hosts != nil {
		have.hosts[f.host] = true
	}
	return have
}

// hasSpaceForFault reports whether there is space for another fault. It rarely deletes ended faults, because that visits all
// faults.
func (s *Summary) hasSpaceForFault() bool {
	if len(s.faults) == maxFaults && s.omittedFaults%maxFaults == 0 {
		s.deleteEndedFaults()
	}
	return len(s.faults) < maxFaults
}

// deleteEndedFaults deletes the faults that ended before the window.
func (s *Summary) deleteEndedFaults() {
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

// notedAgainWithin is the longest time that a restarted plugin takes to note a fault that has lasted over the restart.
const notedAgainWithin = 10 * time.Minute

// openFault starts a fault of a place, unless the place already has an open fault. If the plugin was restarted long before, the open
// fault was another one, whose end nobody saw.
func (s *Summary) openFault(c *condition, p place, k *timeline.StoredRecord, what string) {
	if c.open != nil {
		restarted := c.open.restarted
		c.open.restarted = time.Time{}
		if restarted.IsZero() || k.Time.Sub(restarted) <= notedAgainWithin {
			return
		}
		c.endFault(restarted)
	}
	where := p.device
	if p.port > 0 {
		where = fmt.Sprintf("%s:%d", p.device, p.port)
	}
	f := fault{first: k.Time, host: k.Host, where: where, what: what, count: 1, recovers: true}
	if k.App == nil {
		f.device = p.device
	}
	c.open = s.addFault(groupKey{place: p}, f)
	c.last = c.open
}

// endFault ends the open fault of a place, if there is one.
func (c *condition) endFault(at time.Time) {
	if c.open != nil {
		c.open.ended, c.open.restarted = at, time.Time{}
		c.open = nil
	}
}

// addPort adds an event of a device or port, a change of a port's state, or the first state of a port. A port has a fault when
// it leaves the state active, or has a port_err event. If it is absent, the records of its device tell that.
func (s *Summary) addPort(k *timeline.StoredRecord) {
	if k.Event == verbs.EventDeviceFatal.String() {
		p := place{host: k.Host, device: k.Device}
		s.openFault(s.condition(p), p, k, k.Event)
		return
	}
	failed := k.Event == verbs.EventPortErr.String()
	if k.Port == 0 || k.Kind == timeline.KindEvent && !failed && k.Event != verbs.EventPortActive.String() {
		return // the state in other events may be older than the fault that port_err started
	}
	p := place{host: k.Host, device: k.Device, port: k.Port}
	c := s.condition(p)
	state := k.StateTo
	if state == verbs.PortAbsent.String() {
		return
	}
	active := verbs.PortActive.String()
	if k.Expected == expectedDown {
		c.endFault(k.Time)
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
		s.openFault(c, p, k, k.Event)
	case state == active:
		c.endFault(k.Time)
	case state == "":
	case before == active && failed:
		s.openFault(c, p, k, "went "+state+" ("+k.Event+")")
	case before == active && k.Kind == timeline.KindPort:
		s.openFault(c, p, k, "found "+state+" when recording went on")
	case before == active:
		s.openFault(c, p, k, "went "+state)
	case before == "" && k.Kind == timeline.KindPort:
		s.alreadyDown(c, p, k, state)
	}
	if c.open != nil && c.open.what == verbs.EventPortErr.String() && state != "" && state != active {
		c.open.what = "went " + state + " (" + c.open.what + ")"
	}
}

// expectedDown is the value of Record.Expected for ports of the option expected_down.
const expectedDown = "down"

// alreadyDown starts a fault that is older than the records: the port was not active in its first record.
func (s *Summary) alreadyDown(c *condition, p place, k *timeline.StoredRecord, state string) {
	s.openFault(c, p, k, state+" at the first look")
	if c.open != nil && !s.query.Since.IsZero() && s.isWithin(k.Time) {
		c.open.first = s.query.Since.Add(-1) // it did not break within the window
	}
}

// isBroken reports whether the reason why a device is not watched is a fault of the device.
func isBroken(reason status.Reason) bool {
	switch reason {
	case status.ReasonRemoved, status.ReasonStuck, status.ReasonRecovering:
		return true
	}
	return false
}

// addDevice adds a record about a device that was opened, or is not watched.
func (s *Summary) addDevice(k *timeline.StoredRecord) {
	p := place{host: k.Host, device: k.Device}
	c := s.condition(p)
	if k.Opened != nil {
		c.endFault(k.Time)
		return
	}
	switch {
	case isBroken(k.Reason):
		s.openFault(c, p, k, "device "+string(k.Reason))
	case k.Reason == status.ReasonCrashed, k.Reason == status.ReasonLimit:
		s.addGap(gap{host: k.Host, since: k.Time, until: k.Time, text: k.Device + " not watched: " + string(k.Reason)})
	}
}

// addCommand adds a record about a command that becomes stuck, or no longer is.
func (s *Summary) addCommand(k *timeline.StoredRecord) {
	p := place{host: k.Host, device: k.Device, port: k.Port, subject: k.Command.Call}
	c := s.condition(p)
	if !k.Command.Stuck {
		c.endFault(k.Time)
		return
	}
	s.openFault(c, p, k, "does not answer "+k.Command.Call)
}

// addProbe adds the lost rounds of a probe. There are records only for newly lost rounds.
func (s *Summary) addProbe(k *timeline.StoredRecord) {
	p := place{host: k.Host, device: k.Device, port: k.Port, subject: "probe"}
	s.addFault(groupKey{place: p}, fault{
		first: k.Time, host: k.Host, where: k.Where(), device: k.Device, what: "lost rounds of the completion-queue probe", count: 1,
	})
}

// evidenceFollows is the maximum time between a fault and the record of its evidence.
const evidenceFollows = 10 * time.Second

// addCause sets the cause of the fault that the evidence explains.
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

// addFabric adds a verdict on a pair or on a port of the host. It ignores verdicts that follow from the state of the host's own
// port, because the records of that port tell it.
func (s *Summary) addFabric(k *timeline.StoredRecord) {
	if k.Fabric != nil {
		p := place{host: k.Host, device: k.Device, port: k.Port, subject: "fabric"}
		c := s.condition(p)
		switch k.Fabric.Verdict {
		case verdict.VerdictOwnLink:
			s.openFault(c, p, k, "own link loses probes to other hosts")
		case verdict.VerdictOK:
			c.endFault(k.Time)
		}
		return
	}
	v := k.Peer.Verdict
	if !k.Peer.Bad && v != verdict.VerdictPeerDown && v != verdict.VerdictPeerPort {
		return
	}
	s.addFault(groupKey{what: string(v), peer: k.Peer.Host}, fault{
		first: k.Time, host: k.Host, where: fmt.Sprintf("%s:%d", k.Device, k.Port), count: 1, hosts: map[string]bool{},
		what: "verdict " + string(v) + " about " + k.Peer.Host,
	})
}

// addApp adds an error or a hang of an application.
func (s *Summary) addApp(k *timeline.StoredRecord) {
	p := place{host: k.Host, device: k.Device, subject: "hang " + k.App.Name + " " + k.App.Unit}
	if k.Hang != nil && k.Hang.Ended() {
		s.condition(p).endFault(k.Time)
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
	s.noteHeld(s.host(k.Host).maybeHeld, k.Device) // the unit used this device, and perhaps others
	app := timeline.App{Name: k.App.Name, Unit: k.App.Unit}
	if k.Hang != nil {
		s.openFault(s.condition(p), p, k, what+" of "+nameApp(&app))
		return
	}
	s.addFault(groupKey{what: what, app: app}, fault{
		first: k.Time, host: k.Host, where: k.Device, count: max(k.Count, 1), hosts: map[string]bool{}, isApp: true,
		what: what + " of " + nameApp(&app),
	})
}

// addHolder adds a record that a unit holds objects of a device, or no longer does.
func (s *Summary) addHolder(h *host, k *timeline.StoredRecord) {
	to := h.maybeHeld
	switch {
	case s.query.Unit == "":
		return
	case k.App.Unit == s.query.Unit:
		to = h.held
		s.noteHolding(h, k)
	case !k.App.IsOfUnknownUnit():
		return
	}
	s.noteHeld(to, k.Device)
}

// noteHolding follows which devices the unit of the query held at the start of the window.
func (s *Summary) noteHolding(h *host, k *timeline.StoredRecord) {
	of := k.App.Name + " " + k.Device
	switch {
	case !s.isBefore(k.Time):
	case k.Held.Gone:
		delete(h.holding, of)
	case len(h.holding) < maxHeld:
		h.holding[of] = true
	}
}

// noteHeld adds a device to the devices that the unit held, or may have held.
func (s *Summary) noteHeld(devices map[string]bool, device string) {
	if s.query.Unit != "" && len(devices) < maxHeld {
		devices[device] = true
	}
}

// mayConcernUnit reports whether a fault may concern the unit of the query: the unit held the device, or the held devices are
// not known. It does not matter when the unit held the device, because records of holders are up to a minute late.
func (s *Summary) mayConcernUnit(f *fault) bool {
	h := s.hosts[f.host]
	if s.query.Unit == "" || f.device == "" || h == nil || len(h.held) == 0 || len(h.held) == maxHeld || len(h.maybeHeld) == maxHeld {
		return true
	}
	return h.held[f.device] || h.maybeHeld[f.device]
}

// isOfUnit reports whether a record of an application belongs to the unit of the query, or the query has no unit.
func (s *Summary) isOfUnit(k *timeline.StoredRecord) bool {
	return s.query.Unit == "" || k.App.Unit == s.query.Unit
}

// countUnknownUnit counts the errors in the window whose unit is not known. They may belong to the unit of the query.
func (s *Summary) countUnknownUnit(k *timeline.StoredRecord) {
	if k.App.Unit == "" && s.isWithin(k.Time) {
		s.unknown += max(k.Count, 1)
	}
}

// isError reports whether an event is an error.
func isError(event string) bool {
	return strings.HasSuffix(event, "_err") || strings.HasSuffix(event, "_fatal")
}

func nameApp(a *timeline.App) string {
	if a.Unit == "" {
		return a.Name
	}
	return a.Name + " (" + a.Unit + ")"
}

// addStart adds the start of a run. A restart of the plugin is a gap, not a fault. A boot without an end record of the previous
// run means that the host went down.
func (s *Summary) addStart(k *timeline.StoredRecord) {
	if k.Start.LastSequence == 0 {
		return
	}
	rebooted := k.Start.LastBootID != k.BootID
	s.addGap(gap{host: k.Host, since: k.Start.LastTime, until: k.Time, rebooted: rebooted})
	if rebooted && !k.Start.Clean {
		p := place{host: k.Host, subject: "boot"}
		f := fault{first: k.Start.LastTime, last: k.Time, host: k.Host, what: "host went down without an end of the record: crash, power or a kill", count: 1}
		s.addFault(groupKey{place: p}, f)
	}
	for p, c := range s.places { // the plugin looks at devices and ports when it starts, and notes other faults only when they begin
		switch {
		case p.host != k.Host || p.subject == "" || c.open == nil:
		case rebooted:
			c.endFault(k.Time)
		default:
			c.open.restarted = k.Time
		}
	}
}
