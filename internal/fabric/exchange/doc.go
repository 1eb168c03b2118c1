// Package exchange is how hosts get to know each other's ports, so that these can probe each other: a conversation between the
// host processes over TCP, in which numbers of queue pairs and addresses are exchanged. Only hosts that hold the same key are
// talked to. The probes themselves do not pass here.
//
// The side that probes has a Network, whose Peer is reached over one connection: a conversation (gRPC's stream Converse), and
// the question for the state of ports beside it. The side that answers has a Server and a Handler. TLS 1.3 with certificates
// of both sides comes first: who has no key gets an alert of TLS and nothing else. What a stranger or a peer may cost is in
// limits.go, what a peer may say in check.go. No protobuf type leaves the package.
package exchange
