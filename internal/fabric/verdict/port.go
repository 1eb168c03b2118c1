package verdict

// The verdicts that, beside VerdictOK, apply to a port of this host.
const (
	VerdictOwnPort Verdict = "own_port"
	VerdictOwnLink Verdict = "own_link"
)

// PeerVerdict is the verdict of one pair, with the name of the peer's host.
type PeerVerdict struct {
	Host    string
	Verdict Verdict
}

// The verdict own_link needs at least this many pairs, and bad pairs with this many hosts.
const (
	minPairs = 4
	minHosts = 2
)

// JudgePort derives the verdict of a port from the verdicts of its pairs. within has the pairs within the port's own group, across the pairs
// with other groups. JudgePort ignores pairs that give no evidence about the network: pairs that are starting, and pairs whose peer is down,
// is busy or has no active port.
//
// The port's own link is at fault if three quarters of the pairs are bad and no other fault explains that. A faulty spine leaves the pairs
// within the group ok. The loss of a single path makes pairs partial, never worse.
func JudgePort(active bool, within []PeerVerdict, across ...PeerVerdict) Verdict {
	if !active {
		return VerdictOwnPort
	}
	ownGroup, all := tally{}, tally{hosts: map[string]bool{}}
	for _, p := range within {
		ownGroup.addPair(p)
		all.addPair(p)
	}
	for _, p := range across {
		all.addPair(p)
	}
	switch {
	case all.judged < minPairs, 4*all.bad < 3*all.judged, len(all.hosts) < minHosts:
		return VerdictOK
	case ownGroup.judged > 0 && ownGroup.bad == 0, all.bad == all.partial:
		return VerdictOK
	}
	return VerdictOwnLink
}

// tally counts the pairs whose verdict gives evidence about the network.
type tally struct {
	judged, bad, partial int
	hosts                map[string]bool // hosts of the bad pairs; nil: not collected
}

func (t *tally) addPair(p PeerVerdict) {
	switch {
	case p.Verdict.IsNetwork():
		t.judged++
		t.bad++
		if p.Verdict == VerdictPartial {
			t.partial++
		}
		if t.hosts != nil {
			t.hosts[p.Host] = true
		}
	case p.Verdict == VerdictOK:
		t.judged++
	}
}
