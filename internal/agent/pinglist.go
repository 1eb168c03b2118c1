package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// Pinglist describes which hosts this host probes and which hosts probe it.
type Pinglist struct {
	Own           pinglist.Host // its Group is "" if the list does not contain it
	Digest        string
	Hosts, Groups int
	Pings         []pinglist.Peer // in the order of the ping list
	PingedBy      []pinglist.Peer // by group and name
}

// ReadPinglist returns which hosts probe each other according to the list of the configuration, which must be Enabled.
// It needs no device. The error is one line.
func (c *FabricConfig) ReadPinglist() (*Pinglist, error) {
	host, err := c.HostName()
	if err != nil {
		return nil, err
	}
	l, err := c.newListFile(host, slog.New(slog.DiscardHandler)).read()
	if err != nil {
		return nil, err
	}
	p := &Pinglist{
		Own: pinglist.Host{Name: host}, Digest: l.Digest(), Hosts: l.Len(), Groups: l.Groups(), PingedBy: l.PingedBy(host, c.Peers),
	}
	if own, ok := l.Host(host); ok {
		p.Own = own
	}
	if c.Probe {
		p.Pings = l.Pings(host, c.Peers)
	}
	return p, nil
}

// Greet connects to a host in the name of this host, as the plugin does, and returns the digest of that host's list. It
// blocks until the host answers or ctx ends. why classifies the error. The configuration must have been checked.
func (c *Config) Greet(ctx context.Context, host pinglist.Host, digest string) (theirs string, why verdict.Reason, err error) {
	own, err := c.Fabric.HostName()
	if err != nil {
		return "", verdict.ReasonFailed, err
	}
	credentials, err := c.readCredentials(own, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", verdict.ReasonKey, err
	}
	network, err := c.newNetwork(c.Request(), own, credentials)
	if err != nil {
		return "", verdict.ReasonFailed, err
	}
	peer, err := network.Peer(host)
	if err != nil {
		return "", exchange.ReasonOf(err), err
	}
	conversation, err := peer.Converse(ctx, digest)
	if err != nil {
		return "", exchange.ReasonOf(err), errors.Join(err, peer.Close())
	}
	theirs = conversation.Digest()
	return theirs, verdict.ReasonNone, errors.Join(conversation.Close(), peer.Close())
}

// TryListen checks whether the plugin could listen on fabric.listen, by listening there for a moment. The error is one
// line.
func (c *FabricConfig) TryListen(ctx context.Context) error {
	l, err := exchange.Listen(ctx, c.Listen)
	if err != nil {
		return fmt.Errorf("fabric.%w", err)
	}
	return l.Close()
}
