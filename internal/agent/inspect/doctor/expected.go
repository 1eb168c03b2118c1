package doctor

import (
	"fmt"
	"slices"

	"rdma_events/internal/agent/advice"
)

// Expected lists the devices that the configuration requires, by expect and by the sections expected.
type Expected struct {
	Names  []string // each must be present
	Groups []ExpectedGroup
}

// ExpectedGroup is a section expected with a glob. Count devices must match.
type ExpectedGroup struct {
	Label   string // names and globs as in the configuration
	Matches func(device string) bool
	Count   int
}

// checkExpected reports required devices that are missing. A device that is released or in another network namespace
// counts as present: whoever released or borrowed it knows where it is.
func checkExpected(x *examination) []Result {
	const name = "expected"
	e := x.plugin.Expected
	if len(e.Names)+len(e.Groups) == 0 {
		return nil
	}
	var results []Result
	there := x.listAccountedFor()
	for _, device := range e.Names {
		if !slices.Contains(there, device) && x.releasedUntil(device) == "" {
			results = append(results, Result{Check: name, Subject: device, Status: Fail, Fix: x.command(advice.ShowCards),
				Text: "the configuration expects it, but it is missing (alert device-missing): check whether its PCI function exists and, if so, " +
					"read the kernel log; if the device was taken out for good or renamed, change the configuration"})
		}
	}
	for _, g := range e.Groups {
		n := len(slices.DeleteFunc(slices.Clone(there), func(device string) bool { return !g.Matches(device) }))
		if n < g.Count {
			results = append(results, Result{Check: name, Status: Fail, Fix: x.command(advice.ShowCards),
				Text: fmt.Sprintf("%d of %d devices that match %s are there (alert devices-too-few): compare the cards with those of a host of the same kind",
					n, g.Count, g.Label)})
		}
	}
	if len(results) == 0 {
		results = []Result{{Check: name, Text: "all devices that the configuration expects are there"}}
	}
	return results
}

// listAccountedFor returns the devices that are watched, released, or in another network namespace.
func (x *examination) listAccountedFor() []string {
	var there []string
	for i := range x.devices {
		there = append(there, x.devices[i].Name)
	}
	for _, r := range x.released {
		there = append(there, r.Subject)
	}
	for _, device := range x.findHiddenDevices() {
		if x.plugin.Watches == nil || x.plugin.Watches(device) {
			there = append(there, device)
		}
	}
	return there
}
