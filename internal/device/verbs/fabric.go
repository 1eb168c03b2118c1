package verbs

import "time"

// FabricOptions describes the probes between this device's ports and those of other hosts.
type FabricOptions struct {
	Paths        int           // UD queue pairs of each port, 1 to MaxFabricPaths; 0: no probes, and nothing is made for them
	Interval     time.Duration // between two rounds of a pair
	GIDIndex     int           // that packets are sent from; -1: one that fits the peer's
	PKeyIndex    int           // -1: the first P_Key with full membership
	TrafficClass int           // of the GRH, which on RoCE is the IP header's
	ServiceLevel int
}

// The bounds of a Fabric. The native backend has the same numbers in native.h.
const (
	MaxFabricPaths = 4
	MaxFabricPairs = 64 // of a port

	MinFabricFacts = 1024 // for which Fabric.Run needs room
)

// FabricPort is what peers have to know to reach the Fabric of a port, and what it takes to choose an address for them. A peer
// that has another Epoch in mind has numbers of queue pairs that are no more.
type FabricPort struct {
	Port      int
	Epoch     uint64 // random, of one Fabric; 0: there is none, see Reason
	Reason    string // for a log line: why there is none; "" if there is one
	Unable    bool   // there is none since the device or its link layer cannot, not for what its port does now
	LinkLayer LinkLayer
	LID       int
	MTU       int
	PKey      uint16      // of the queue pairs
	NeedsGRH  bool        // the port takes no packet without a GRH
	GIDs      []FabricGID // that packets may be sent from, the best first
	UD        []uint32    // the numbers of the UD queue pairs, by path
	QKey      uint32      // of these
}

// FabricGID is an entry of the GID table that a Fabric may use: on Ethernet one of RoCE v2.
type FabricGID struct {
	Index int
	Raw   [16]byte
}

// FabricRole is what a port is in a pair.
type FabricRole int32

// The roles, in the order of the native backend's.
const (
	FabricProbes  FabricRole = iota // it sends probes and writes
	FabricAnswers                   // it echoes probes, and its device acknowledges writes
)

// FabricPeer is a port of another host, as its Fabric is reached. PSNs are of the pair's RC queue pairs.
type FabricPeer struct {
	Host, Device string // for messages, and for the simulator
	Port         int
	Role         FabricRole // of this side
	Session      uint64     // random, chosen by the side that probes; datagrams have it
	UD           []uint32   // by path; the number of paths of the pair
	QKey         uint32
	RC           uint32
	PSN          uint32 // of what the peer sends
	OwnPSN       uint32 // of what this side sends
	Global       bool   // with a GRH, from the own GID at GIDIndex to GID
	GIDIndex     int
	GID          [16]byte
	LID          int
	First        time.Duration // from now to the first round
}

// FabricKind is what a FabricFact says.
type FabricKind int32

// The kinds, in the order of the native backend's.
const (
	FabricSent        FabricKind = iota // a probe was sent
	FabricEcho                          // its echo came
	FabricWrite                         // a write was posted
	FabricWriteDone                     // the peer's device acknowledged it
	FabricWriteFailed                   // it ended in an error, and its queue pair with it
	FabricMissing                       // an echo is missing for verdict.MissingAfter, the first since the last echo; more probes follow while the write is silent
	FabricLate                          // the thread woke later than it meant to, by Took; no deadline of before counts
	FabricUnsent                        // the device refused a probe
)

// FabricFact is one thing that a Fabric saw. Which members have a meaning follows from Kind. Durations are ns.
type FabricFact struct {
	Kind     FabricKind
	Pair     int    // its place; -1: all
	Session  uint64 // of the pair
	Path     int
	Seq      uint64 // of the probe: 1, 2, 3 ... in a session, on the paths in turn
	Received uint64 // FabricEcho: probes of the session and path that had reached the peer, this one included
	Posted   uint64 // FabricEcho: echoes that the peer had posted for them, this one included
	Dry      bool   // FabricEcho: a receive queue of the path was used up since the last echo, here or there
	At       int64  // CLOCK_MONOTONIC ns
	Took     int64  // FabricEcho, FabricWriteDone, FabricWriteFailed: since the post. FabricLate: by how much
	Delay    int64  // FabricEcho: from the probe's arrival at the peer to the post of the echo
	Status   string // FabricWriteFailed, FabricUnsent: of the completion, or the verb with its errno
}

// FabricFacts are what the Fabric of a port saw since the FabricFacts before, in order.
type FabricFacts struct {
	Port  int
	Epoch uint64
	UpTo  int64 // CLOCK_MONOTONIC ns: all that had completed by then is in these and the ones before
	Facts []FabricFact
}

// Fabric is the end of a port for probes between hosts: it echoes the probes of peers, and probes others. One goroutine at
// a time may call Run; one at a time may call Offer, Join and Leave, also beside Run. Nudge and Close may be called at any time.
type Fabric interface {
	// UD returns the numbers of the UD queue pairs, by path, and their Q_Key.
	UD() (numbers []uint32, qkey uint32)

	// Run echoes and probes for a time, and returns the number of facts that it filled in. facts has room for MinFabricFacts
	// or more. It returns early when facts is nearly full, when something is missing or has failed, and after Nudge. Its facts come up to its return: all that had
	// completed was taken then. Errors: ErrClosed, ErrNoDevice, and those of the verbs, after which the Fabric is of no use.
	Run(facts []FabricFact, lasting time.Duration) (n int, upTo int64, err error)

	// Offer makes the RC queue pair for a pair, and returns its number. A pair that runs in this place goes on until Join
	// or Leave. It may block as long as the firmware does not answer.
	Offer(pair int, role FabricRole) (rc uint32, err error)

	// Join connects what was offered to a peer, and begins; a pair that ran in this place ends. It may block as long as the
	// kernel seeks the peer's address. After an error there is nothing in this place that was not before Offer.
	Join(pair int, peer *FabricPeer) error

	// Leave ends what runs and what was offered in a place.
	Leave(pair int) error

	// Nudge makes Run return soon. It does not block.
	Nudge()

	// Close ends all pairs and destroys all queues. Every event that was read is acknowledged. After timeout it gives up with ErrStuck.
	Close(timeout time.Duration) error
}

// FabricConfig is the configuration of one Fabric.
type FabricConfig struct {
	Port int
	FabricOptions
}

// FabricOrder is what the host wants of the Fabric of a port.
type FabricOrder struct {
	Port  int
	Epoch uint64 // of the Fabric that it is for
	Pair  int
	Offer bool // for the role Role; else Peer is joined
	Role  FabricRole
	Peer  *FabricPeer // nil, without Offer: the pair ends
}
