package monitor

import (
	"fmt"
	"slices"
	"strings"
)

// Group is a set of devices of which the host must have a number, whatever their names are.
type Group struct {
	Label   string // as the configuration writes it
	Matches func(device string) bool
	Count   int
}

// isCounted reports whether a device of this name is one of a group.
func isCounted(groups []Group, name string) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return g.Matches(name) })
}

// missingOfGroups returns how many devices the groups lack together, and in words which. A device counts if it is watched and present, if
// it is released, and if it is in another network namespace: whoever released or borrowed it knows where it is. One that went to another
// driver is missing, as one of Expect is.
func missingOfGroups(groups []Group, devices []*Device) (missing int, of string) {
	var texts []string
	for _, g := range groups {
		n := 0
		for _, d := range devices {
			if g.Matches(d.name) && d.isAccountedFor() {
				n++
			}
		}
		if n < g.Count {
			missing += g.Count - n
			texts = append(texts, fmt.Sprintf("%d of %d that match %s", g.Count-n, g.Count, g.Label))
		}
	}
	return missing, strings.Join(texts, "; ")
}

func (d *Device) isAccountedFor() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.present || d.released || d.netns.other
}
