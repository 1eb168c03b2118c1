package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/verbs"
)

// overviewTable returns the table of what each driver supports, and on what it has been tried.
func overviewTable(all []drivers.Driver) string {
	var b strings.Builder
	b.WriteString("| driver | devices | kernel lab | stand-in | hardware | events | probe | link_downed |\n|---|---|---|---|---|---|---|---|\n")
	for _, d := range all {
		lab, hardware := "no", cmp.Or(d.Hardware, "none yet")
		switch d.Known {
		case drivers.InTheLab:
			lab, hardware = "yes", "needs none"
		case drivers.EmulatedDevice:
			lab = "emulated device"
		}
		standin := "no"
		if len(d.Standin) > 0 {
			standin = "yes"
		}
		cells := []string{d.Name, d.Devices, lab, standin, hardware, d.Events, d.Probe, d.LinkDowned}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

// driverNotes returns the notes on drivers that are too long for the table.
func driverNotes(all []drivers.Driver) string {
	var b strings.Builder
	for _, d := range all {
		text := strings.TrimSpace(d.Notes + " " + d.Interruptible)
		if text == "" && len(d.FlushMoves) == 0 {
			continue
		}
		if len(d.FlushMoves) > 0 {
			text = strings.TrimSpace(fmt.Sprintf("%s The method `flush` moves `%s`.", text, strings.Join(d.FlushMoves, "` or `")))
		}
		b.WriteString(wrapText("- ", "  ", fmt.Sprintf("**%s**: %s", d.Name, text)))
	}
	return b.String() + "\n" + wrapText("", "", "Where the state of a port comes from (`query_port` in the file, below drivers/infiniband of the "+
		"kernel): the carrier of its network device with "+driversByState(all, drivers.OfNetDev)+"; the device, its firmware or the hypervisor with "+
		driversByState(all, drivers.OfDevice)+", but mlx4 and mlx5 on Ethernet take the carrier. A port of "+driversByState(all, drivers.OfNone)+
		" is always active, so that `rdma_port` has no `up`.")
}

// driversByState lists the drivers that derive a port's state from the given source. Each driver file is listed once.
func driversByState(all []drivers.Driver, source drivers.StateSource) string {
	var names []string
	last := ""
	for _, d := range all {
		if d.State != source || d.StateFile == last {
			continue
		}
		last = d.StateFile
		name, _, _ := strings.Cut(d.Name, ",")
		names = append(names, fmt.Sprintf("%s (%s)", name, d.StateFile))
	}
	return strings.Join(names, ", ")
}

// commandTable returns the text and the table of the commands that the plugin makes a device execute at a pace.
func commandTable(all []drivers.Driver, p drivers.Pace) string {
	var b strings.Builder
	b.WriteString(wrapText("", "", fmt.Sprintf("Commands per minute for one port and one completion vector with the defaults: the port "+
		"is polled every %s, a probe round runs every %s, a hw_counter is read every %s and a snapshot is taken every %s. If the driver has no "+
		"hw_counter, or freezes them, the probe's queue pair is queried instead.",
		formatSeconds(p.State), formatSeconds(p.Probe), formatSeconds(p.Command), formatSeconds(p.Snapshot))) + "\n")
	b.WriteString("| driver | port polls | `ud_send` | `rc_write` | `flush` | hw_counter or query_qp | snapshots | " +
		"a host with 8 ports and the first method of `auto` |\n|---|---|---|---|---|---|---|---|\n")
	for _, d := range all {
		for _, layer := range linkLayers(d) {
			b.WriteString(tableRow(d, layer, p))
		}
	}
	b.WriteString("| **disable with** | `state_interval = \"0s\"` | another `probe.method` | another `probe.method` | " +
		"another `probe.method` | `evidence.command_interval = \"0s\"` | `evidence.snapshot_interval = \"0s\"` | all, and `probe.interval = \"0s\"` |\n")
	b.WriteString("\n" + wrapText("", "", fmt.Sprintf("A new probe creates and destroys its objects once more. It is made at the start, after "+
		"an error, and when a port or its addresses change. While no method works, it is retried after one round and then after "+
		"twice as long each time, up to 5 minutes. Unless `probe.pkey_index` is set, it also reads the port's P_Key table up to "+
		"the first entry with full membership: a command for each entry on %s.", strings.Join(driversWithPKeyCommand(all), ", "))))
	return b.String()
}

// linkLayers returns the link layers for which a driver gets a row. It returns a single, unspecified one if the
// driver's costs do not depend on the link layer.
func linkLayers(d drivers.Driver) []verbs.LinkLayer {
	if d.Ethernet == nil {
		return []verbs.LinkLayer{verbs.LinkUnspecified}
	}
	return []verbs.LinkLayer{verbs.LinkInfiniBand, verbs.LinkEthernet}
}

// rowName returns the name of a driver's row for a link layer.
func rowName(d drivers.Driver, layer verbs.LinkLayer) string {
	switch layer {
	case verbs.LinkInfiniBand:
		return d.Name + ", InfiniBand"
	case verbs.LinkEthernet:
		return d.Name + ", Ethernet"
	}
	return d.Name
}

func tableRow(d drivers.Driver, layer verbs.LinkLayer, p drivers.Pace) string {
	const ports = 8
	first := d.First
	if layer == verbs.LinkInfiniBand {
		first = verbs.MethodRCWrite
	}
	m, base := p.PerMinute(d.Kernel[0], d.On(layer)), p.Snapshots(d, d.On(layer), verbs.EthtoolLink).Base
	cells := []string{rowName(d, layer), fmt.Sprint(m.State)}
	for _, method := range []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite, verbs.MethodFlush} {
		cell := fmt.Sprint(m.Round[method])
		if slices.Contains(d.Never, method) {
			cell = "cannot"
		}
		cells = append(cells, cell)
	}
	cells = append(cells, fmt.Sprint(m.Checks), fmt.Sprint(base), fmt.Sprint(ports*(m.State+m.Checks+base+m.Round[first])))
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// driversWithPKeyCommand returns the drivers whose devices execute a command to read a P_Key.
func driversWithPKeyCommand(all []drivers.Driver) []string {
	var names []string
	for _, d := range all {
		if cmp.Or(d.Costs[drivers.PKey], d.Ethernet[drivers.PKey]) > 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// wrapText breaks a paragraph into lines of at most 120 bytes. The first line begins with first, the others with other.
func wrapText(first, other, text string) string {
	const width = 100
	line, begun, out := first, false, ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case !begun:
			line, begun = line+word, true
			continue
		case len(line)+1+len(word) > width:
			out += line + "\n"
			line = other + word
			continue
		}
		line += " " + word
	}
	return out + line + "\n"
}

// unloadTable returns the table of the kernels that can unload a driver while a device is open.
func unloadTable(all []drivers.Driver) string {
	var b strings.Builder
	b.WriteString("| driver | unloads beside an open device |\n|---|---|\n")
	for _, d := range all {
		text := "no: release its devices first"
		switch since := d.Disassociates; {
		case since == drivers.OldestRead():
			text = "yes"
		case since != (drivers.Release{}):
			text = fmt.Sprintf("from Linux %s on; before, release its devices first", since)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", d.Name, text)
	}
	return b.String()
}
