package exchange

import (
	"context"
	"errors"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// Port is a port of a host that probes others, or answers them.
type Port struct {
	Device   string
	Position int // of the device among those of its host that probe, by name
	verbs.FabricPort
}

// Offer is a port of the side that probes, and its end of a pair.
type Offer struct {
	Session uint64 // random; datagrams of the pair have it
	Port    Port
	RC      uint32 // number of the RC queue pair
	PSN     uint32 // of what it sends
	// Devices are the names of all devices of the host that probe. Hosts with a name in common pair devices by name alone. It is
	// empty if the host runs an older release.
	Devices []string
}

// Held names the sessions with which a host goes on after it has lost a conversation, so that both sides agree on what there is.
type Held struct {
	Sessions []uint64 // of its pairs with the other host
	Epochs   []uint64 // of its ports: other sessions of these epochs are over
}

// State is how a host's ports are, and which of the sessions that it was asked about it answers.
type State struct {
	Ports []PortState
	// Lacking has the sessions of the question that the host does not answer.
	Lacking []uint64
	// Knows reports whether Lacking is known. It is false if the host runs an older release.
	Knows bool
}

// Answer is the other end of a pair, or why there is none.
type Answer struct {
	Reason verdict.Reason // "": they have met
	Port   Port
	RC     uint32
	PSN    uint32 // of what the answering side sends
}

// Change is a port of a peer that is not what it was: its epoch is new, or it is not active any more.
type Change struct {
	Device string
	Port   int
	Epoch  uint64 // 0: it has no Fabric now
}

// PortState is what a host says of a port of its own when it is asked whether it is there.
type PortState struct {
	Device string
	Port   int
	Epoch  uint64 // 0: it has no Fabric now
	State  verbs.PortState
}

// The errors of a conversation. Test for them with errors.Is. Of others, nothing of the peer is known: it may be down.
var (
	ErrKey       = errors.New("the host has another key")
	ErrNotListed = errors.New("the host does not have this one in its list")
	ErrVersion   = errors.New("the host has a version that this one cannot talk to")
	// ErrMalformed is of an offer or an answer in which a number or a name cannot be.
	ErrMalformed = errors.New("malformed")
)

// ReasonOf returns why there is no conversation with a host, by the error of Converse.
func ReasonOf(err error) verdict.Reason {
	switch {
	case err == nil:
		return verdict.ReasonNone
	case errors.Is(err, ErrKey):
		return verdict.ReasonKey
	case errors.Is(err, ErrNotListed):
		return verdict.ReasonNotListed
	case errors.Is(err, ErrVersion):
		return verdict.ReasonVersion
	case errors.Is(err, errRefused):
		return verdict.ReasonFailed
	}
	return verdict.ReasonNoResponder
}

// Network reaches other hosts. Its methods may be called concurrently. There is one over TCP, and one of the simulator.
type Network interface {
	// Peer returns what reaches a host. It does not block, and the host need not be there. The caller closes it.
	Peer(h pinglist.Host) (Peer, error)
}

// Peer is another host. Its methods may be called concurrently.
type Peer interface {
	// Converse opens the conversation with the host. It blocks until the host has answered a greeting, or ctx ends.
	Converse(ctx context.Context, digest string) (Conversation, error)
	// State asks the host's process how its ports are and whether it answers these sessions, without a conversation. It blocks
	// until the answer, or ctx ends.
	State(ctx context.Context, sessions []uint64) (State, error)
	// Close ends what is under way.
	Close() error
}

// Conversation is an open conversation, of the side that probes. Its methods may be called concurrently.
type Conversation interface {
	// Digest returns the digest of the host's list.
	Digest() string
	// Reconcile names the sessions that this side goes on with, and returns those among them that must be met again. It
	// blocks until the answer, ctx ends, or the conversation does. It returns errors.ErrUnsupported if the host runs an older
	// release.
	Reconcile(ctx context.Context, h Held) (lacking []uint64, err error)
	// Offer offers an end of a pair. It blocks until the answer, ctx ends, or the conversation does.
	Offer(ctx context.Context, o Offer) (Answer, error)
	// Leave lets the host know that a pair is over. It does not wait for an answer.
	Leave(session uint64) error
	// Changes has the changes of the host's ports. It is closed when the conversation has ended, of which Err is the reason.
	Changes() <-chan Change
	// Err returns why the conversation has ended, nil before.
	Err() error
	// Close ends the conversation.
	Close() error
}

// Handler answers other hosts. Its methods are called concurrently; host is the name that the caller's certificate proves, and
// is in the list.
type Handler interface {
	// Listed reports whether a host is in the list, with whose digest this host greets.
	Listed(host string) (digest string, ok bool)
	// Reconcile says that a conversation has begun in which the host goes on with some sessions; nil says that it runs an older
	// release, which names none. It returns the sessions that go on, all of them for nil; Ended will name them. It does
	// not block.
	Reconcile(host string, h *Held) (kept []uint64)
	// Meet answers an offer. It may block as long as the device's firmware does. The same host may have several conversations.
	Meet(ctx context.Context, host string, o Offer) Answer
	// Leave ends a pair of a host.
	Leave(host string, session uint64)
	// Ended says that a conversation has ended in which these sessions were met or kept, and not left. Their pairs go on.
	Ended(host string, sessions []uint64)
	// States returns how this host's ports are, and which of a host's sessions it does not answer.
	States(host string, sessions []uint64) (ports []PortState, lacking []uint64)
}
