package fabric

// The verdicts of the host's own port, beside VerdictOK.
const (
	VerdictOwnPort Verdict = "own_port" // it is not active: its pairs rest, and nothing is said of peers
	VerdictOwnLink Verdict = "own_link" // what many pairs say at once is the fault of what they share
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

// JudgePort returns what follows for a port from the verdicts of its pairs. Pairs that say nothing of the network do not
// count: those that start, and those whose peer is down or busy or has no active port.
func JudgePort(active bool, pairs []PeerVerdict) Verdict {
	if !active {
		return VerdictOwnPort
	}
	known, bad := 0, 0
	hosts := map[string]bool{}
	for _, p := range pairs {
		switch {
		case p.Verdict.IsNetwork():
			bad++
			hosts[p.Host] = true
			known++
		case p.Verdict == VerdictOK:
			known++
		}
	}
	if known >= leastPairs && 4*bad >= 3*known && len(hosts) >= leastHosts {
		return VerdictOwnLink
	}
	return VerdictOK
}
