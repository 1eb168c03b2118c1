// Package hello is how hosts get to know each other's ports, so that these can probe each other: a conversation between the
// host processes over TCP, in which numbers of queue pairs and addresses are exchanged. Only hosts that hold the same key are
// talked to. The probes themselves do not pass here.
package hello
