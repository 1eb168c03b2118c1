package exchange

import (
	"context"
	"errors"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// Port describes a port that takes part in probes between hosts.
type Port struct {
	Device   string
	Position int // index of the device among the probing devices of its host, sorted by name
	verbs.FabricPort
}

// Offer describes the probing side's end of a new pair.
type Offer struct {
	Session uint64 // random; part of every datagram of the pair
	Port    Port
	RC      uint32 // number of the RC queue pair
	PSN     uint32 // first packet sequence number that the probing side sends
	// Devices has the names of all probing devices of the host. If the two hosts have a device name in common, devices are paired by name only.
	// Devices is empty if the host runs an older release.
	Devices []string
}

// Held names the sessions that a host continues after a conversation was lost, so that both sides agree on them.
type Held struct {
	Sessions []uint64 // of the host's pairs with the other host
	Epochs   []uint64 // of the host's ports: all other sessions of these epochs have ended
}

// State describes the ports of a host, and tells which of the requested sessions it answers.
type State struct {
	Ports []PortState
	// Lacking has the requested sessions that the host does not answer.
	Lacking []uint64
	// LackingKnown reports whether Lacking is valid. It is false if the host runs an older release.
	LackingKnown bool
}

// Answer describes the answering side's end of a pair, or the reason why there is none.
type Answer struct {
	Reason verdict.Reason // "": the pair is connected
	Port   Port
	RC     uint32
	PSN    uint32 // first packet sequence number that the answering side sends
}

// Change announces a change of a peer's port: it has a new epoch, or no Fabric any more.
type Change struct {
	Device string
	Port   int
	Epoch  uint64 // 0: the port has no Fabric now
}

// PortState is the state of a port in the answer to a State request.
type PortState struct {
	Device string
	Port   int
	Epoch  uint64 // 0: the port has no Fabric now
	State  verbs.PortState
}

// The errors of a conversation. Test for them with errors.Is. Any other error is no evidence about the peer, which may be down.
var (
	ErrKey       = errors.New("the host has another key")
	ErrNotListed = errors.New("the host does not have this one in its list")
	ErrVersion   = errors.New("the host has a version that this one cannot talk to")
	// ErrMalformed is the error of a message with an impossible number or name.
	ErrMalformed = errors.New("malformed")
)

// ReasonOf returns the reason that corresponds to an error of Converse or State.
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

// Network gives access to other hosts. Its methods may be called concurrently. TCP implements it for real hosts, and the simulator for
// simulated ones.
type Network interface {
	// Peer returns the Peer for a host. It does not block and does not connect to the host. The caller must close the Peer.
	Peer(h pinglist.Host) (Peer, error)
}

// Peer is another host. Its methods may be called concurrently.
type Peer interface {
	// Converse opens a conversation with the host. It blocks until the host has answered the greeting or ctx ends. digest is that of
	// this host's list.
	Converse(ctx context.Context, digest string) (Conversation, error)
	// State requests the state of the host's ports, and asks whether the host answers these sessions. It needs no conversation. It blocks until
	// the answer arrives or ctx ends.
	State(ctx context.Context, sessions []uint64) (State, error)
	// Close ends all calls and conversations.
	Close() error
}

// Conversation is an open conversation at the probing side. Its methods may be called concurrently.
type Conversation interface {
	// Digest returns the digest of the host's list.
	Digest() string
	// Reconcile names the sessions that this side continues, and returns those that must be reconnected. It blocks until the answer arrives, ctx
	// ends or the conversation ends. It returns errors.ErrUnsupported if the host runs an older release.
	Reconcile(ctx context.Context, h Held) (lacking []uint64, err error)
	// Offer offers an end of a pair. It blocks until the answer arrives, ctx ends or the conversation ends.
	Offer(ctx context.Context, o Offer) (Answer, error)
	// Leave tells the host that a session has ended. It does not wait for an answer.
	Leave(session uint64) error
	// Changes returns the channel of changes of the host's ports. The channel is closed when the conversation has ended; Err then returns the cause.
	Changes() <-chan Change
	// Err returns the error that ended the conversation, or nil while it is open.
	Err() error
	// Close ends the conversation.
	Close() error
}

// Handler answers other hosts. Its methods are called concurrently. host is a name that is in the list and that the caller's certificate
// proves; the host of Listed may be any name.
type Handler interface {
	// Listed reports whether a host is in the list, and returns the digest of the list.
	Listed(host string) (digest string, ok bool)
	// Reconcile handles the sessions that a host continues in a new conversation. h is nil if the host runs an older release, which names no
	// sessions. Reconcile returns the sessions that continue, which are all sessions of the host if h is nil. A later call of
	// HandleConversationEnd includes them. Reconcile does not block.
	Reconcile(host string, h *Held) (kept []uint64)
	// AnswerOffer answers an offer. It may block as long as the device's firmware does. A host may have several conversations.
	AnswerOffer(ctx context.Context, host string, o Offer) Answer
	// Leave ends a session of a host. It does not wait for the worker, and does not block.
	Leave(host string, session uint64)
	// HandleConversationEnd handles the end of a conversation in which these sessions were offered or kept, and not left. The sessions continue.
	HandleConversationEnd(host string, sessions []uint64)
	// States returns the state of this host's ports, and which of a host's sessions it does not answer.
	States(host string, sessions []uint64) (ports []PortState, lacking []uint64)
}
