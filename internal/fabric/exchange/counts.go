package exchange

import "sync/atomic"

// Counts has the counts of a Server or a TCP since its creation.
type Counts struct {
	Accepted  uint64 // connections on which a handshake began
	Refused   uint64 // connections closed before a handshake because of the limits
	Strangers uint64 // failed handshakes: another key, no certificate, no TLS, too slow
	Conversed uint64 // conversations in which both sides have greeted
	Unmet     uint64 // refused calls: not in the list, another name, no common version, too many conversations
	Dropped   uint64 // conversations ended because the peer did not read
	Malformed uint64 // messages with an impossible number or name
	Unknown   uint64 // messages of an unknown kind or with unknown fields
}

// counters are Counts that may be changed and read concurrently.
type counters struct {
	accepted, refused, strangers, conversed, unmet, dropped, malformed, unknown atomic.Uint64
}

func (c *counters) load() Counts {
	return Counts{
		Accepted: c.accepted.Load(), Refused: c.refused.Load(), Strangers: c.strangers.Load(), Conversed: c.conversed.Load(),
		Unmet: c.unmet.Load(), Dropped: c.dropped.Load(), Malformed: c.malformed.Load(), Unknown: c.unknown.Load(),
	}
}
