package expect

import (
	"time"

	"rdma_events/internal/device/verbs"
)

const (
	// ActiveLong is how long a port must have been active without a break to be remembered.
	ActiveLong = time.Minute
	// WaitsLong is how long a port with a physical link may stay init or armed: a subnet manager needs time to configure it.
	WaitsLong = 2 * time.Minute
)

// Reason says why a port should be up, or need not be.
type Reason string

// The reasons, the decisive one first.
const (
	ReasonExpectedDown Reason = "expected_down" // need not: the option expected_down lists the port
	ReasonConfigured   Reason = "configured"    // should: a section expected names its device
	ReasonReturned     Reason = "returned"      // need not: it came back from another network namespace, and was not active since
	ReasonRemembered   Reason = "remembered"    // should: the host remembers that it was active
	ReasonLinkWaits    Reason = "link_waits"    // should: it has a physical link and stays init or armed
	ReasonNeverActive  Reason = "never_active"  // need not: nothing says that it should
)

// Facts are what decides whether a port should be up.
type Facts struct {
	ExpectedDown bool // by configuration
	Configured   bool // by configuration
	Remembered   bool
	// Returned: the device has been in another network namespace, and the port has not been active since. The kernel closes a network
	// device that it moves, so that a RoCE port is down until somebody wants it up.
	Returned  bool
	LinkWaits bool
}

// Up reports whether the port should be up, and why.
func (f Facts) Up() (up bool, why Reason) {
	switch {
	case f.ExpectedDown:
		return false, ReasonExpectedDown
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

// Rates are what decides how fast the link of a port should be, in Gbit/s. 0 is unknown.
type Rates struct {
	Configured float64 // the least rate by configuration
	Best       float64 // the greatest that this host remembers of the port
	Compared   float64 // that of the other ports of its type
}

// Gbps returns the rate that the active port should have at least, 0 if nothing says so. What the configuration says counts before
// what is remembered and what other ports have.
func (r Rates) Gbps() float64 {
	if r.Configured > 0 {
		return r.Configured
	}
	return max(r.Best, r.Compared)
}

// Link follows how long a port has been active, or has waited to become active. The zero Link knows nothing. Times are
// CLOCK_MONOTONIC ns.
type Link struct {
	active, waits span
}

// span is a time that a state has lasted without a break.
type span struct {
	on    bool
	since int64
}

// set begins or ends the span at now, and returns how long it had lasted by then.
func (s *span) set(on bool, now int64) time.Duration {
	lasted := s.lasted(now)
	if on && !s.on {
		s.since = now
	}
	s.on = on
	return lasted
}

func (s *span) lasted(now int64) time.Duration {
	if !s.on {
		return 0
	}
	return time.Duration(now - s.since)
}

// Observe notes the state of the port at now, and reports whether the port has been active for ActiveLong until now. It has to be
// called at each change of the state, and the physical state may be unknown (0).
func (l *Link) Observe(state verbs.PortState, phys verbs.PhysState, now int64) (activeLong bool) {
	waits := phys == verbs.PhysLinkUp && (state == verbs.PortInit || state == verbs.PortArmed)
	l.waits.set(waits, now)
	return l.active.set(state == verbs.PortActive, now) >= ActiveLong
}

// Waits reports whether the port has had a physical link and has been init or armed for WaitsLong until now.
func (l *Link) Waits(now int64) bool { return l.waits.lasted(now) >= WaitsLong }

// Restart forgets how long the port has been active or has waited: both begin again at the next Observe.
func (l *Link) Restart() { *l = Link{} }
