package gen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// verdicts are those of pairs that are not well, from the worst to the mildest. own_link is what pairs say whose port blames
// its own link.
var verdicts = []string{
	"path", "partial", "lossy_both", "lossy_forward", "lossy_reverse", "own_link", "peer_port", "peer_down", "peer_busy", "starting",
}

// These are the numbers by which an interface or a group is suspected.
const (
	suspectedBy  = 2    // observers of its own group
	smallGroup   = 4    // hosts: a group of fewer has too few observers
	suspectedAny = 3    // observers from anywhere, of a host in such a group
	groupShare   = 0.25 // of the pairs of a group with others
)

// blamed are the verdicts that count against a group. A host that is cut off with all of its group blames its own link, and
// its group is cut off all the same.
func blamed() []string { return verdicts[:6] }

// These are the tags that distinguish pairs, and the series of rdma_fabric.
const (
	byPair      = byPort + `, "own_group", "peer_host", "peer_device", "peer_group", "scope"`
	byGroupPair = byHost + `, "own_group", "peer_group", "scope"`
)

// inPair has the labels that distinguish pairs in Prometheus.
const inPair = `host, plugin_instance, device, port, own_group, peer_host, peer_device, peer_group, scope`

// site returns the widest label as the beginning of a list of tags, for InfluxQL or PromQL. A fabric is that of one site,
// and its groups may have hosts in many places.
func (o *Options) site(e Engine) string {
	switch {
	case len(o.Labels) == 0:
		return ""
	case e == InfluxDB:
		return fmt.Sprintf("%q, ", o.Labels[0])
	}
	return o.Labels[0] + ", "
}

// ofSite returns the end of a summary that says which site it is, where there are such labels.
func (o *Options) ofSite() string {
	if len(o.Labels) == 0 {
		return ""
	}
	return fmt.Sprintf("{{ with .Labels.%[1]s }} (%[1]s {{ . }}){{ end }}", o.Labels[0])
}

// said is a condition of InfluxQL for the pairs whose last verdict is one of some.
func said(words ...string) string {
	all := make([]string, 0, len(words))
	for _, v := range words {
		all = append(all, `"verdict" = '`+v+`'`)
	}
	return "(" + strings.Join(all, " OR ") + ")"
}

// lastVerdicts is the last verdict of each pair that was not well. conditions begins with AND, or is "".
func lastVerdicts(conditions string) string {
	return `(SELECT last("verdict") AS "verdict" FROM {rdma_fabric_peer} WHERE {filter}` + conditions + ` GROUP BY ` + byPair + `)`
}

// pairsThatSay are the pairs whose verdict is one of some, in Prometheus. filter ends with a comma, or is "".
func pairsThatSay(filter string, words ...string) string {
	return `max by (PLACE, ` + inPair + `) (rdma_fabric_peer_status{` + filter + `verdict=~"` + strings.Join(words, "|") + `"} == 1)`
}

// observers counts the hosts' devices that have a network verdict about each device, in InfluxDB. One that has none
// counts 0, so that all conditions of a rule have the same series.
func observers(scopes string) string {
	of := func(value, condition string) string {
		return `(SELECT ` + value + ` AS "bad" FROM {rdma_fabric_peer} WHERE {filter}` + condition + ` GROUP BY ` + byPair + `)`
	}
	if scopes == "" {
		return `SELECT sum("bad") AS "observers" FROM ` + of(`last("bad")`, "")
	}
	return `SELECT sum("bad") AS "observers" FROM ` + of(`last("bad")`, ` AND "scope" = '`+scopes+`'`) + `, ` +
		of(`last("bad") * 0`, ` AND "scope" != '`+scopes+`'`)
}

// suspects are the devices that are suspected, in Prometheus, with the number of their observers.
func suspects(site string) string {
	by := `sum by (` + site + `peer_group, peer_host, peer_device)`
	size := `count by (` + site + `peer_group) (max by (` + site + `host, plugin_instance, peer_group) (rdma_fabric_pairs{scope="group"})) >= ` +
		fmt.Sprint(smallGroup)
	on := `on (` + site + `peer_group)`
	return fmt.Sprintf(`%[1]s (rdma_fabric_peer_bad{scope="group"}) >= %[4]d and %[3]s (%[2]s)
		or %[1]s (rdma_fabric_peer_bad) >= %[5]d unless %[3]s (%[2]s)`, by, size, on, suspectedBy, suspectedAny)
}

// across are the pairs of each group with others about which a verdict says something of the network, or that are well.
const (
	acrossText = `SELECT sum("pairs") AS "pairs" FROM (SELECT last("pairs_met") - last("pairs_busy") - last("pairs_down") AS "pairs"
		FROM {rdma_fabric} WHERE {filter} AND "scope" = 'across' GROUP BY ` + byGroupPair + `) WHERE $timeFilter`
	acrossProm = `(rdma_fabric_pairs_met{FILTERscope="across"} - rdma_fabric_pairs_busy{FILTERscope="across"}
		- rdma_fabric_pairs_down{FILTERscope="across"})`
)

// withoutFabric is the end of what the rules cannot see.
const withoutFabric = " Hosts without fabric.peers_file."

// fabricRules are about the network between hosts. Hosts without the option have none of these series.
func (o *Options) fabricRules() []rule {
	return slices.Concat([]rule{o.ownLink(), o.suspect(), o.groupSuspect()}, o.fabricSlow(), o.fabricSetUp())
}

func (o *Options) ownLink() rule {
	return rule{
		id: "fabric-own-link", title: "RDMA link of a host loses packets", panel: panelRef{fabricUID, 11},
		severity: "critical", hold: time.Minute, noData: quiet,
		summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} does not reach its peers, and they are well",
		steps: []step{{
			query: `SELECT last("bad") AS "bad" FROM {rdma_fabric_port} WHERE {filter} GROUP BY ` + byPort + `, "own_group"`, from: o.window(),
		}},
		promql: `rdma_fabric_port_bad == 1`,
		fires: "For a minute three quarters or more of the port's pairs, with two hosts or more, have said that the network loses or swallows " +
			"their packets, while the port was active. What they share is its own link: the port, the cable, or the switch port.",
		quiet:  "Ports that are not active, which port-down reports. Single peers, which fabric-suspect counts.",
		clears: "When fewer than three quarters of its pairs say so.",
		do: []string{
			"Do many hosts of one group say so? Then it is their leaf: fabric-group fires too. With Alertmanager that one holds this one back.",
			"The cable, the transceiver and the switch port: error counters at both ends, `ethtool -S` or `mlxlink`, and the switch's own log.",
			"Drain the host: applications on it see the same loss.",
		},
		blind: "Loss of large packets alone: probes have 66 to 110 bytes." + withoutFabric,
	}
}

func (o *Options) suspect() rule {
	by := ` WHERE $timeFilter GROUP BY ` + o.site(InfluxDB) + `"peer_group", "peer_host", "peer_device"`
	size := func(value, condition string) string {
		return `(SELECT ` + value + ` AS "n" FROM {rdma_fabric} WHERE {filter} AND "scope" ` + condition + ` GROUP BY ` + byHost + `, "peer_group")`
	}
	return rule{
		id: "fabric-suspect", title: "RDMA interface suspected by its neighbours", panel: panelRef{fabricUID, 10},
		severity: "critical", hold: time.Minute, noData: quiet,
		summary: "{{ .Labels.peer_device }} of {{ .Labels.peer_host }} is suspected by its neighbours in {{ .Labels.peer_group }}" + o.ofSite(),
		steps: []step{
			{query: observers("group") + by, from: o.window()},
			{query: observers("") + by, from: o.window()},
			{
				query: `SELECT sum("n") AS "hosts" FROM ` + size(`last("pairs") * 0 + 1`, `= 'group'`) + `, ` + size(`last("pairs") * 0`, `= 'across'`) +
					` WHERE $timeFilter GROUP BY ` + o.site(InfluxDB) + `"peer_group"`,
				from: o.window(),
			},
		},
		when:   fmt.Sprintf("$RA >= %[1]d && $RC >= %[3]d || $RB >= %[2]d && $RC < %[3]d", suspectedBy, suspectedAny, smallGroup),
		promql: suspects(o.site(Prometheus)),
		fires: "For a minute two hosts or more of its own group have said that the network between them and this interface loses or swallows packets. " +
			"They share a leaf with it and have nothing else in common but the interface. In groups of fewer than four hosts it takes three hosts " +
			"from anywhere.",
		quiet: "Hosts that are down or busy: their peers say peer_down or peer_busy. A host that blames its own link is no observer. Verdicts of " +
			"hosts in other groups, whose paths share spines.",
		clears: "When fewer hosts say so.",
		do: []string{
			"The dashboard RDMA fabric has the observers and the direction: lossy_forward is what the interface receives, lossy_reverse what it sends.",
			"The host's own words: does fabric-own-link fire there? Its cable, transceiver and switch port, with the error counters of both ends.",
			"Drain the host, and exchange the cable first.",
		},
		blind: "Interfaces with fewer observers, and loss below 2 % in a minute." + withoutFabric,
	}
}

func (o *Options) groupSuspect() rule {
	by := ` GROUP BY ` + o.site(InfluxDB) + `"own_group"`
	site := o.site(Prometheus)
	return rule{
		id: "fabric-group", title: "RDMA group is cut off from others", panel: panelRef{fabricUID, 12},
		severity: "critical", hold: time.Minute, noData: quiet,
		summary: "A quarter or more of the pairs of {{ .Labels.own_group }} with other groups are bad" + o.ofSite(),
		steps: []step{
			{
				query: `SELECT count("verdict") AS "bad" FROM ` + lastVerdicts(` AND "scope" = 'across'`) + ` WHERE ` + said(blamed()...) + ` AND $timeFilter` + by,
				from:  o.window(),
			},
			{query: acrossText + by, from: o.window()},
		},
		when: fmt.Sprintf("$RA >= %g * $RB", groupShare),
		promql: `count by (` + site + `own_group) (` + strings.ReplaceAll(pairsThatSay(`scope="across",`, blamed()...), "PLACE, ", site) + `)
			>= ` + fmt.Sprint(groupShare) + ` * sum by (` + site + `own_group) (` + strings.ReplaceAll(acrossProm, "FILTER", "") + `)`,
		fires: "For a minute a quarter or more of the pairs that the hosts of a group have with other groups have said that the network loses or " +
			"swallows packets: the leaf, its uplinks, or a spine as far as this group uses it.",
		quiet:  "Pairs whose peer is down, busy or not met: they count neither way. Single uplinks with little loss.",
		clears: "When fewer than a quarter of the pairs say so.",
		do: []string{
			"Are all pairs bad, also those within the group? Then the leaf is dead or has no power. Only those with others: its uplinks.",
			"partial says that some paths are whole: one uplink of several. The uplinks' counters on the leaf name it.",
			"Many groups at once are a spine or a change that was rolled out.",
		},
		blind: "Groups of one or two hosts: there a single interface is a quarter of the pairs." + withoutFabric,
	}
}

// fabricSlow are the rules about loss and latency that last.
func (o *Options) fabricSlow() []rule {
	by := ` GROUP BY ` + o.site(InfluxDB) + `"own_group"`
	site := o.site(Prometheus)
	lossy := []string{"lossy_both", "lossy_forward", "lossy_reverse"}
	p99 := `SELECT median("write_ns_p99") AS "p99" FROM {rdma_fabric} WHERE {filter}` + by + `, "scope"`
	ago := func(d time.Duration) step { return step{query: p99, from: d + 10*time.Minute, to: d} }
	now := fabricNow(site)
	return []rule{
		{
			id: "fabric-lossy", title: "RDMA fabric loses packets", panel: panelRef{fabricUID, 20},
			severity: "warning", hold: 10 * time.Minute, noData: quiet,
			summary: "Pairs of {{ .Labels.own_group }} lose packets" + o.ofSite(),
			steps: []step{{
				query: `SELECT count("verdict") AS "pairs" FROM ` + lastVerdicts("") + ` WHERE ` + said(lossy...) + ` AND $timeFilter` + by, from: o.window(),
			}},
			promql: `count by (` + site + `own_group) (` + strings.ReplaceAll(pairsThatSay("", lossy...), "PLACE, ", site) + `) > 0`,
			fires: "For ten minutes one pair or more of the group's hosts has lost at least 2 % of its probes within a minute, in one direction or " +
				"both.",
			quiet:  "Loss below 2 %, as of a congested path for a moment; probes that found a receive queue of the peer used up.",
			clears: "When all pairs have lost less than 0.5 % for a minute.",
			do: []string{
				"Is there a suspect? fabric-suspect or fabric-group names it. Without one the loss is spread over paths: look at the table of groups.",
				"Loss by direction says whether it is on the way there or back. Compare with discards and pause frames of the switches.",
			},
			blind: "Loss in another traffic class than the probes'; loss of large packets alone." + withoutFabric,
		},
		{
			id: "fabric-slow", title: "RDMA fabric far slower than its past", panel: panelRef{fabricUID, 21},
			severity: "warning", hold: 10 * time.Minute, noData: quiet, slow: true,
			summary: "RDMA writes of {{ .Labels.own_group }} ({{ .Labels.scope }}) are far slower than they were" + o.ofSite(),
			steps: []step{
				{query: p99, from: 5 * time.Minute},
				// To read a day of points of thousands of hosts would take seconds.
				ago(6 * time.Hour), ago(12 * time.Hour), ago(18 * time.Hour),
			},
			// Above four times the median of three is above four times two of them.
			when: "$RA > 100000 && ($RA > 4 * $RB && $RA > 4 * $RC || $RA > 4 * $RB && $RA > 4 * $RD || $RA > 4 * $RC && $RA > 4 * $RD)",
			promql: now + ` > 100e-6 and
				` + now + ` > 4 * quantile_over_time(0.5, ` + fabricPast + `[1d])`,
			fires: "For ten minutes the 99th percentile of the writes of a group's hosts (their median; within the group or with others) has been above " +
				"four times its median of the last day, and above 100 us. With InfluxDB the day is three looks of ten minutes, 6, 12 and 18 hours ago.",
			quiet:  "Latencies below 100 us; groups that have been measured for less than that; a busy peer's CPU, which a write does not need.",
			clears: "When it is fast again; or after a day at most, when slow has become its past: look at the graph then.",
			do: []string{
				"Within the group or across? Across alone: the uplinks are congested. Compare with the traffic of the switches.",
				"writes_late counts writes that the NIC had to send again: then it is loss and not congestion.",
			},
			blind: "Single hosts of a group. Latency of the peer's process: see responder_ns_p99." + withoutFabric,
		},
	}
}

// fabricPast is what a rule records of the latency of each group.
const fabricPast = "rdma:fabric_write_p99_seconds:median"

// fabricNow is the latency of each group now, in Prometheus.
func fabricNow(site string) string {
	return `quantile by (` + site + `own_group, scope) (0.5, rdma_fabric_write_p99_seconds)`
}

// fabricSetUp are the rules about hosts that do not probe each other as they should.
func (o *Options) fabricSetUp() []rule {
	by := ` WHERE $timeFilter GROUP BY ` + o.site(InfluxDB) + `"own_group"`
	site := o.site(Prometheus)
	sum := func(field string) string {
		return `SELECT sum("n") AS "` + field + `" FROM (SELECT last("` + field + `") AS "n" FROM {rdma_fabric} WHERE {filter} GROUP BY ` + byGroupPair + `)` + by
	}
	inSite, bySite := "", ""
	if site != "" {
		inSite, bySite = ` GROUP BY `+strings.TrimSuffix(o.site(InfluxDB), ", "), ` by (`+strings.TrimSuffix(site, ", ")+`)`
	}
	return []rule{
		{
			id: "fabric-unmet", title: "RDMA hosts do not meet", panel: panelRef{fabricUID, 24},
			severity: "warning", hold: 10 * time.Minute, noData: quiet,
			summary: "A tenth or more of the pairs of {{ .Labels.own_group }} have not met" + o.ofSite(),
			steps:   []step{{query: sum("pairs"), from: o.window()}, {query: sum("pairs_met"), from: o.window()}},
			when:    "9 * $RA >= 10 * $RB && $RA > 0",
			promql: `10 * sum by (` + site + `own_group) (rdma_fabric_pairs - rdma_fabric_pairs_met) >=
				sum by (` + site + `own_group) (rdma_fabric_pairs) > 0`,
			fires: "For ten minutes a tenth or more of the pairs of a group's hosts have not met: their peers answer no hello, or refuse it. The network " +
				"between them is not judged.",
			quiet:  "Fewer of them, as a host that is repaired.",
			clears: "When more than nine tenths have met.",
			do: []string{
				"The panel Not met, by reason: no_responder is a peer without the plugin or a blocked TCP port; key and not_listed are files that differ; " +
					"no_common_gid and pkey are addresses.",
				"`rdma-events doctor` on such a host tries two of its peers.",
			},
			blind: "Hosts that are in no list." + withoutFabric,
		},
		{
			id: "fabric-lists-differ", title: "RDMA hosts have different lists", panel: panelRef{fabricUID, 25},
			severity: "warning", hold: 30 * time.Minute, noData: quiet, above: 1,
			summary: "Hosts have different lists of peers" + o.ofSite(),
			steps: []step{{
				query: `SELECT count(distinct("list")) AS "lists" FROM (SELECT last("list") AS "list" FROM {rdma_fabric_port} WHERE {filter} GROUP BY ` + byPort +
					`) WHERE $timeFilter` + inSite,
				from: o.window(),
			}},
			promql: `count` + bySite + ` (count by (` + site + `list) (rdma_fabric_port_info == 1)) > 1`,
			fires: "For half an hour the hosts of a site have had two or more different lists of peers. Hosts that are in one and not in the other are " +
				"refused, and some interfaces have fewer observers.",
			quiet:  "A list that is being rolled out. Addresses, which are no part of the digest.",
			clears: "When all hosts have the same list.",
			do: []string{
				"The panel Lists has the digests, the rarest first. Compare the files of a host with each: same hosts, same groups?",
				"Roll out the file to the rest. Two fabrics of one site on purpose: give them different values of the widest label.",
			},
			blind: "Hosts that do not report." + withoutFabric,
		},
	}
}
