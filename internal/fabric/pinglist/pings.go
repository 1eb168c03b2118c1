package pinglist

import "slices"

// Scope says where the peer of a host is.
type Scope string

// The scopes.
const (
	ScopeGroup  Scope = "group"  // in the host's own group
	ScopeAcross Scope = "across" // in another one
)

// Peer is a host that another one pings.
type Peer struct {
	Host
	Scope Scope
}

// MaxPings is how many hosts may ping one host: a port has room for so many pairs that it answers.
const MaxPings = 32

// Pings returns the hosts that a host pings, at most peers. In a list that is not longer than that, it pings all others. Else half
// of them are those after it in its own group, and half in other groups, of which each host of the group takes others. What
// other groups cannot give is taken from its own, and where there are fewer other groups than that half, some give more than one
// host. At most MaxPings hosts ping the same one. All groups ping each other, if a group has hosts enough, and a host more or
// less in a group changes few pairs. A host that is not in the list pings none.
func (l *List) Pings(host string, peers int) []Peer {
	at, ok := l.at[host]
	if !ok {
		return nil
	}
	g := slices.IndexFunc(l.groups, func(s span) bool { return at < s.to })
	rank := at - l.groups[g].from
	if len(l.hosts) <= peers+1 {
		return append(l.within(g, rank, peers), l.others(g)...)
	}
	s := l.share(peers)
	across := l.across(g, rank, s)
	all := append(l.within(g, rank, min(s.within, peers-len(across))), across...)
	return append(all, l.moreAcross(g, rank, s, peers-len(all))...)
}

// share divides the pings of a host among its own group and the others. Its bounds keep every host below MaxPings: hosts of a
// group whose ranks are equal modulo the size of another group ping the same host of it. If only ranks below turns times that size
// ping that group, a host is pinged by at most turns times groups hosts of other groups.
type share struct {
	groups int // the number of other groups that a host pings
	within int // the most hosts of its own group
	turns  int // the ranks that ping a group are below turns times its size
	more   int // how many more hosts of each group are pinged; 0 if there are enough groups
}

func (l *List) share(peers int) share {
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

// within returns the n hosts after the one of a rank in its group g.
func (l *List) within(g, rank, n int) []Peer {
	own := l.groups[g]
	n = min(n, own.size()-1)
	all := make([]Peer, 0, max(n, 0))
	for i := 1; i <= n; i++ {
		all = append(all, Peer{l.hosts[own.from+(rank+i)%own.size()], ScopeGroup})
	}
	return all
}

// others returns the hosts of all groups but g.
func (l *List) others(g int) []Peer {
	var all []Peer
	for n := range len(l.groups) - 1 {
		to := l.groupAfter(g, n)
		for i := range to.size() {
			all = append(all, Peer{l.hosts[to.from+i], ScopeAcross})
		}
	}
	return all
}

// across returns hosts of other groups for the host of a rank in group g: one in each.
func (l *List) across(g, rank int, s share) []Peer {
	all := make([]Peer, 0, s.groups)
	for j := range s.groups {
		to := l.groupAfter(g, s.groups*rank+j)
		if rank < s.turns*to.size() {
			all = append(all, Peer{l.hosts[to.from+rank%to.size()], ScopeAcross})
		}
	}
	return all
}

// moreAcross returns at most n more hosts of other groups: the next one of each, then the one after that of each, and so on.
func (l *List) moreAcross(g, rank int, s share, n int) []Peer {
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

// groupAfter returns the n-th of the groups after group g, which come round again.
func (l *List) groupAfter(g, n int) span {
	return l.groups[(g+1+n%(len(l.groups)-1))%len(l.groups)]
}

// PingedBy returns the hosts that ping a host, each with the scope that it has for them, by group and name.
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
