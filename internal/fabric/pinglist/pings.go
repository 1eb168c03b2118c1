package pinglist

import "slices"

// Scope tells whether a peer is in the same group.
type Scope string

// The scopes.
const (
	ScopeGroup  Scope = "group"  // in the same group
	ScopeAcross Scope = "across" // in another group
)

// Peer is a host that another host probes, or that probes it.
type Peer struct {
	Host
	Scope Scope
}

// MaxPings is the maximum number of hosts that probe one host. A port has slots for that many pairs that it answers.
const MaxPings = 32

// Pings returns the hosts that a host probes, at most peers.
//
// If the list has at most peers other hosts, the host probes all of them. Otherwise half of its peers are the next hosts in its own group,
// and half are in other groups. The hosts of a group choose different other groups. If there are fewer other groups than that half, some
// groups provide several hosts. Hosts of the own group replace peers that other groups cannot provide.
//
// At most MaxPings hosts probe the same host. All groups probe each other if they have enough hosts. Adding or removing a host changes few
// pairs. A host that is not in the list probes none.
func (l *List) Pings(host string, peers int) []Peer {
	at, ok := l.index[host]
	if !ok {
		return nil
	}
	g := slices.IndexFunc(l.groups, func(s span) bool { return at < s.to })
	rank := at - l.groups[g].from
	if len(l.hosts) <= peers+1 {
		return append(l.peersWithin(g, rank, peers), l.allAcross(g)...)
	}
	s := l.divide(peers)
	across := l.peersAcross(g, rank, s)
	all := append(l.peersWithin(g, rank, min(s.within, peers-len(across))), across...)
	return append(all, l.morePeersAcross(g, rank, s, peers-len(all))...)
}

// share divides the peers of a host among its own group and other groups. It guarantees that at most MaxPings hosts probe the same host.
// Hosts of a group whose ranks are equal modulo the size of another group probe the same host of that group. Only hosts with a rank below
// turns times that size probe the group, so at most turns times groups hosts of other groups probe one host.
type share struct {
	groups int // number of other groups that a host probes
	within int // maximum number of peers in its own group
	turns  int // hosts that probe a group have a rank below turns times the group's size
	more   int // number of additional peers in each other group; 0 if there are enough groups
}

func (l *List) divide(peers int) share {
	s := share{groups: max(0, min(peers/2, len(l.groups)-1)), within: peers}
	if s.groups == 0 {
		return s
	}
	s.turns = max(1, (MaxPings-peers)/s.groups)
	s.within = min(peers, MaxPings-s.turns*s.groups)
	if s.groups < peers/2 {
		s.more = s.turns / 2
		s.turns -= s.more
	}
	return s
}

// peersWithin returns the next n hosts of group g after the host with a rank in that group.
func (l *List) peersWithin(g, rank, n int) []Peer {
	own := l.groups[g]
	n = min(n, own.size()-1)
	all := make([]Peer, 0, max(n, 0))
	for i := 1; i <= n; i++ {
		all = append(all, Peer{l.hosts[own.from+(rank+i)%own.size()], ScopeGroup})
	}
	return all
}

// allAcross returns the hosts of all groups except g.
func (l *List) allAcross(g int) []Peer {
	var all []Peer
	for n := range len(l.groups) - 1 {
		to := l.groupAfter(g, n)
		for i := range to.size() {
			all = append(all, Peer{l.hosts[to.from+i], ScopeAcross})
		}
	}
	return all
}

// peersAcross returns the peers in other groups of the host with a rank in group g, one for each group.
func (l *List) peersAcross(g, rank int, s share) []Peer {
	all := make([]Peer, 0, s.groups)
	for j := range s.groups {
		to := l.groupAfter(g, s.groups*rank+j)
		if rank < s.turns*to.size() {
			all = append(all, Peer{l.hosts[to.from+rank%to.size()], ScopeAcross})
		}
	}
	return all
}

// morePeersAcross returns at most n additional peers in other groups: the next host of each group, then the one after it, and so on.
func (l *List) morePeersAcross(g, rank int, s share, n int) []Peer {
	var all []Peer
	for turn := 1; turn <= s.more; turn++ {
		for j := range s.groups {
			to := l.groupAfter(g, j)
			if len(all) < n && rank < to.size() && turn < to.size() {
				all = append(all, Peer{l.hosts[to.from+(rank+turn)%to.size()], ScopeAcross})
			}
		}
	}
	return all
}

// groupAfter returns the n-th group after group g, counting from 0. The groups other than g form a ring.
func (l *List) groupAfter(g, n int) span {
	return l.groups[(g+1+n%(len(l.groups)-1))%len(l.groups)]
}

// PingedBy returns the hosts that probe a host, sorted by group and name. The scope of each is the scope of the host among the peers of that prober.
func (l *List) PingedBy(host string, peers int) []Peer {
	var all []Peer
	for _, h := range l.hosts {
		for _, p := range l.Pings(h.Name, peers) {
			if p.Name == host {
				all = append(all, Peer{h, p.Scope})
			}
		}
	}
	return all
}
