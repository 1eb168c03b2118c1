package soak

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange/proto"
	"rdma_events/internal/fabric/pairs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// former is a process of the release that could not reconcile sessions, as its peers see it: written against the messages that
// release knew, it keeps a session over lost conversations at the side that probes, and ends it ten minutes after at the side that
// answers. It makes no verdicts.
type former struct {
	proto.UnimplementedHelloServer
	h      *host
	config *tls.Config
	server *grpc.Server
	ctx    context.Context //nolint:containedctx // of the process
	stop   context.CancelFunc
	all    sync.WaitGroup
	workers

	mu      sync.Mutex
	ports   map[string]verbs.FabricPort // of the devices that have a worker
	talks   map[*formerTalk]struct{}
	answers map[string]*[verbs.MaxFabricPairs]*formerAnswer // by device and place
	probes  map[[2]string]*formerProbe                      // by device and peer
	tasks   map[string]context.CancelFunc                   // of the hosts that it probes
}

type formerAnswer struct {
	host, device   string
	epoch, session uint64
	orphan         time.Time
}

type formerProbe struct {
	place   int
	session uint64 // 0: it has not met
	remote  *proto.Port
}

type formerTalk struct {
	host string
	out  chan *proto.Reply
	kick chan struct{} // closed when the list has the host no more
}

const formerOrphan = 10 * time.Minute

func startFormer(h *host) *former {
	p := &former{
		h: h, workers: workers{h: h, byDevice: map[string]*runningWorker{}}, ports: map[string]verbs.FabricPort{},
		talks: map[*formerTalk]struct{}{}, answers: map[string]*[verbs.MaxFabricPairs]*formerAnswer{},
		probes: map[[2]string]*formerProbe{}, tasks: map[string]context.CancelFunc{},
	}
	cert, err := tls.LoadX509KeyPair(h.files.TLSCert, h.files.TLSKey)
	require.NoError(h.w.t, err)
	ca, err := os.ReadFile(h.files.TLSCA)
	require.NoError(h.w.t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	p.config = &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Time: h.wall, Certificates: []tls.Certificate{cert}, RootCAs: roots,
		ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true,
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(p.config)), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))
	proto.RegisterHelloServer(p.server, p)
	l := h.w.tcp.listen(h.name)
	p.all.Go(func() { _ = p.server.Serve(l) })
	p.all.Go(p.endOrphans)
	p.setList(h.ownList())
	return p
}

func (p *former) open(device string) {
	port := p.workers.open(p.ctx, device, func(*verbs.FabricFacts) {})
	p.h.w.setOpen(p.h.name, device, true)
	p.changed(device, &port)
}

// changed informs all peers of a port with a new worker, or of one without any.
func (p *former) changed(device string, port *verbs.FabricPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ports, device)
	if port.Epoch != 0 {
		p.ports[device] = *port
	}
	p.answers[device] = &[verbs.MaxFabricPairs]*formerAnswer{}
	for key, probe := range p.probes {
		if key[0] == device {
			probe.session = 0
		}
	}
	for t := range p.talks {
		t.out <- &proto.Reply{What: &proto.Reply_Change{Change: &proto.Change{Device: device, Port: 1, Epoch: port.Epoch}}}
	}
}

func (p *former) lose(device string, _ bool) {
	if x := p.take(device); x != nil {
		p.h.w.setOpen(p.h.name, device, false)
		x.end()
		x.stop()
		p.changed(device, &verbs.FabricPort{})
	}
}

func (p *former) setList(l *pinglist.List) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range p.talks {
		if _, ok := l.Host(t.host); !ok {
			close(t.kick)
			delete(p.talks, t)
		}
	}
	wanted := map[string]bool{}
	for _, peer := range l.Pings(p.h.name, peers) {
		wanted[peer.Name] = true
		if p.tasks[peer.Name] == nil {
			ctx, stop := context.WithCancel(p.ctx)
			p.tasks[peer.Name] = stop
			p.all.Go(func() { p.probe(ctx, peer.Name) })
		}
	}
	for name, stop := range p.tasks {
		if !wanted[name] {
			stop()
			delete(p.tasks, name)
		}
	}
	p.all.Go(func() { p.endAnswers(func(a *formerAnswer) bool { _, ok := l.Host(a.host); return !ok }) })
}

func (p *former) end(killed bool) {
	p.endAll()
	p.stop()
	if killed {
		p.h.w.tcp.closeAll(p.h.name)
	}
	p.server.Stop()
	p.all.Wait()
}

func (p *former) endOrphans() {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		p.endAnswers(func(a *formerAnswer) bool { return !a.orphan.IsZero() && time.Since(a.orphan) > formerOrphan })
	}
}

// endAnswers ends the answering sides for which of returns true.
func (p *former) endAnswers(of func(*formerAnswer) bool) {
	type ending struct {
		device string
		order  verbs.FabricOrder
	}
	var all []ending
	p.mu.Lock()
	for device, places := range p.answers {
		for place, a := range places {
			if a != nil && of(a) {
				places[place] = nil
				all = append(all, ending{device, verbs.FabricOrder{Port: 1, Epoch: p.ports[device].Epoch, Pair: place}})
			}
		}
	}
	p.mu.Unlock()
	for _, e := range all {
		_, _ = p.order(p.ctx, e.device, e.order)
	}
}

func refusalError(why proto.Why) error {
	s, err := grpcstatus.New(codes.PermissionDenied, "refused").WithDetails(&proto.Refusal{Why: why})
	if err != nil {
		return err
	}
	return s.Err()
}

func (p *former) greeting() *proto.Greeting {
	return &proto.Greeting{Least: 1, Most: 1, Host: p.h.name, Digest: p.h.ownList().Digest()}
}

// State implements proto.HelloServer.
func (p *former) State(_ context.Context, m *proto.StateRequest) (*proto.StateReply, error) {
	if _, ok := p.h.ownList().Host(m.GetHost()); !ok {
		return nil, refusalError(proto.Why_WHY_NOT_LISTED)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	reply := &proto.StateReply{}
	for _, device := range p.h.devices {
		reply.Ports = append(reply.Ports, &proto.PortState{
			Device: device, Port: 1, Epoch: p.ports[device].Epoch, State: int32(verbs.PortActive),
		})
	}
	return reply, nil
}

// Converse implements proto.HelloServer.
func (p *former) Converse(s grpc.BidiStreamingServer[proto.Call, proto.Reply]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	host := first.GetGreeting().GetHost()
	if _, ok := p.h.ownList().Host(host); !ok {
		return refusalError(proto.Why_WHY_NOT_LISTED)
	}
	t := &formerTalk{host: host, out: make(chan *proto.Reply, 1024), kick: make(chan struct{})}
	g := p.greeting()
	g.Version = 1
	t.out <- &proto.Reply{What: &proto.Reply_Greeting{Greeting: g}}
	p.mu.Lock()
	p.talks[t] = struct{}{}
	p.mu.Unlock()
	met := map[uint64]bool{}
	in := make(chan *proto.Call)
	p.all.Go(func() {
		defer close(in)
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			select {
			case in <- m:
			case <-s.Context().Done():
				return
			}
		}
	})
	err = p.talk(t, s, in, met)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.talks, t)
	for _, places := range p.answers {
		for _, a := range places {
			if a != nil && a.host == host && met[a.session] {
				a.orphan = time.Now()
			}
		}
	}
	return err
}

func (p *former) talk(t *formerTalk, s grpc.BidiStreamingServer[proto.Call, proto.Reply], in <-chan *proto.Call, met map[uint64]bool) error {
	for {
		select {
		case <-t.kick:
			return context.Canceled
		case m := <-t.out:
			if err := s.Send(m); err != nil {
				return err
			}
		case m, ok := <-in:
			if !ok {
				return nil
			}
			switch {
			case m.GetOffer() != nil:
				a := p.meet(t.host, m.GetOffer())
				if a.GetReason() == "" {
					met[a.GetSession()] = true
				}
				t.out <- &proto.Reply{What: &proto.Reply_Answer{Answer: a}}
			case m.GetLeave() != nil:
				session := m.GetLeave().GetSession()
				delete(met, session)
				p.endAnswers(func(a *formerAnswer) bool { return a.host == t.host && a.session == session })
			}
		}
	}
}

// meet answers an offer.
func (p *former) meet(host string, o *proto.Offer) *proto.Answer {
	a := &proto.Answer{Session: o.GetSession()}
	p.mu.Lock()
	device := o.GetPort().GetDevice()
	port, ok := p.ports[device]
	place := -1
	if ok {
		for i, other := range p.answers[device][pairs.MaxPeers:] {
			switch {
			case other == nil && place < 0:
				place = pairs.MaxPeers + i
			case other != nil && other.host == host && other.device == device && other.epoch == o.GetPort().GetEpoch():
				place = pairs.MaxPeers + i
			}
		}
	}
	if place >= 0 {
		p.answers[device][place] = &formerAnswer{host: host, device: device, epoch: o.GetPort().GetEpoch(), session: o.GetSession()}
	}
	p.mu.Unlock()
	switch {
	case !p.h.has(device):
		a.Reason = string(verdict.ReasonUnsupported) // this model pairs by name alone
		return a
	case place < 0:
		a.Reason = string(verdict.ReasonNotActive)
		return a
	}
	rc, err := p.join(device, &port, place, verbs.FabricAnswers, host, o.GetSession(), o.GetPort(), func(uint32) uint32 { return o.GetRc() })
	if err != nil {
		a.Reason = string(verdict.ReasonFailed)
		return a
	}
	a.Rc, a.Port = rc, protoPort(device, &port)
	return a
}

// join makes and connects the own side of a pair. remote returns the number of the peer's queue pair, 0 if there is none.
func (p *former) join(
	device string, port *verbs.FabricPort, place int, role verbs.FabricRole, host string, session uint64, peer *proto.Port, remote func(rc uint32) uint32,
) (rc uint32, err error) {
	o := verbs.FabricOrder{Port: 1, Epoch: port.Epoch, Pair: place, Offer: true, Role: role}
	if rc, err = p.order(p.ctx, device, o); err != nil {
		return 0, err
	}
	to := remote(rc)
	if to == 0 {
		return 0, verbs.ErrNoFabric
	}
	o.Offer = false
	o.Peer = &verbs.FabricPeer{
		Host: host, Device: peer.GetDevice(), Port: 1, Role: role, Session: session, UD: peer.GetUd(), QKey: peer.GetQkey(), RC: to,
	}
	_, err = p.order(p.ctx, device, o)
	return rc, err
}

func protoPort(device string, p *verbs.FabricPort) *proto.Port {
	return &proto.Port{
		Device: device, Position: uint32(device[len(device)-1] - '0'), Port: 1, Epoch: p.Epoch, LinkLayer: uint32(p.LinkLayer), Mtu: uint32(p.MTU),
		Pkey: uint32(p.PKey), Gids: []*proto.Gid{{Index: uint32(p.GIDs[0].Index), Raw: p.GIDs[0].Raw[:]}}, Ud: p.UD, Qkey: p.QKey,
	}
}

// probe probes a host until ctx ends.
func (p *former) probe(ctx context.Context, host string) {
	for ctx.Err() == nil {
		err := p.converse(ctx, host)
		if isNotListed(err) {
			p.mu.Lock()
			for key, probe := range p.probes {
				if key[1] == host {
					probe.session = 0 // the host has ended what it answers
				}
			}
			p.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second + p.h.w.chance(20*time.Second)):
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, probe := range p.probes {
		if key[1] == host {
			delete(p.probes, key)
			o := verbs.FabricOrder{Port: 1, Epoch: p.ports[key[0]].Epoch, Pair: probe.place}
			if p.ctx.Err() == nil {
				p.all.Go(func() { _, _ = p.order(p.ctx, key[0], o) })
			}
		}
	}
}

func isNotListed(err error) bool {
	for _, detail := range grpcstatus.Convert(err).Details() {
		if r, ok := detail.(*proto.Refusal); ok && r.GetWhy() == proto.Why_WHY_NOT_LISTED {
			return true
		}
	}
	return false
}

// converse holds one conversation with a host.
func (p *former) converse(ctx context.Context, host string) error {
	config := p.config.Clone()
	config.ServerName = host
	conn, err := grpc.NewClient("passthrough:///"+host, grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithAuthority(host),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return p.h.w.tcp.dial(ctx, p.h.name, host+":14791")
		}), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := proto.NewHelloClient(conn)
	s, err := client.Converse(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(&proto.Call{What: &proto.Call_Greeting{Greeting: p.greeting()}}); err != nil {
		return err
	}
	in, ended := make(chan *proto.Reply, 1024), make(chan error, 1)
	p.all.Go(func() {
		for {
			m, err := s.Recv()
			if err != nil {
				ended <- err
				return
			}
			in <- m
		}
	})
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	greeted := false
	for {
		select {
		case err := <-ended:
			return err
		case m := <-in:
			greeted = greeted || m.GetGreeting() != nil
			p.heard(host, m.GetChange())
			continue
		case <-tick.C:
		}
		if !greeted {
			continue
		}
		for _, device := range p.h.devices {
			if err := p.keep(ctx, client, s, in, host, device); err != nil {
				return err
			}
		}
	}
}

// heard takes the change of a peer's port.
func (p *former) heard(host string, c *proto.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, probe := range p.probes {
		if c.GetEpoch() != 0 && key[1] == host && probe.session != 0 && probe.remote.GetDevice() == c.GetDevice() && probe.remote.GetEpoch() != c.GetEpoch() {
			probe.session = 0
		}
	}
}

// keep meets a pair, or asks for the state of a peer that is silent.
func (p *former) keep(
	ctx context.Context, client proto.HelloClient, s grpc.BidiStreamingClient[proto.Call, proto.Reply], in <-chan *proto.Reply, host, device string,
) error {
	key := [2]string{device, host}
	p.mu.Lock()
	port, ok := p.ports[device]
	probe := p.probes[key]
	if probe == nil {
		probe = &formerProbe{place: p.placeFor(device)}
		p.probes[key] = probe
	}
	session := probe.session
	p.mu.Unlock()
	switch {
	case !ok:
		return nil
	case session != 0 && !p.isSilent(device, session):
		return nil
	case session != 0:
		ask, stop := context.WithTimeout(ctx, 500*time.Millisecond)
		states, err := client.State(ask, &proto.StateRequest{Host: p.h.name})
		stop()
		if err == nil {
			for _, state := range states.GetPorts() {
				p.heard(host, &proto.Change{Device: state.GetDevice(), Port: state.GetPort(), Epoch: state.GetEpoch()})
			}
		}
		return nil
	}
	session = p.h.w.uint64() | 1
	var remote *proto.Port
	offer := func(rc uint32) uint32 {
		err := s.Send(&proto.Call{What: &proto.Call_Offer{Offer: &proto.Offer{Session: session, Port: protoPort(device, &port), Rc: rc, Psn: 1}}})
		late := time.After(5 * time.Second)
		for err == nil {
			select {
			case m := <-in:
				p.heard(host, m.GetChange())
				if a := m.GetAnswer(); a.GetSession() == session {
					remote = a.GetPort()
					return a.GetRc()
				}
			case <-late:
				return 0
			case <-ctx.Done():
				return 0
			case <-s.Context().Done():
				return 0
			}
		}
		return 0
	}
	peer := &proto.Port{Device: device}
	if _, err := p.join(device, &port, probe.place, verbs.FabricProbes, host, session, peer, offer); err != nil {
		return nil // it is tried again after a second
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ports[device].Epoch == port.Epoch && p.probes[key] == probe {
		probe.session, probe.remote = session, remote
	}
	return nil
}

// placeFor returns a place that no pair of a device has.
func (p *former) placeFor(device string) int {
	taken := map[int]bool{}
	for key, probe := range p.probes {
		taken[probe.place] = taken[probe.place] || key[0] == device
	}
	place := 0
	for taken[place] {
		place++
	}
	return place
}

// isSilent reports whether no echo of a session has come for a while.
func (p *former) isSilent(device string, session uint64) bool {
	p.h.w.mu.Lock()
	defer p.h.w.mu.Unlock()
	s := p.h.w.probing(p.h.name, device, session)
	return s == nil || time.Since(s.echoed) > 2*time.Second
}

// silenced returns the pairs that probe in vain, though the peer is of this release.
func (p *former) silenced() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, probe := range p.probes {
		if peer := p.h.w.host(key[1]); peer.former || !peer.has(key[0]) {
			continue // or the peer has no device of this name
		}
		if probe.session == 0 || p.isSilent(key[0], probe.session) {
			all = append(all, fmt.Sprintf("%s of %s probes %s in vain (met: %v)", key[0], p.h.name, key[1], probe.session != 0))
		}
	}
	return all
}
