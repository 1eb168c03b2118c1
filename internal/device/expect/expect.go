package expect

import (
	"time"

	"rdma_events/internal/device/verbs"
)

const (
	// ActiveLong is the time for which a port must have been active without a break to be remembered.
	ActiveLong = time.Minute
	// WaitsLong is the time for which a port with a physical link may stay init or armed: a subnet manager needs time to configure it.
	WaitsLong = 2 * time.Minute
)

// Reason is the reason why a port should be up, or need not be.
type Reason string

// The reasons, in the order in which they are checked.
const (
	ReasonExpectedDown Reason = "expected_down" // need not be up: the option expected_down lists the port
	ReasonRepresentor  Reason = "representor"   // need not be up: the port is the representor of a function in the switch of the card
	ReasonConfigured   Reason = "configured"    // should be up: a section expected names its device
	ReasonReturned     Reason = "returned"      // need not be up: the device came back from another network namespace, and the port has not been active since
	ReasonRemembered   Reason = "remembered"    // should be up: the host remembers that the port was active
	ReasonLinkWaits    Reason = "link_waits"    // should be up: the port has a physical link and stays init or armed
	ReasonNeverActive  Reason = "never_active"  // need not be up: none of the other reasons applies
)

// Facts holds the facts that decide whether a port should be up.
type Facts struct {
	ExpectedDown bool // the configuration lists the port as down
	// Representor is set if the port represents a virtual or scalable function, or another host, in the switch of the card (switchdev). It
	// is active for as long as somebody uses that function, and has no cable of its own.
	Representor bool
	Configured  bool // the configuration requires the port to be up
	Remembered  bool // the host remembers that the port was active
	// Returned is set if the device has been in another network namespace, and the port has not been active since. The kernel closes a
	// network device that it moves, so that a RoCE port is down until somebody sets the network device up.
	Returned  bool
	LinkWaits bool // see Link.Waits
}

// Up reports whether the port should be up, and why.
func (f Facts) Up() (up bool, why Reason) {
	switch {
	case f.ExpectedDown:
		return false, ReasonExpectedDown
	case f.Representor:
		return false, ReasonRepresentor
	case f.Configured:
		return true, ReasonConfigured
	case f.Remembered && f.Returned:
		return false, ReasonReturned
	case f.Remembered:
		return true, ReasonRemembered
	case f.LinkWaits:
		return true, ReasonLinkWaits
	}
	return false, ReasonNeverActive
}

// Rates holds the rates that decide how fast the link of a port should be, in Gbit/s. 0 is unknown.
type Rates struct {
	Configured float64 // the least rate by configuration
	Best       float64 // the greatest rate that this host remembers of the port
	Compared   float64 // the rate of the other ports of its type
}

// Gbps returns the least rate that the active port should have, 0 if it is unknown. The configured rate takes precedence over the
// remembered rate and the rate of other ports.
func (r Rates) Gbps() float64 {
	if r.Configured > 0 {
		return r.Configured
	}
	return max(r.Best, r.Compared)
}

// Link measures how long a port has been active, or has waited to become active. The zero Link is ready to use. Times are
// CLOCK_MONOTONIC ns.
type Link struct {
	active, waits span
}

// span measures how long a state has lasted without a break.
type span struct {
	on    bool
	since int64
}

// update begins, continues or ends the span at now, and returns how long it had lasted until then.
func (s *span) update(on bool, now int64) time.Duration {
	lasted := s.duration(now)
	if on && !s.on {
		s.since = now
	}
	s.on = on
	return lasted
}

// duration returns how long the span has lasted until now, 0 if it is not on.
func (s *span) duration(now int64) time.Duration {
	if !s.on {
		return 0
	}
	return time.Duration(now - s.since)
}

// Observe records the state of the port at now, and reports whether the port has been active for ActiveLong until now. It must be
// called at each change of the state. phys may be unknown (0).
func (l *Link) Observe(state verbs.PortState, phys verbs.PhysState, now int64) (activeLong bool) {
	waits := phys == verbs.PhysLinkUp && (state == verbs.PortInit || state == verbs.PortArmed)
	l.waits.update(waits, now)
	return l.active.update(state == verbs.PortActive, now) >= ActiveLong
}

// Waits reports whether the port has had a physical link and has been init or armed for WaitsLong until now.
func (l *Link) Waits(now int64) bool { return l.waits.duration(now) >= WaitsLong }

// Restart resets both times: they begin again at the next Observe.
func (l *Link) Restart() { *l = Link{} }
