package cause

import (
	"cmp"
	"slices"
	"strings"
)

// rank orders counters in Top: a lower rank comes first.
type rank int

const (
	relevant rank = iota // may explain what happened
	traffic              // grows with traffic or with time
	reset                // fell, so that its growth is unknown
	level                // no counter: a present number, not a count of occurrences
)

// ranks gives a counter its rank by a part of its name, in lower case: the first row with a
// matching part decides. Any other counter is relevant, since an unknown counter may be the
// one that explains the trigger.
var ranks = []struct {
	rank   rank
	parts  []string
	reason string
}{
	{
		level, []string{"active_", "watermark_", "lifespan"},
		"bnxt_re lists how many objects exist (active_qps) and existed at most (watermark_qps); lifespan is for how long a reading is kept",
	},
	{
		relevant, []string{
			"pause", "discard", "drop", "error", "_err", "err_", "crc", "symbol", "cnp", "ecn", "out_of_", "duplicate", "retrans",
			"oversize", "undersize", "jabber", "fragment", "wait", "no_completion",
		},
		"loss, damage, repetition, flow control and congestion, even if the rest of the name stands for traffic: " +
			"np_ecn_marked_roce_packets, rx_undersize_pkts_phy, no_completion_cmds",
	},
	{
		traffic, []string{
			"byte", "octet", "_data", "packet", "pkt", "frame", "unicast", "multicast", "broadcast", "ucast", "mcast", "bcast",
			"requests", "sends", "recvs", "_wrs",
		},
		"applications move them by millions a second, so that they would fill the list",
	},
	{
		traffic, []string{"_cmds", "keep_alive"},
		"efa counts the commands of the driver, including the plugin's, and the device's keep-alive messages",
	},
}

// rankByName returns the rank of a counter that has not been reset.
func rankByName(name string) rank {
	name = strings.ToLower(name)
	for _, r := range ranks {
		if slices.ContainsFunc(r.parts, func(part string) bool { return strings.Contains(name, part) }) {
			return r.rank
		}
	}
	return relevant
}

func (d Delta) rank() rank {
	if d.Reset {
		return reset
	}
	return rankByName(d.Name)
}

// Top returns the n counters that moved most, as in "rx_prio3_pause +48213, symbol_error +17".
// Counters that may explain something come first, then traffic, and counters that were reset come
// last. If two sources have a counter of the same name, Top has the one that moved more. It is ""
// if no counter moved.
func (d Deltas) Top(n int) string {
	order := slices.Clone(d)
	slices.SortStableFunc(order, func(a, b Delta) int {
		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()),
			cmp.Compare(b.By, a.By),
			cmp.Compare(a.Name, b.Name),
		)
	})
	var words []string
	seen := map[string]bool{}
	for _, one := range order {
		if len(words) >= n {
			break
		}
		if !seen[one.Name] {
			seen[one.Name] = true
			words = append(words, one.String())
		}
	}
	return strings.Join(words, ", ")
}
