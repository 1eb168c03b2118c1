package exchange

import (
	"time"

	"golang.org/x/time/rate"
)

// limits are what a Server takes of its peers, and of strangers.
type limits struct {
	handshakes      int           // a second, and at once
	handshakeLasts  time.Duration // until the first bytes of HTTP/2
	handshaking     int           // under way
	connections     int           // open, those of handshakes included
	idle            time.Duration // a connection without a call
	conversations   int           // of all hosts
	perHost         int           // conversations of one
	greetingLasts   time.Duration // until the caller's greeting
	offers          int           // a second and conversation, and at once
	meetings        int           // offers that are being answered, of a conversation
	messages        int           // of any kind, a second and conversation, and at once
	states          int           // requests a second and connection, and at once
	unread          int           // messages that wait for a peer that does not read
	sessions        int           // of a conversation that Ended is called with: the newest
	unreadLasts     time.Duration // until a peer has read what was said last, at the end
	pingEvery       time.Duration // when nothing else is said
	pingLasts       time.Duration // until the answer, and for any byte to be acknowledged
	concurrentCalls uint32        // of a connection
}

// ownLimits are the limits of the design: what a stranger costs is a tenth of a handshake's time, and a message has 64 KiB.
func ownLimits() limits {
	return limits{
		handshakes: 10, handshakeLasts: 2 * time.Second, handshaking: 64, connections: 2048, idle: 5 * time.Minute,
		conversations: 1024, perHost: 4, greetingLasts: 5 * time.Second,
		offers: 20, meetings: 32, messages: 200, states: 20, unread: 256, sessions: 1024, unreadLasts: time.Second,
		pingEvery: 10 * time.Second, pingLasts: 5 * time.Second, concurrentCalls: 16,
	}
}

// perSecond returns a Limiter that admits n a second, and n at once after a pause.
func perSecond(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(n), n) }

// The limits of both sides.
const (
	maxMessage = 64 << 10 // bytes; an offer with 64 GIDs has 3 KiB
	maxHeader  = 8 << 10
	window     = 64<<10 - 1 // bytes that a call may have sent and the other side not have read (RFC 9113, section 6.9.2)
)
