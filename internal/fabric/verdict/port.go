package verdict

// The verdicts of the host's own port, beside VerdictOK.
const (
	VerdictOwnPort Verdict = "own_port"
	VerdictOwnLink Verdict = "own_link"
)

// PeerVerdict is what is said of a pair, and which host it is with.
type PeerVerdict struct {
	Host    string
	Verdict Verdict
}

// The numbers of the verdict own_link.
const (
	leastPairs = 4
	leastHosts = 2
)

// JudgePort returns the verdict on a port from the verdicts of its pairs within its own group and across to other groups. Pairs that
// say nothing about the network do not count: pairs that start, and pairs whose peer is down or busy or has no active port.
//
// The port's own link is at fault if three quarters of the pairs are bad and the other explanations are not enough: a spine that
// loses what crosses it leaves the pairs within the group well, and a single path that is lost makes pairs partial and no worse.
func JudgePort(active bool, within []PeerVerdict, across ...PeerVerdict) Verdict {
	if !active {
		return VerdictOwnPort
	}
	own, all := tally{}, tally{hosts: map[string]bool{}}
	for _, p := range within {
		own.add(p)
		all.add(p)
	}
	for _, p := range across {
		all.add(p)
	}
	switch {
	case all.known < leastPairs, 4*all.bad < 3*all.known, len(all.hosts) < leastHosts:
		return VerdictOK
	case own.known > 0 && own.bad == 0, all.bad == all.partial:
		return VerdictOK
	}
	return VerdictOwnLink
}

// tally counts the pairs whose verdict says something about the network.
type tally struct {
	known, bad, partial int
	hosts               map[string]bool // of the bad pairs; nil: they are not counted
}

func (t *tally) add(p PeerVerdict) {
	switch {
	case p.Verdict.IsNetwork():
		t.known++
		t.bad++
		if p.Verdict == VerdictPartial {
			t.partial++
		}
		if t.hosts != nil {
			t.hosts[p.Host] = true
		}
	case p.Verdict == VerdictOK:
		t.known++
	}
}
