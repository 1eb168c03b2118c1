package pairs

import (
	"context"
	"log/slog"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/telemetry/measure"
)

// Orders has the worker of a device carry out an order about a port. It may be called concurrently, and blocks as long as the
// device's firmware or the kernel's search for an address does. The errors are those of verbs.Fabric; it returns
// verbs.ErrNoFabric for an order that came too late.
type Orders interface {
	Order(ctx context.Context, o verbs.FabricOrder) (rc uint32, err error)
}

// Config is what a Keeper needs. All is set.
type Config struct {
	Host     string        // the own name in the list
	Peers    int           // that a port probes, at most MaxPeers
	Probe    bool          // false: the host only answers
	Interval time.Duration // between two rounds of a pair
	Window   time.Duration // that percentiles cover
	Network  exchange.Network
	// Orders returns what reaches the worker of a device.
	Orders func(device string) Orders
	// Mono reads CLOCK_MONOTONIC, in ns. It is called concurrently.
	Mono func() int64
	// Random returns random bits, which no other host can guess: sessions and sequence numbers. It is called concurrently.
	Random func() uint64
	// Announce sends other hosts word of a port that is not what it was. It must not block.
	Announce func(exchange.Change)
	// Emit takes each point that says that something has changed. It must not block, nor call the Keeper.
	Emit func(measure.Point)
	Log  *slog.Logger
}

// The places of pairs in a Fabric: those that probe, and behind them those that answer.
const (
	MaxPeers   = 32
	maxAnswers = verbs.MaxFabricPairs - MaxPeers
)

// The times of the Keeper.
const (
	converseTimeout = 5 * time.Second
	offerTimeout    = 5 * time.Second
	orderTimeout    = 15 * time.Second       // the kernel gives up a search for an address before
	stateTimeout    = 500 * time.Millisecond // the third witness
	stateOften      = 100 * time.Millisecond // between two questions, for stateOftenFor
	stateOftenFor   = 2 * time.Second
	stateAfter      = 200 * time.Millisecond // that an answer comes after the first silence, to count: a process learns of its worker's end late
	stateSeldom     = time.Second
	// stateSlowTimeout is the timeout of the questions that are asked seldom: a management network may take seconds for a round trip.
	stateSlowTimeout = 3 * time.Second
	firstRetry       = time.Second
	lastRetry        = time.Minute
	orphanFor        = 10 * time.Minute // that an answering pair is kept whose host has hung up and sends no probe
	olderKeepsFor    = 9 * time.Minute  // that a host of an older release is sure to keep a pair after a lost conversation: it ends it after ten
	strangeFor       = time.Minute      // that an answering pair is kept whose host the list lacks
	leftOverAfter    = 2 * time.Minute  // the same, if its place is needed; longer than the host takes to read the ledger again
	unsentFor        = 5 * time.Second  // that a device may refuse all probes of a pair before the pair is made again
	meetsPerSecond   = 4                // of the whole host, so that a leaf that restarts is not met by all at once
)

// listed is a list and what the host finds in it.
type listed struct {
	*pinglist.List
	own   pinglist.Host
	ok    bool // the list has the host
	pings []pinglist.Peer
}

// findIn returns a list with the place of this host in it, and whom it pings.
func (c *Config) findIn(l *pinglist.List) listed {
	own, ok := l.Host(c.Host)
	out := listed{List: l, own: own, ok: ok}
	if ok && c.Probe {
		out.pings = l.Pings(c.Host, c.Peers)
	}
	return out
}
