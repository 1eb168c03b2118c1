package verbs

import "time"

// FabricOptions describes the probes between this device's ports and the ports of other hosts.
type FabricOptions struct {
	Paths        int           // UD queue pairs of each port, 1 to MaxFabricPaths; 0: no probes between hosts, and no queues for them
	Interval     time.Duration // between two rounds of a pair
	GIDIndex     int           // source GID of packets; -1: one that matches the peer's
	PKeyIndex    int           // -1: the first P_Key with full membership
	TrafficClass int           // of the GRH; on RoCE this is the traffic class of the IP header
	ServiceLevel int
}

// The limits of a FabricEndpoint. The native backend repeats the numbers in native.h.
const (
	MaxFabricPaths = 4
	MaxFabricPairs = 64 // of a port

	MinFabricFacts = 1024 // least length of the slice passed to FabricEndpoint.Run
)

// FabricPort describes how peers reach the FabricEndpoint of a port, and which addresses they may use. If a peer names another
// Epoch, the queue pair numbers that it has belong to an endpoint that no longer exists.
type FabricPort struct {
	Port      int
	Epoch     uint64 // random number of one FabricEndpoint; 0: there is none, see Reason
	Reason    string // for a log line: why there is no endpoint; "" if there is one
	Unable    bool   // the device or its link layer can never have an endpoint, whatever state its port is in
	LinkLayer LinkLayer
	LID       int
	MTU       int
	PKey      uint16      // of the queue pairs
	NeedsGRH  bool        // the port accepts no packet without a GRH
	GIDs      []FabricGID // possible source GIDs, the best first
	UD        []uint32    // numbers of the UD queue pairs, by path
	QKey      uint32      // of the UD queue pairs
}

// FabricGID is an entry of the GID table that a FabricEndpoint may send from. On Ethernet it is a RoCE v2 GID.
type FabricGID struct {
	Index int
	Raw   [16]byte
}

// FabricRole is the role of a port in a pair.
type FabricRole int32

// The roles. The native backend's enum has the same order.
const (
	FabricProbes  FabricRole = iota // requester: it sends probes and writes
	FabricAnswers                   // responder: it echoes probes, and its device acknowledges writes
)

// FabricPeer describes a port of another host, and how this port reaches it. PSNs are the first packet sequence numbers of the pair's
// RC queue pairs.
type FabricPeer struct {
	Host, Device string // for messages, and for the simulator
	Port         int
	Role         FabricRole // of this side
	Session      uint64     // random, chosen by the requester; each datagram carries it
	UD           []uint32   // by path; its length is the number of paths of the pair
	QKey         uint32
	RC           uint32
	PSN          uint32 // first PSN of the peer
	OwnPSN       uint32 // first PSN of this side
	Global       bool   // packets have a GRH, from the own GID at GIDIndex to GID
	GIDIndex     int
	GID          [16]byte
	LID          int
	First        time.Duration // from now to the first round
}

// FabricKind is the kind of a FabricFact.
type FabricKind int32

// The kinds. The native backend's enum has the same order.
const (
	FabricSent        FabricKind = iota // a probe was sent
	FabricEcho                          // the echo of a probe arrived
	FabricWrite                         // a write was posted
	FabricWriteDone                     // the peer's device acknowledged the write
	FabricWriteFailed                   // the write ended in an error, which also put its queue pair into the error state
	FabricMissing                       // an echo is missing for verdict.MissingAfter, the first since the last echo; more probes follow while the write is silent
	FabricLate                          // the thread woke Took later than planned; deadlines from before do not count
	FabricUnsent                        // the device refused a probe
)

// FabricFact is one observation of a FabricEndpoint. Kind decides which members are valid. Durations are in ns.
type FabricFact struct {
	Kind     FabricKind
	Pair     int    // the slot of the pair; -1: all pairs
	Session  uint64 // of the pair
	Path     int
	Seq      uint64 // of the probe: 1, 2, 3 ... in a session, over the paths in turn
	Received uint64 // FabricEcho: probes of the session and path that had reached the peer, this one included
	Posted   uint64 // FabricEcho: echoes that the peer had posted for these probes, this one included
	Dry      bool   // FabricEcho: a receive queue of the path was empty at some time since the last echo, on this or the peer's side
	At       int64  // CLOCK_MONOTONIC ns
	Took     int64  // FabricEcho, FabricWriteDone, FabricWriteFailed: since the post. FabricLate: the delay
	Delay    int64  // FabricEcho: from the probe's arrival at the peer to the post of the echo
	Status   string // FabricWriteFailed, FabricUnsent: the completion status, or the verb with its errno
}

// FabricFacts holds the facts of a port's FabricEndpoint since the previous FabricFacts, in order.
type FabricFacts struct {
	Port  int
	Epoch uint64
	UpTo  int64 // CLOCK_MONOTONIC ns: everything that completed up to then is in this or an earlier FabricFacts
	Facts []FabricFact
}

// FabricEndpoint is the local end of the probes between a port and other hosts: it probes peers and echoes their probes.
// Only one goroutine at a time may call Run. Only one at a time may call Offer, Join and Leave, which may run while Run does.
// Nudge and Close may be called at any time.
type FabricEndpoint interface {
	// UD returns the numbers of the UD queue pairs, by path, and their Q_Key.
	UD() (numbers []uint32, qkey uint32)

	// Run echoes and probes for the duration lasting, and returns the number of facts that it filled in. facts must have at
	// least MinFabricFacts elements. Run returns early when facts is nearly full, when an echo is missing or a request has
	// failed, and after Nudge. The facts include everything that completed up to upTo. Errors: ErrClosed, ErrNoDevice, and
	// errors of verbs, after which the FabricEndpoint cannot be used any more.
	Run(facts []FabricFact, lasting time.Duration) (n int, upTo int64, err error)

	// Offer creates the RC queue pair for the slot pair, and returns its number. A pair that runs in the slot continues
	// until Join or Leave. Offer may block until the firmware answers.
	Offer(pair int, role FabricRole) (rc uint32, err error)

	// Join connects the offered queue pair to a peer and starts the pair. A pair that ran in the slot ends. Join may block
	// while the kernel resolves the peer's address. After an error the slot is as it was before Offer.
	Join(pair int, peer *FabricPeer) error

	// Leave ends the running pair and the offer of a slot.
	Leave(pair int) error

	// Nudge makes Run return soon. It does not block.
	Nudge()

	// Close ends all pairs, acknowledges every event that was read and destroys all queues. It returns ErrStuck if that takes
	// longer than timeout.
	Close(timeout time.Duration) error
}

// FabricConfig is the configuration of one FabricEndpoint.
type FabricConfig struct {
	Port int
	FabricOptions
}

// FabricOrder is a request of the host to the FabricEndpoint of a port: offer a queue pair, join a peer, or leave.
type FabricOrder struct {
	Port  int
	Epoch uint64 // of the FabricEndpoint that the order is meant for
	Pair  int
	Offer bool // offer a queue pair for Role; otherwise join Peer
	Role  FabricRole
	Peer  *FabricPeer // nil without Offer: leave
}

// IsLeave reports whether the order is to end a pair.
func (o *FabricOrder) IsLeave() bool { return !o.Offer && o.Peer == nil }
