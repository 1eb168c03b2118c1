package cause

import (
	"cmp"
	"slices"
	"strings"
)

// rank is how early a counter stands in Top.
type rank int

const (
	relevant rank = iota // may explain what happened
	traffic              // grows with traffic or with time
	reset                // went back, by an unknown number
	level                // no counter: how many there are now, not how often something happened
)

// ranks decides by a part of a counter's name, in lower case: the first row with such a part
// counts. A counter with none of them is relevant, since an unknown name may be the one that
// explains.
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
		"loss, damage, repetition, flow control and congestion, also where the rest of the name means traffic: " +
			"np_ecn_marked_roce_packets, rx_undersize_pkts_phy, no_completion_cmds",
	},
	{
		traffic, []string{
			"byte", "octet", "_data", "packet", "pkt", "frame", "unicast", "multicast", "broadcast", "ucast", "mcast", "bcast",
			"requests", "sends", "recvs", "_wrs",
		},
		"applications move them by millions a second, which would fill every place",
	},
	{
		traffic, []string{"_cmds", "keep_alive"},
		"efa counts the commands of the driver, those of this plugin included, and the device's signs of life",
	},
}

func rankOf(name string) rank {
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
	return rankOf(d.Name)
}

// Top returns the n counters that moved most, as in "rx_prio3_pause +48213, symbol_error +17":
// first those that may explain something, then traffic, and those that were reset at the end. Of two sources with one name it has the one
// that moved more. It is "" if no counter moved.
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
