package measure

import (
	"strings"

	"rdma_events/internal/fabric"
)

// verdictsText returns the words of some verdicts, the worst first, as in "path, partial or lossy_both".
func verdictsText(which func(*fabric.VerdictRow) bool) string {
	var words []string
	for _, r := range fabric.Verdicts() {
		if which(&r) {
			words = append(words, string(r.Verdict))
		}
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// blamesText returns whom the verdicts of pairs blame, as in "the peer (peer_port or peer_down)".
func blamesText() string {
	var parts []string
	for _, whom := range []struct {
		blame fabric.Blame
		text  string
	}{
		{fabric.BlameOwn, "the own port"}, {fabric.BlameNetwork, "the network"}, {fabric.BlamePeer, "the peer"}, {fabric.BlameNobody, "nobody"},
	} {
		words := verdictsText(func(r *fabric.VerdictRow) bool { return r.OfPair && r.Blames == whom.blame })
		parts = append(parts, whom.text+" ("+words+")")
	}
	return strings.Join(parts, ", ")
}

// portVerdictsText returns what each verdict on a port itself means.
func portVerdictsText() string {
	var parts []string
	for _, r := range fabric.Verdicts() {
		if r.OfPort && r.Verdict != fabric.VerdictOK {
			parts = append(parts, string(r.Verdict)+" ("+r.Verdict.Text()+")")
		}
	}
	return strings.Join(parts, " or ")
}

// reasonsText returns what each reason means.
func reasonsText() string {
	var parts []string
	for _, r := range fabric.Reasons() {
		parts = append(parts, string(r.Reason)+" ("+r.Text+")")
	}
	return strings.Join(parts, ", ")
}
