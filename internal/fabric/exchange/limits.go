package exchange

import (
	"time"

	"golang.org/x/time/rate"
)

// limits bounds the resources that peers and strangers can use in a Server. Rates have a burst of the same number.
type limits struct {
	handshakes           int           // handshakes per second
	handshakeTimeout     time.Duration // until the first bytes of HTTP/2
	concurrentHandshakes int           // concurrent handshakes
	connections          int           // open connections, including those with a handshake under way
	idle                 time.Duration // after which a connection without a call is closed
	conversations        int           // conversations of all hosts
	perHost              int           // conversations of one host
	greetingTimeout      time.Duration // until the caller's greeting
	offers               int           // offers per second and conversation
	concurrentOffers     int           // concurrently answered offers of a conversation
	messages             int           // messages of any kind per second and conversation
	states               int           // State requests per second and connection
	queuedReplies        int           // queued messages for a peer that does not read
	sessions             int           // sessions passed to HandleConversationEnd: the newest ones of the conversation
	flushTimeout         time.Duration // at the end, until the peer has read the queued messages
	pingEvery            time.Duration // of inactivity before a ping
	pingTimeout          time.Duration // until a ping is answered, and until sent bytes are acknowledged
	concurrentCalls      uint32        // of a connection
}

// defaultLimits returns the limits in use. Strangers can start ten handshakes per second, and a message has at most 64 KiB.
func defaultLimits() limits {
	return limits{
		handshakes: 10, handshakeTimeout: 2 * time.Second, concurrentHandshakes: 64, connections: 2048, idle: 5 * time.Minute,
		conversations: 1024, perHost: 4, greetingTimeout: 5 * time.Second,
		offers: 20, concurrentOffers: 32, messages: 200, states: 20, queuedReplies: 256, sessions: 1024, flushTimeout: time.Second,
		pingEvery: 10 * time.Second, pingTimeout: 5 * time.Second, concurrentCalls: 16,
	}
}

// perSecond returns a Limiter that allows n events per second with a burst of n.
func perSecond(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(n), n) }

// The limits of both sides.
const (
	maxMessage = 64 << 10 // bytes; an offer with 64 GIDs has 3 KiB
	maxHeader  = 8 << 10
	window     = 64<<10 - 1 // bytes of a call that may be sent before the other side has read them (RFC 9113, section 6.9.2)
)
