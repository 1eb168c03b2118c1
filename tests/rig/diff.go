package rig

import (
	"fmt"
	"slices"
	"strings"
)

// Diff returns the lines that only one of the two texts has, for comparison with
// a golden file.
func Diff(want, got string) string {
	var b strings.Builder
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, line := range wants {
		if !slices.Contains(gots, line) {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	for _, line := range gots {
		if !slices.Contains(wants, line) {
			fmt.Fprintf(&b, "+ %s\n", line)
		}
	}
	return b.String()
}
