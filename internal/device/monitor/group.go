package monitor

import (
	"fmt"
	"slices"
	"strings"
)

// Group is a set of devices of which the host must have at least Count, whatever their names.
type Group struct {
	Label   string // as the configuration writes it
	Matches func(device string) bool
	Count   int
}

// isCounted reports whether a device with this name belongs to a group.
func isCounted(groups []Group, name string) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return g.Matches(name) })
}

// countMissing returns how many devices all groups together lack, and a text that names the groups. A device counts if it is watched
// and present, if it is released, or if it is in another network namespace: whoever released or moved it knows where it is. A device
// that went to another driver is missing, like one of Expect.
func countMissing(groups []Group, devices []*Device) (missing int, of string) {
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

// isAccountedFor reports whether the device counts as one of its group.
func (d *Device) isAccountedFor() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.present || d.released || d.netns.other
}
