package main

import (
	"fmt"
	"strings"

	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/verbs"
)

// snapshotTable returns the text and the table of the commands that snapshots make a device execute.
func snapshotTable(all []drivers.Driver, p drivers.Pace) string {
	var b strings.Builder
	b.WriteString(wrapText("", "", fmt.Sprintf("Commands for the snapshots of one port: one snapshot every %s, and after triggers at most "+
		"%d a minute. The last three columns are for `evidence.ethtool = \"all\"`. "+
		"Read in the drivers' sources, and not run on a device.", formatSeconds(p.Snapshot), p.Triggered)) + "\n")
	b.WriteString("| driver | files in `counters`, `hw_counters` | `counters` | `hw_counters` | link state | per snapshot | " +
		"per minute, at most | statistics | per snapshot | per minute, at most |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, d := range all {
		for _, layer := range linkLayers(d) {
			b.WriteString(snapshotRow(d, layer, p))
		}
	}
	b.WriteString("| **disable with** | | `evidence.snapshot_interval = \"0s\"` | the same | the same, or `evidence.ethtool = \"off\"` | " +
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
		rowName(d, layer), fmt.Sprintf("%d, %d", d.Files.Counters, d.Files.HWCounters),
		fmt.Sprint(d.Files.Counters * c[drivers.LinkDowned]), fmt.Sprint(d.Files.HWCounterQueries * c[drivers.HWCounter]), fmt.Sprint(c[drivers.LinkState]),
		fmt.Sprint(link.One), fmt.Sprint(link.Most),
		formatQueueCost(c[drivers.Statistics], queue), formatQueueCost(full.One, queue), formatQueueCost(full.Most, most*queue),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// formatQueueCost returns a number of commands, with the number that each queue adds.
func formatQueueCost(n, queue int) string {
	if queue == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d + %d a queue", n, queue)
}
