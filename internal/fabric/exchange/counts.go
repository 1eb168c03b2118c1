package exchange

import "sync/atomic"

// Counts are what a Server or a Network has counted since it was made.
type Counts struct {
	Accepted  uint64 // connections that a handshake began on
	Refused   uint64 // connections that were closed before a handshake, for the limits
	Strangers uint64 // handshakes that failed: another key, no certificate, no TLS, too slow
	Conversed uint64 // conversations that were greeted
	Unmet     uint64 // calls that were refused: not in the list, another name, no version in common, too many conversations
	Dropped   uint64 // conversations that were ended since the peer did not read
	Malformed uint64 // messages in which a number or a name cannot be
	Unknown   uint64 // messages that this version does not know, or that have fields that it does not know
}

// counters are Counts that may be counted and read concurrently.
type counters struct {
	accepted, refused, strangers, conversed, unmet, dropped, malformed, unknown atomic.Uint64
}

func (c *counters) counts() Counts {
	return Counts{
		Accepted: c.accepted.Load(), Refused: c.refused.Load(), Strangers: c.strangers.Load(), Conversed: c.conversed.Load(),
		Unmet: c.unmet.Load(), Dropped: c.dropped.Load(), Malformed: c.malformed.Load(), Unknown: c.unknown.Load(),
	}
}
