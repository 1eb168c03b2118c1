// Package exchange lets host processes exchange the queue pair numbers and addresses of their ports over TCP, so that the ports can probe
// each other. A host talks only to hosts that hold the same key. Probes do not pass through this package.
//
// The probing side has a Network. One connection to each Peer carries a conversation (the gRPC stream Converse) and requests for the state
// of ports. The answering side has a Server and a Handler. Both sides authenticate with certificates in TLS 1.3: a caller without the key
// receives a TLS alert and nothing else. limits.go limits the resources that strangers and peers can use, and check.go validates all values
// that peers send. The package exports no protobuf types.
package exchange
