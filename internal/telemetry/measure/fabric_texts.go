package measure

import (
	"strings"

	"rdma_events/internal/fabric/verdict"
)

// verdictsText returns the names of the verdicts that which selects, the worst first, such as "path, partial or lossy_both".
func verdictsText(which func(*verdict.Row) bool) string {
	var words []string
	for _, r := range verdict.Verdicts() {
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

// blamesText returns each party that verdicts on pairs blame with its verdicts, such as "the peer (peer_port or peer_down)".
func blamesText() string {
	var parts []string
	for _, whom := range []struct {
		blame verdict.Blame
		text  string
	}{
		{verdict.BlameOwn, "the port of this host"}, {verdict.BlameNetwork, "the network"}, {verdict.BlamePeer, "the peer"}, {verdict.BlameNobody, "nobody"},
	} {
		words := verdictsText(func(r *verdict.Row) bool { return r.OfPair && r.Blames == whom.blame })
		parts = append(parts, whom.text+" ("+words+")")
	}
	return strings.Join(parts, ", ")
}

// portVerdictsText returns each verdict on a port itself with its meaning.
func portVerdictsText() string {
	var parts []string
	for _, r := range verdict.Verdicts() {
		if r.OfPort && r.Verdict != verdict.VerdictOK {
			parts = append(parts, string(r.Verdict)+" ("+r.Verdict.Text()+")")
		}
	}
	return strings.Join(parts, " or ")
}

// reasonsText returns each reason with its meaning.
func reasonsText() string {
	var parts []string
	for _, r := range verdict.Reasons() {
		parts = append(parts, string(r.Reason)+" ("+r.Text+")")
	}
	return strings.Join(parts, ", ")
}
