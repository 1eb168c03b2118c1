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

// Pinglist is who pings whom as this host sees it.
type Pinglist struct {
	Own           pinglist.Host // Group "": the list does not have it
	Digest        string
	Hosts, Groups int
	Pings         []pinglist.Peer // in the order of the ping list
	PingedBy      []pinglist.Peer // by group and name
}

// ReadPinglist returns who pings whom by the list of the configuration, which must be On. It needs no device. The error is one line.
func (c *FabricConfig) ReadPinglist() (*Pinglist, error) {
	host, err := c.HostName()
	if err != nil {
		return nil, err
	}
	l, err := c.list(host, slog.New(slog.DiscardHandler)).read()
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

// Greet greets a host as the plugin does, in the name of this host, and returns the digest of its list. It blocks until the
// answer, or ctx ends. why says what is wrong, and the error has it in words. The configuration has been checked.
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

// TryListen reports whether the plugin would get the port of fabric.listen: it takes it for a moment. The error is one line.
func (c *FabricConfig) TryListen(ctx context.Context) error {
	l, err := exchange.Listen(ctx, c.Listen)
	if err != nil {
		return fmt.Errorf("fabric.%w", err)
	}
	return l.Close()
}
