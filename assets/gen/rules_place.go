package gen

import (
	"fmt"
	"strings"
	"time"
)

// cablesInInfluxQL counts ports, and those that share a cable once. A port whose cable is unknown counts by itself. Without
// fill a place in which no cable is known would have no count.
const cablesInInfluxQL = `count(distinct("cable")) + count("up") - count("cable")`

// cables counts ports by place in PromQL, as cablesInInfluxQL does. rdma_port_info may have two series of a port for a moment,
// when another of its labels changes.
func cables(by, ports string) string {
	const of, cable = "(host, plugin_instance, device, port)", "(host, plugin_instance, device, port, cable)"
	inner := " by (cable)"
	if place, ok := strings.CutPrefix(by, " by ("); ok {
		inner = " by (cable, " + place
	}
	return `count` + by + ` (count` + inner + ` ((` + ports + `) * on ` + of + ` group_left (cable) max by ` + cable + ` (rdma_port_info{cable!=""})
		or on ` + of + ` label_join(` + ports + `, "cable", "/", "host", "plugin_instance", "device", "port")))`
}

// portsDownTogether is the rule for a switch, a line card or a power supply. Eight cables are at fault; that they are more than
// a tenth is a matter of ports, since most NICs of a place share their cables alike. InfluxQL cannot ask for each port
// whether it was active, so there a port counts whose state changed since the plugin started.
func (o *Options) portsDownTogether() rule {
	of, by, place := "", "", "the fleet, since no labels say where a host is,"
	if len(o.Labels) > 0 {
		place = "one place (" + o.inPromQL() + ")"
		of = " GROUP BY " + strings.TrimSuffix(o.inInfluxQL(), ", ")
		by = " by (" + o.inPromQL() + ")"
	}
	summary := "Eight or more RDMA ports are down together"
	for _, label := range o.Labels {
		summary += fmt.Sprintf("{{ with .Labels.%[1]s }}, %[1]s {{ . }}{{ end }}", label)
	}
	return rule{
		id: "ports-down-together", title: "RDMA ports down together", panel: panelRef{overviewUID, 10},
		severity: "critical", hold: 30 * time.Second, noData: quiet,
		summary: summary,
		steps: []step{
			{
				// The conditions are inside, and the cable is that of the same point: InfluxDB 1.8 mixes up the rows of several
				// last() below an outer GROUP BY.
				query: `SELECT ` + cablesInInfluxQL + ` AS "down" FROM (SELECT last("up") AS "up", "cable" FROM {rdma_port}
					WHERE {filter} AND "expected" != 'down' AND "transitions" > 0 AND "state_age_ns" < 86400000000000 GROUP BY ` + byPort + `)
					WHERE "up" = 0 AND $timeFilter` + of + ` fill(0)`,
				from: o.window(),
			},
			{
				query: `SELECT count("up") AS "ports" FROM (SELECT last("up") AS "up" FROM {rdma_port}
					WHERE {filter} AND "expected" != 'down' GROUP BY ` + byPort + `) WHERE $timeFilter` + of,
				from: o.window(),
			},
			{
				query: `SELECT count("up") AS "down" FROM (SELECT last("up") AS "up" FROM {rdma_port} WHERE {filter}
					AND "expected" != 'down' AND "transitions" > 0 AND "state_age_ns" < 86400000000000 GROUP BY ` + byPort + `)
					WHERE "up" = 0 AND $timeFilter` + of,
				from: o.window(),
			},
		},
		when: "$RA >= 8 && $RC > 0.1 * $RB",
		promql: cables(by, fallen) + ` >= 8
			and count` + by + ` (` + fallen + `) > 0.1 * count` + by + ` (rdma_port_up{expected!="down"})`,
		fires: "Eight or more ports of " + place + " are down, more than a tenth of its ports, and each was active within the last day. " +
			"Ports that share one cable, as with Socket Direct and multi-host NICs, count once (field cable). " +
			"With InfluxDB: and each changed its state within the last day, since the plugin started.",
		quiet: "Fewer than eight ports; a tenth of the place's ports or less; ports that have not been active for a day, and those of " +
			"expected_down. Hosts without these labels are one place.",
		clears: "When fewer than eight ports of the place are down. With Alertmanager, it holds back port-down of the same place.",
		do: []string{
			"Look at what these ports share: the switch, its power and line card, on InfiniBand the subnet manager; the switch's own log.",
			"Ports of many switches at once: power or cooling of the room, or a change that was rolled out.",
		},
		blind: "Ports of devices that are not open, and of hosts that have lost power: see plugin-silent.",
	}
}

// smUnstable is the rule for a subnet manager that comes and goes. A site is the widest label of -labels.
func (o *Options) smUnstable() rule {
	of, by, site := "", "", ""
	if len(o.Labels) > 0 {
		of = fmt.Sprintf(" GROUP BY %q", o.Labels[0])
		by = " by (" + o.Labels[0] + ")"
		site = fmt.Sprintf("{{ with .Labels.%[1]s }} of %[1]s {{ . }}{{ end }}", o.Labels[0])
	}
	return rule{
		id: "sm-unstable", title: "RDMA subnet manager unstable", panel: panelRef{overviewUID, 19},
		severity: "warning", noData: quiet,
		summary: "The subnet manager" + site + " changes again and again",
		steps: []step{
			{
				query: `SELECT count("sm_change") AS "ports" FROM (` + grown("sm_change", "rdma_async") + `) WHERE "sm_change" >= 3 AND $timeFilter` + of,
				from:  30 * time.Minute,
			},
			{
				query: `SELECT count("layer") AS "ports" FROM (SELECT last("link_layer") AS "layer" FROM {rdma_port} WHERE {filter} GROUP BY ` +
					byPort + `) WHERE "layer" = 'infiniband' AND $timeFilter` + of,
				from: 30 * time.Minute,
			},
		},
		when: "$RA >= 0.5 * $RB",
		promql: `count` + by + ` (increase(rdma_async_events_total{event="sm_change"}[30m]) > 2.5)
			>= 0.5 * count` + by + ` (rdma_port_info{link_layer="infiniband"} == 1)`,
		fires:  "Half of a site's InfiniBand ports or more had an event sm_change three times or more within half an hour.",
		quiet:  "One hand-over from a manager to its standby; single ports, whose cable or switch port it is.",
		clears: "By itself, half an hour after the last change.",
		do: []string{
			"The logs of the subnet managers (opensm, or that of the switch): which one is master, and why did it change? Two with the same priority?",
			"`sminfo` on a host names the present master.",
		},
		blind: "RoCE and iWARP, which have none.",
	}
}
