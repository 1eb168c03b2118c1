package main

import (
	"fmt"
	"strings"

	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/verbs"
)

// snapshots returns the text and table of the commands that snapshots make a device execute.
func snapshots(all []drivers.Driver, p drivers.Pace) string {
	var b strings.Builder
	b.WriteString(wrap("", "", fmt.Sprintf("Commands of the device for snapshots of one port: one every %s, and after causes at most "+
		"%d a minute. The last three columns are for `evidence.ethtool = \"all\"`. This was read in the drivers' sources, and not "+
		"run on a device.", seconds(p.Snapshot), p.Triggered)) + "\n")
	b.WriteString("| driver | files of `counters`, `hw_counters` | for `counters` | for `hw_counters` | for the link | a snapshot | " +
		"a minute, at most | for statistics | a snapshot | a minute, at most |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, d := range all {
		for _, layer := range layers(d) {
			b.WriteString(snapshotRow(d, layer, p))
		}
	}
	b.WriteString("| **switched off by** | | `evidence.snapshot_interval = \"0s\"` | the same | the same, or `evidence.ethtool = \"off\"` | " +
		"`evidence.snapshot_interval = \"0s\"` | the same | `evidence.ethtool = \"link\"` or `\"off\"` | the same | the same |\n")
	return b.String()
}

func snapshotRow(d drivers.Driver, layer verbs.LinkLayer, p drivers.Pace) string {
	c := d.On(layer)
	link, full := p.Snapshots(d, c, verbs.EthtoolLink), p.Snapshots(d, c, verbs.EthtoolAll)
	queue, most := c[drivers.QueueStatistics], 0
	if full.One > 0 {
		most = full.Most / full.One
	}
	cells := []string{
		named(d, layer), fmt.Sprintf("%d, %d", d.Files.Counters, d.Files.HWCounters),
		fmt.Sprint(d.Files.Counters * c[drivers.LinkDowned]), fmt.Sprint(d.Files.Asking * c[drivers.HWCounter]), fmt.Sprint(c[drivers.LinkState]),
		fmt.Sprint(link.One), fmt.Sprint(link.Most),
		withQueues(c[drivers.Statistics], queue), withQueues(full.One, queue), withQueues(full.Most, most*queue),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// withQueues returns a number of commands, and those that each queue adds.
func withQueues(n, queue int) string {
	if queue == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d + %d a queue", n, queue)
}
