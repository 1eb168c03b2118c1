package fabric

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

// Pings returns the hosts that a host pings, at most peers: half of them are those after it in its own group, and half in
// other groups, of which each host of the group takes others. What other groups cannot give is taken from its own. All
// groups ping each other, if a group has hosts enough, and a host more or less in a group changes few pairs. A host
// that is not in the list pings none.
func (l *List) Pings(host string, peers int) []Peer {
	at, ok := l.at[host]
	if !ok {
		return nil
	}
	g := slices.IndexFunc(l.groups, func(s span) bool { return at < s.to })
	across := l.across(g, at-l.groups[g].from, peers/2)
	return append(l.within(g, at, peers-len(across)), across...)
}

// within returns the n hosts after a host of group g.
func (l *List) within(g, at, n int) []Peer {
	own := l.groups[g]
	n = min(n, own.size()-1)
	all := make([]Peer, 0, max(n, 0))
	for i := 1; i <= n; i++ {
		next := own.from + (at-own.from+i)%own.size()
		all = append(all, Peer{l.hosts[next], ScopeGroup})
	}
	return all
}

// across returns n hosts of other groups for the host of a rank in group g: one in each.
func (l *List) across(g, rank, n int) []Peer {
	others := len(l.groups) - 1
	n = min(n, others)
	all := make([]Peer, 0, max(n, 0))
	for j := range n {
		to := l.groups[(g+1+(n*rank+j)%others)%len(l.groups)]
		all = append(all, Peer{l.hosts[to.from+rank%to.size()], ScopeAcross})
	}
	return all
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
