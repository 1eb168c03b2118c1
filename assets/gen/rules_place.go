package gen

import (
	"fmt"
	"strings"
	"time"
)

// fallenPorts returns an InfluxQL subquery with one field of each port that is down but should be up, by the port's last values. When a pod
// borrows a device, the port goes down before the plugin stops expecting it to be up, so the last expected_up decides. Each level groups by
// series: with a coarser GROUP BY, InfluxDB 1.8 mixes up the rows of several last() if some series lack a field.
func fallenPorts(field string) string {
	fields := []string{"up", "expected_up"}
	if field != "up" {
		fields = append(fields, field)
	}
	return fmt.Sprintf(`(SELECT last(%[1]q) AS %[1]q FROM (SELECT %[2]s FROM {rdma_port} WHERE {filter} GROUP BY %[3]s)
		WHERE "up" = 0 AND "expected_up" = 1 AND $timeFilter GROUP BY %[3]s)`, field, lastOf(fields...), byPort)
}

// fallenCables asks for the number of ports that are down and should be up, in InfluxDB. Those that share a cable count once, and a port whose
// cable is unknown counts by itself: the second source subtracts the ports of a cable beyond its first.
func fallenCables(of string) string {
	return `SELECT sum("n") AS "down" FROM
		(SELECT count("up") AS "n" FROM ` + fallenPorts("up") + ` WHERE $timeFilter` + of + `),
		(SELECT count(distinct("cable")) - count("cable") AS "n" FROM ` + fallenPorts("cable") + ` WHERE $timeFilter` + of + `)
		WHERE $timeFilter` + of
}

// countCables counts ports by place in PromQL, as fallenCables does in InfluxQL. If another label of rdma_port_info changes, a port may
// have two series of it for a moment.
func countCables(by, ports string) string {
	const of, cable = "(host, plugin_instance, device, port)", "(host, plugin_instance, device, port, cable)"
	inner := " by (cable)"
	if place, ok := strings.CutPrefix(by, " by ("); ok {
		inner = " by (cable, " + place
	}
	return `count` + by + ` (count` + inner + ` ((` + ports + `) * on ` + of + ` group_left (cable) max by ` + cable + ` (rdma_port_info{cable!=""})
		or on ` + of + ` label_join(` + ports + `, "cable", "/", "host", "plugin_instance", "device", "port")))`
}

// fallen are the ports that are down and should be up, in Prometheus.
const fallen = `rdma_port_up == 0 and rdma_port_expected_up == 1`

// portsDownTogether is the rule for a switch, a line card or a power supply. Eight cables are at fault; that they are more than
// a tenth is a matter of ports, since most NICs of a place share their cables alike.
func (o *Options) portsDownTogether() queries {
	of, by := "", ""
	if len(o.Labels) > 0 {
		of = " GROUP BY " + strings.TrimSuffix(o.inInfluxQL(), ", ")
		by = " by (" + o.inPromQL() + ")"
	}
	return queries{
		steps: []step{
			{query: fallenCables(of), from: o.window()},
			{
				query: `SELECT count("up") AS "ports" FROM (SELECT last("up") AS "up" FROM {rdma_port}
					WHERE {filter} AND "expected_up" = 1 GROUP BY ` + byPort + `) WHERE $timeFilter` + of,
				from: o.window(),
			},
			{query: `SELECT count("up") AS "down" FROM ` + fallenPorts("up") + ` WHERE $timeFilter` + of, from: o.window()},
		},
		when: "$RA >= 8 && $RC > 0.1 * $RB",
		promql: countCables(by, fallen) + ` >= 8
			and count` + by + ` (` + fallen + `) > 0.1 * count` + by + ` (rdma_port_up and rdma_port_expected_up == 1)`,
	}
}

// smUnstable is the rule for a subnet manager that comes and goes. A site is the widest label of -labels.
func (o *Options) smUnstable() queries {
	of, by := "", ""
	if len(o.Labels) > 0 {
		of = fmt.Sprintf(" GROUP BY %q", o.Labels[0])
		by = " by (" + o.Labels[0] + ")"
	}
	return queries{
		steps: []step{
			{
				query: `SELECT count("sm_change") AS "ports" FROM (` + increasedSeries("sm_change", "rdma_async") + `) WHERE "sm_change" >= 3 AND $timeFilter` + of,
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
	}
}
