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

// Orders sends orders about ports to the worker of a device. Order may be called concurrently. It blocks until the worker has carried out the
// order, which takes as long as the device's firmware or the kernel's address resolution does. It returns the errors of verbs.FabricEndpoint, and
// verbs.ErrNoFabric if the Fabric of the order no longer exists.
type Orders interface {
	Order(ctx context.Context, o verbs.FabricOrder) (rc uint32, err error)
}

// Config is the configuration of a Keeper. All fields are required.
type Config struct {
	Host     string        // this host's name in the list
	Peers    int           // number of hosts that a port probes, at most MaxPeers
	Probe    bool          // false: the host answers probes and sends none
	Interval time.Duration // between two rounds of a pair
	Window   time.Duration // covered by percentiles
	Network  exchange.Network
	// Orders returns the connection to the worker of a device.
	Orders func(device string) Orders
	// Mono reads CLOCK_MONOTONIC, in ns. It is called concurrently.
	Mono func() int64
	// Random returns random bits that no other host can guess. The Keeper uses them for sessions and packet sequence numbers. It is called
	// concurrently.
	Random func() uint64
	// Announce tells other hosts that a port has changed. It must not block.
	Announce func(exchange.Change)
	// Emit receives a point for each change of a verdict or reason. It must not block and must not call the Keeper.
	Emit func(measure.Point)
	Log  *slog.Logger
}

// A Fabric has slots for pairs. The first MaxPeers slots are for pairs that probe, the others for pairs that answer.
const (
	MaxPeers      = 32
	maxResponders = verbs.MaxFabricPairs - MaxPeers
)

// The times of the Keeper.
const (
	converseTimeout       = 5 * time.Second
	offerTimeout          = 5 * time.Second
	orderTimeout          = 15 * time.Second       // the kernel gives up resolving an address earlier
	stateTimeout          = 500 * time.Millisecond // of a State request while requests are frequent
	statePollInterval     = 100 * time.Millisecond // between two State requests, during stateOftenFor
	statePollFastFor      = 2 * time.Second        // from the beginning of the silence
	stateAnswerDelay      = 200 * time.Millisecond // from the first silent probe to an answer that counts: a process notices the end of its worker late
	statePollSlowInterval = time.Second            // between two State requests after stateOftenFor
	// stateSlowTimeout is the timeout of State requests after stateOftenFor: a round trip in a management network may take seconds.
	stateSlowTimeout  = 3 * time.Second
	firstRetry        = time.Second
	lastRetry         = time.Minute
	orphanTimeout     = 10 * time.Minute // an answering pair ends if its host has no conversation and sends no probe for so long
	olderPeerKeepsFor = 9 * time.Minute  // a host that runs an older release keeps a pair so long after losing a conversation; it ends it after ten minutes
	unlistedTimeout   = time.Minute      // an answering pair ends if its host is missing from the list for so long
	reclaimAfter      = 2 * time.Minute  // an orphan silent for so long loses its slot if another pair needs it; longer than the ledger's reading interval
	unsentTimeout     = 5 * time.Second  // a pair is reconnected if its device refuses all probes for so long
	connectsPerSecond = 4                // limit of the whole host, so that hosts do not all connect to a restarting leaf at once
)

// resolvedList is a list with the data derived from it for this host.
type resolvedList struct {
	*pinglist.List
	own   pinglist.Host
	ok    bool            // the list contains this host
	pings []pinglist.Peer // hosts that this host probes
}

// resolveList looks up this host in a list and determines which hosts it probes.
func (c *Config) resolveList(l *pinglist.List) resolvedList {
	own, ok := l.Host(c.Host)
	out := resolvedList{List: l, own: own, ok: ok}
	if ok && c.Probe {
		out.pings = l.Pings(c.Host, c.Peers)
	}
	return out
}
