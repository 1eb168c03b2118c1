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
	Host      string // name of this host in the list
	PeersFile string
	KeyFile   string // alternative to the next three
	TLSCert   string
	TLSKey    string
	TLSCA     string

	Probe          bool
	Peers          int
	Listen         string // "": the plugin does not listen
	TrafficClass   int
	GIDIndex       int                      // -1: chosen to fit the peer's
	IncludesDevice func(device string) bool // for devices that the plugin watches

	// Greet connects to a host as the plugin does, and returns the digest of that host's list. It blocks until the host
	// answers or ctx ends. why classifies the error.
	Greet func(ctx context.Context, host pinglist.Host, digest string) (theirs string, why verdict.Reason, err error)
	// TryListen listens on Listen for a moment. Its error tells why it cannot.
	TryListen func(ctx context.Context) error
}

const (
	// greetTimeout is the time limit for the answer of another host.
	greetTimeout = 2 * time.Second
	// greetCount is the number of hosts to which the doctor connects.
	greetCount = 2
)

// fabricFindings contains the facts about probes between hosts.
type fabricFindings struct {
	*FabricConfig
	list      *pinglist.List
	listErr   error
	own       pinglist.Host
	isListed  bool
	pings     []pinglist.Peer
	greetings []*greeting
	listenErr error
	portOwner *greeting // answer on the own port if it is in use; else nil
}

// greeting is the result of connecting to a host.
type greeting struct {
	host        pinglist.Host
	theirDigest string // digest of the host's list
	why         verdict.Reason
	err         error
}

// tryFabric reads the list of hosts, connects to some of them, and tries to listen on the plugin's port. It does
// nothing if probes between hosts are off.
func (x *examination) tryFabric(ctx context.Context) {
	if x.plugin.Fabric == nil || x.plugin.Simulated {
		return
	}
	h := &fabricFindings{FabricConfig: x.plugin.Fabric}
	x.fabric = h
	text, err := fs.ReadFile(x.Root, inspect.Relative(h.PeersFile))
	if err == nil {
		h.list, err = pinglist.ParseList(bytes.NewReader(text))
	}
	if h.listErr = err; err != nil {
		h.list, _ = pinglist.ParseList(bytes.NewReader(nil)) // an empty list is always valid
	}
	h.own, h.isListed = h.list.Host(h.Host)
	if h.Probe {
		h.pings = h.list.Pings(h.Host, h.Peers)
	}
	var all sync.WaitGroup
	for _, p := range chooseHosts(h.pings) {
		g := &greeting{host: p.Host}
		h.greetings = append(h.greetings, g)
		all.Go(func() { h.greetHost(ctx, g) })
	}
	all.Go(func() { h.tryPort(ctx) })
	all.Wait()
}

// chooseHosts returns the hosts to connect to: one of the own group and one of another group, if they exist.
func chooseHosts(pings []pinglist.Peer) []pinglist.Peer {
	all := slices.Clone(pings)
	if i := slices.IndexFunc(all, func(p pinglist.Peer) bool { return p.Scope == pinglist.ScopeAcross }); i > 1 {
		all[1], all[i] = all[i], all[1]
	}
	return all[:min(len(all), greetCount)]
}

func (h *fabricFindings) greetHost(ctx context.Context, g *greeting) {
	ctx, stop := context.WithTimeout(ctx, greetTimeout)
	defer stop()
	g.theirDigest, g.why, g.err = h.Greet(ctx, g.host, h.list.Digest())
}

// tryPort tries to listen on the plugin's port. If the port is in use, it connects to it, because the running plugin
// may use it.
func (h *fabricFindings) tryPort(ctx context.Context) {
	if h.Listen == "" {
		return
	}
	if h.listenErr = h.TryListen(ctx); !errors.Is(h.listenErr, unix.EADDRINUSE) {
		return
	}
	host, port, err := net.SplitHostPort(h.Listen)
	if err != nil {
		return // checkTelegraf reports the invalid address
	}
	if a := net.ParseIP(host); host == "" || a != nil && a.IsUnspecified() {
		host = "localhost"
	}
	h.portOwner = &greeting{host: pinglist.Host{Name: h.Host, Address: net.JoinHostPort(host, port)}}
	h.greetHost(ctx, h.portOwner)
}

// checkFabric runs the checks for probes between hosts, if these are configured.
func checkFabric(x *examination) []Result {
	if x.fabric == nil {
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

// checkHostList checks that the list can be read and contains this host and others.
func checkHostList(x *examination) []Result {
	h := x.fabric
	r := Result{Check: "fabric_list", Subject: h.PeersFile, Status: Fail, Fix: x.command(advice.EditFile, h.PeersFile)}
	switch {
	case errors.Is(h.listErr, fs.ErrPermission):
		r.Text, r.Fix = fmt.Sprintf("user %d may not read it", x.UID), x.command(advice.LetListBeRead, h.PeersFile)
	case h.listErr != nil:
		r.Text = oneLine(withoutPath(h.listErr))
	case h.list.Len() == 0:
		r.Text = "it has no hosts, so this host neither probes others nor answers them"
	case !h.isListed:
		r.Text = fmt.Sprintf("it has no host %q, so this host neither probes others nor answers them: add it, or set fabric.host", h.Host)
	case h.list.Len() < 2:
		r.Status, r.Text = Warn, "it lists no host but this one, so none is probed"
	default:
		r.Status, r.Fix = OK, advice.Line{}
		r.Text = fmt.Sprintf("%d hosts in %d groups, list %s; %s of %s pings %d of them",
			h.list.Len(), h.list.Groups(), h.list.Digest(), h.Host, h.own.Group, len(h.pings))
	}
	return []Result{r}
}

// checkFabricListen reports whether the plugin can listen for other hosts.
func checkFabricListen(x *examination) []Result {
	h := x.fabric
	r := Result{Check: "fabric_listen", Subject: h.Listen}
	switch {
	case h.Listen == "":
		r.Status, r.Text = Skipped, `fabric.listen is "": other hosts are not answered`
	case h.listenErr == nil:
		r.Text = "the port is free"
	case h.portOwner == nil:
		r.Status, r.Text, r.Fix = Fail, oneLine(h.listenErr), x.editConfig()
	case slices.Contains([]verdict.Reason{verdict.ReasonNone, verdict.ReasonNotListed, verdict.ReasonVersion}, h.portOwner.why):
		r.Text = "the running plugin has the port" // this answer proves that the peer has the key and the name of this host
	case h.portOwner.why == verdict.ReasonKey:
		r.Status, r.Text, r.Fix = Warn, "a program with another key has the port", x.showListener()
	default:
		r.Status, r.Text, r.Fix = Fail, "another program has the port", x.showListener()
	}
	return []Result{r}
}

func (x *examination) showListener() advice.Line {
	_, port, _ := net.SplitHostPort(x.fabric.Listen) // tryPort has split it before
	return x.command(advice.ShowListener, port)
}

// checkGreetings reports the results of connecting to other hosts.
func checkGreetings(x *examination) []Result {
	var results []Result
	for _, g := range x.fabric.greetings {
		results = append(results, x.checkGreeting(g))
	}
	if len(results) == 0 {
		return []Result{{Check: "fabric_peers", Status: Skipped, Text: "there is no other host to contact"}}
	}
	return results
}

func (x *examination) checkGreeting(g *greeting) Result {
	r := Result{Check: "fabric_peers", Subject: g.host.Name, Status: Warn}
	r.Fix = x.command(advice.DiagnosePeer, g.host.Address, x.Config)
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
	case g.theirDigest != x.fabric.list.Digest():
		r.Text = fmt.Sprintf("it answers, but has another list: %s instead of %s", g.theirDigest, x.fabric.list.Digest())
	default:
		r.Status, r.Fix, r.Text = OK, advice.Line{}, "it answers, and has the same list"
	}
	return r
}
