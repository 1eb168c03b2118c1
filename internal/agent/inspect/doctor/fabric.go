package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// FabricConfig is the part of the plugin's configuration about probes between hosts.
type FabricConfig struct {
	Host      string // of this one in the list
	PeersFile string
	KeyFile   string // or the next three
	TLSCert   string
	TLSKey    string
	TLSCA     string

	Probe        bool
	Peers        int
	Listen       string // "": other hosts are not answered
	TrafficClass int
	GIDIndex     int                      // -1: one that fits the peer's
	Wants        func(device string) bool // of those that the plugin watches

	// Greet greets a host as the plugin does, and returns the digest of its list. It blocks until the answer, or ctx ends. why
	// says what is wrong, and the error has it in words.
	Greet func(ctx context.Context, host pinglist.Host, digest string) (theirs string, why verdict.Reason, err error)
	// TryListen takes the port of Listen for a moment. Its error says why it cannot.
	TryListen func(ctx context.Context) error
}

const (
	// greetLimit is how long another host may take to answer.
	greetLimit = 2 * time.Second
	// greetHosts is how many hosts are greeted.
	greetHosts = 2
)

// hosts is what was found out about probes between hosts.
type hosts struct {
	*FabricConfig
	list      *pinglist.List
	listErr   error
	own       pinglist.Host
	listed    bool
	pings     []pinglist.Peer
	greetings []*greeting
	listenErr error
	self      *greeting // nil: the port is free, or there is none
}

// greeting is what came of greeting a host.
type greeting struct {
	host   pinglist.Host
	theirs string // the digest of its list
	why    verdict.Reason
	err    error
}

// tryHosts reads the list of hosts, greets some of them, and tries the port on which they are answered, if hosts are probed.
func (x *examination) tryHosts(ctx context.Context) {
	if x.plugin.Fabric == nil || x.plugin.Simulated {
		return
	}
	h := &hosts{FabricConfig: x.plugin.Fabric}
	x.hosts = h
	text, err := fs.ReadFile(x.Root, inspect.Relative(h.PeersFile))
	if err == nil {
		h.list, err = pinglist.ParseList(bytes.NewReader(text))
	}
	if h.listErr = err; err != nil {
		h.list, _ = pinglist.ParseList(bytes.NewReader(nil)) // it has no line that can be wrong
	}
	h.own, h.listed = h.list.Host(h.Host)
	if h.Probe {
		h.pings = h.list.Pings(h.Host, h.Peers)
	}
	var all sync.WaitGroup
	for _, p := range chosen(h.pings) {
		g := &greeting{host: p.Host}
		h.greetings = append(h.greetings, g)
		all.Go(func() { h.greet(ctx, g) })
	}
	all.Go(func() { h.listen(ctx) })
	all.Wait()
}

// chosen returns the hosts to greet: one of the own group and one of another, if there are such.
func chosen(pings []pinglist.Peer) []pinglist.Peer {
	all := slices.Clone(pings)
	if i := slices.IndexFunc(all, func(p pinglist.Peer) bool { return p.Scope == pinglist.ScopeAcross }); i > 1 {
		all[1], all[i] = all[i], all[1]
	}
	return all[:min(len(all), greetHosts)]
}

func (h *hosts) greet(ctx context.Context, g *greeting) {
	ctx, stop := context.WithTimeout(ctx, greetLimit)
	defer stop()
	g.theirs, g.why, g.err = h.Greet(ctx, g.host, h.list.Digest())
}

// listen tries the port. If another program has it, that is greeted: it may be the running plugin.
func (h *hosts) listen(ctx context.Context) {
	if h.Listen == "" {
		return
	}
	if h.listenErr = h.TryListen(ctx); !errors.Is(h.listenErr, unix.EADDRINUSE) {
		return
	}
	host, port, err := net.SplitHostPort(h.Listen)
	if err != nil {
		return // it is not allowed, and checkTelegraf says so
	}
	if a := net.ParseIP(host); host == "" || a != nil && a.IsUnspecified() {
		host = "localhost"
	}
	h.self = &greeting{host: pinglist.Host{Name: h.Host, Address: net.JoinHostPort(host, port)}}
	h.greet(ctx, h.self)
}

// checkFabric examines what probes between hosts need, if hosts are probed.
func checkFabric(x *examination) []Result {
	if x.hosts == nil {
		return nil
	}
	var all []Result
	for _, c := range []check{
		checkHostList, checkFabricKey, checkFabricPorts, checkFabricAddresses, checkFabricClass, checkFabricListen, checkGreetings,
	} {
		all = append(all, c(x)...)
	}
	return all
}

// checkHostList reports the list, and whether it has this host and others.
func checkHostList(x *examination) []Result {
	h := x.hosts
	r := Result{Check: "fabric_list", Subject: h.PeersFile, Status: Fail, Fix: x.line(advice.EditFile, h.PeersFile)}
	switch {
	case errors.Is(h.listErr, fs.ErrPermission):
		r.Text, r.Fix = fmt.Sprintf("user %d may not read it", x.UID), x.line(advice.LetListBeRead, h.PeersFile)
	case h.listErr != nil:
		r.Text = oneLine(bare(h.listErr))
	case h.list.Len() == 0:
		r.Text = "it has no hosts, so that this one neither probes others nor answers them"
	case !h.listed:
		r.Text = fmt.Sprintf("it has no host %q, so that this one neither probes others nor answers them: add it, or set fabric.host", h.Host)
	case h.list.Len() < 2:
		r.Status, r.Text = Warn, "it has no other host than this one, so that none is probed"
	default:
		r.Status, r.Fix = OK, advice.Line{}
		r.Text = fmt.Sprintf("%d hosts in %d groups, list %s; %s of %s pings %d of them",
			h.list.Len(), h.list.Groups(), h.list.Digest(), h.Host, h.own.Group, len(h.pings))
	}
	return []Result{r}
}

// checkFabricListen reports whether other hosts can be answered.
func checkFabricListen(x *examination) []Result {
	h := x.hosts
	r := Result{Check: "fabric_listen", Subject: h.Listen}
	switch {
	case h.Listen == "":
		r.Status, r.Text = Skipped, `fabric.listen is "": other hosts are not answered`
	case h.listenErr == nil:
		r.Text = "the port is free"
	case h.self == nil:
		r.Status, r.Text, r.Fix = Fail, oneLine(h.listenErr), x.editConfig()
	case slices.Contains([]verdict.Reason{verdict.ReasonNone, verdict.ReasonNotListed, verdict.ReasonVersion}, h.self.why):
		r.Text = "the running plugin has the port" // who answers so has proved that he has the key and the name of this host
	case h.self.why == verdict.ReasonKey:
		r.Status, r.Text, r.Fix = Warn, "a program with another key has the port", x.whoListens()
	default:
		r.Status, r.Text, r.Fix = Fail, "another program has the port", x.whoListens()
	}
	return []Result{r}
}

func (x *examination) whoListens() advice.Line {
	_, port, _ := net.SplitHostPort(x.hosts.Listen) // it was split before
	return x.line(advice.ShowListener, port)
}

// checkGreetings reports what came of greeting some hosts.
func checkGreetings(x *examination) []Result {
	var results []Result
	for _, g := range x.hosts.greetings {
		results = append(results, x.checkGreeting(g))
	}
	if len(results) == 0 {
		return []Result{{Check: "fabric_peers", Status: Skipped, Text: "there is no host to greet"}}
	}
	return results
}

func (x *examination) checkGreeting(g *greeting) Result {
	r := Result{Check: "fabric_peers", Subject: g.host.Name, Status: Warn}
	r.Fix = x.line(advice.DiagnosePeer, g.host.Address, x.Config)
	switch {
	case g.why != verdict.ReasonNone:
		r.Text = g.why.Text()
		if g.why == verdict.ReasonNoResponder && g.err != nil {
			r.Text += " (" + oneLine(g.err) + ")"
		}
		if fix := g.why.Fix(); fix != "" {
			r.Text += "; " + fix
		}
	case g.err != nil:
		r.Text = oneLine(g.err)
	case g.theirs != x.hosts.list.Digest():
		r.Text = fmt.Sprintf("it answers, and has another list: %s instead of %s", g.theirs, x.hosts.list.Digest())
	default:
		r.Status, r.Fix, r.Text = OK, advice.Line{}, "it answers, and has the same list"
	}
	return r
}
