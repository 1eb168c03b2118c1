package gen

import (
	"fmt"
	"slices"
	"strings"

	"rdma_events/assets/grafana"
	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/fabric/verdict"
)

// fabricUID is the identifier of the dashboard of probes between hosts.
const fabricUID = alerts.FabricDashboard

// mostCells is the largest number of pairs of groups that a matrix shows: 40 groups with each other.
const mostCells = 40 * 40

// fewWorst is the number of pairs of groups in the tables of the worst pairs.
const fewWorst = 20

func fabricDashboard(n *names, e Engine, o *Options) *grafana.Dashboard {
	b := newBoard(n, e, o, append(slices.Clone(o.Labels), "own_group", "host"))
	b.points = overviewPoints
	b.row(1, "Now")
	b.fabricTiles()
	b.row(9, "Which")
	b.fabricSuspects()
	b.fabricPorts()
	b.fabricGroups()
	b.row(13, "Between groups")
	b.fabricMatrices()
	b.row(18, "When")
	b.fabricHistory()
	b.row(22, "Peers")
	b.fabricPeers()
	b.row(26, "Cost")
	b.fabricCost()
	return b.dashboard(fabricUID, "RDMA fabric",
		"The network between hosts. If packets are lost: which interface, leaf or path, in which direction, or is a peer only busy?", "1m",
		[]grafana.Link{b.link("Overview", overviewUID, "All hosts"), b.link("Device", deviceUID, "One device of one host")},
		b.fabricVariables())
}

// orNothing adds a 0 for each host that probes to a query for the sum of n. So the result is 0 if nothing is found, and empty only if no host
// probes.
func orNothing(found string) string {
	return `SELECT sum("n") AS "sum" FROM (` + found + `), (SELECT last("pairs") * 0 AS "n" FROM {rdma_fabric} WHERE {filter} GROUP BY ` + byGroupPair +
		`) WHERE $timeFilter`
}

// orNothingProm does the same in PromQL.
const orNothingProm = ` or sum(rdma_fabric_pairs{FILTER}) * 0`

// fabricTiles adds the numbers of current problems.
func (b *board) fabricTiles() {
	const width, height = 4, 4
	const off = "off"
	tile := func(id int, title string, t *grafana.Thresholds, h help, q query) {
		b.stat(panel{id: id, title: title, width: width, height: height, now: true, fabric: true, help: h, queries: []query{q}}, off, t)
	}
	sumOf := func(field string) query {
		return query{
			text: `SELECT sum("n") AS "sum" FROM (SELECT last("` + field + `") AS "n" FROM {rdma_fabric} WHERE {filter} GROUP BY ` + byGroupPair +
				`) WHERE $timeFilter`,
			prom: `sum(rdma_fabric_` + field + `{FILTER})`,
		}
	}
	tile(2, "Suspects", brokenNow(), help{
		"Interfaces that two hosts or more of their own group cannot reach without loss.",
		"that there is one.",
		"the table below names them; the alert fabric-suspect has the steps.",
		"interfaces in groups of fewer than four hosts. For these, the alert uses the observers in other groups.",
	}, query{
		// Only a table's innermost query has the labels by itself.
		text: orNothing(`SELECT count("observers") AS "n" FROM (` +
			strings.ReplaceAll(b.options.observers(peerEnd, "group"), "GROUP BY "+byPair, "GROUP BY "+b.options.site(InfluxDB)+byPair) + `)
			WHERE "observers" >= ` + fmt.Sprint(suspectedBy) + ` AND $timeFilter`),
		prom: `count(count` + b.ofPeer() + `(` + b.observing("FILTER,scope=\"group\"") + `) >= ` + fmt.Sprint(suspectedBy) + `)` + orNothingProm,
	})
	b.oneSum()
	tile(3, "Own links", brokenNow(), help{
		"Ports that do not reach three quarters of their peers. The fault is probably in the port's own link, which all these pairs use.",
		"that there is one.",
		"the table below names them; if many belong to one group, check its leaf switch.",
		"ports that are not active: the Overview has them.",
	}, query{
		text: `SELECT sum("n") AS "sum" FROM (SELECT last("bad") AS "n" FROM {rdma_fabric_port} WHERE {filter} GROUP BY ` + byPort + `, "own_group")
			WHERE $timeFilter`,
		prom: `sum(rdma_fabric_port_bad{FILTER})`,
	})
	tile(4, "Pairs bad", degradedNow(), help{
		"Pairs between which the network loses some or all packets.",
		nothing + "; orange means that there is one. One suspect typically causes about eight bad pairs.",
		"the panel Verdicts shows their kinds over time.",
		"pairs whose port blames its own link.",
	}, sumOf("pairs_bad"))
	tile(5, "Peers down", newThresholds("green", level{1, "yellow"}), help{
		"Pairs whose peer does not answer at all, or whose peer's port is not active.",
		nothing + "; yellow means that there is one: its host is down, or its port is under maintenance.",
		"the Overview has silent hosts and ports that are down.",
		"a failure of the management network: probes are still answered, and no verdict changes.",
	}, sumOf("pairs_down"))
	tile(6, "Peers busy", newThresholds("green", level{1, "blue"}), help{
		"Pairs whose peer's NIC acknowledges writes while its process does not echo.",
		nothing + "; blue is information only: the network is not at fault.",
		"the table of busy peers names them.",
		"the reason: look at the load of the host.",
	}, sumOf("pairs_busy"))
	tile(7, "Not met", degradedNow(), help{
		"Pairs whose peer did not answer the hello, or refused it.",
		nothing + "; orange means that these are not probed.",
		"look at the panel Not met, by reason.",
		"hosts that are not in any list of hosts.",
	}, query{
		text: `SELECT sum("pairs") - sum("met") AS "sum" FROM (SELECT last("pairs") AS "pairs", last("pairs_met") AS "met" FROM {rdma_fabric}
			WHERE {filter} GROUP BY ` + byGroupPair + `) WHERE $timeFilter`,
		prom: `sum(rdma_fabric_pairs{FILTER} - rdma_fabric_pairs_met{FILTER})`,
	})
}

// byPeer returns a GROUP BY clause with the tags of an observed interface. ofPeer returns the same for PromQL.
func (b *board) byPeer() string {
	return `GROUP BY ` + b.options.site(InfluxDB) + `"peer_group", "peer_host", "peer_device"`
}

func (b *board) ofPeer() string {
	return ` by (` + b.options.site(Prometheus) + `peer_group, peer_host, peer_device) `
}

// observing returns a PromQL query with one series for each host that has a network verdict about a device.
func (b *board) observing(filter string) string {
	return `max ` + b.options.bySite("host", "peer_group", "peer_host", "peer_device") + ` (rdma_fabric_peer_bad{` + filter + `}) == 1`
}

// toPeer returns the links from a table's row to the dashboards of a peer.
func (b *board) toPeer() map[string]grafana.DataLink {
	const host, when = "&var-host=${__data.fields.peer_host}", "&${__url_time_range}"
	return map[string]grafana.DataLink{
		"peer_host":   {Title: "Host", URL: b.address(hostUID) + host + when},
		"peer_device": {Title: "Device", URL: b.address(deviceUID) + host + "&var-device=${__data.fields.peer_device}" + when},
	}
}

// peerColumns returns the columns of a table of observed interfaces.
func (b *board) peerColumns(columns ...column) []column {
	all := append([]column{{name: "peer_host"}, {name: "peer_device"}, {name: "peer_group"}}, columns...)
	if len(b.options.Labels) > 0 {
		all = append(all, column{name: b.options.Labels[0]})
	}
	return all
}

// saying returns a query for the number of hosts that have a verdict about a peer. A host counts once, even if several of its ports have it.
func (b *board) saying(as, verdict string) query {
	return query{
		text: `SELECT count("n") AS "` + as + `" FROM (SELECT count("verdict") AS "n" FROM ` + lastVerdicts("") + ` WHERE ` + verdictCondition(verdict) +
			` AND $timeFilter ` + b.byPeer() + `, "host") WHERE $timeFilter ` + b.byPeer(),
		prom: `count` + b.ofPeer() + `(max ` + b.options.bySite("host", "peer_group", "peer_host", "peer_device") + ` (` + pairsThatSay("FILTER,", verdict) + `))`,
	}
}

// fabricSuspects adds the table of suspected interfaces.
func (b *board) fabricSuspects() {
	blaming := func(as, scope, filter string) query {
		return query{
			text: `SELECT last("observers") AS "` + as + `" FROM (` + b.options.observers(peerEnd, scope) + `) WHERE "observers" > 0 AND $timeFilter ` + b.byPeer(),
			prom: `count` + b.ofPeer() + `(` + b.observing(filter) + `)`,
		}
	}
	b.table(panel{
		id: 10, title: "Suspects by observers", width: 14, height: 8, now: true, fabric: true,
		help: help{
			"Up to 100 interfaces that other hosts do not reach without loss, by the number of observers (hosts) in their own group. Paths within a group " +
				"share only the interface and the leaf. Anywhere also counts observers in other groups, whose paths share spines. There and back count the " +
				"observers that know the direction: there is towards the interface, back is from it.",
			nothing + "; an interface with two or more observers in its own group is a suspect.",
			"`rdma-events explain fabric-suspect`. If many suspects belong to one group, check its leaf switch.",
			"interfaces of hosts that are down: the network does not lose their packets.",
		},
		queries: []query{
			blaming("own", "group", `FILTER,scope="group"`), blaming("all", "", "FILTER"),
			b.saying("forward", string(verdict.VerdictLossyForward)), b.saying("reverse", string(verdict.VerdictLossyReverse)),
		},
	}, b.toPeer(), b.peerColumns(column{name: "own", prom: "Value #A", title: "own group", bad: true},
		column{name: "all", prom: "Value #B", title: "anywhere"}, column{name: "forward", prom: "Value #C", title: "there"},
		column{name: "reverse", prom: "Value #D", title: "back"})...)
	b.sorted("own group", "own", true)
}

// fabricPorts adds a table of the ports that blame their own link.
func (b *board) fabricPorts() {
	const mine = `rdma_fabric_port_bad{FILTER} == 1`
	b.table(panel{
		id: 11, title: "Own link", width: 10, height: 8, now: true, fabric: true,
		help: help{
			"Up to 100 ports that do not reach three quarters of their peers. Age is how long this has lasted.",
			"nothing; every row is a link that loses packets. If most hosts of a group are here at once, check its leaf switch.",
			"`rdma-events explain fabric-own-link`: cable, transceiver, switch port.",
			"ports that are not active.",
		},
		queries: []query{
			{text: `SELECT ` + lastOf("age", "bad") + ` FROM (SELECT last("bad") AS "bad", last("verdict_age_ns") AS "age" FROM {rdma_fabric_port} WHERE {filter}
				GROUP BY ` + byPort + `, "own_group") WHERE "bad" = 1 AND $timeFilter GROUP BY ` + byPort + `, "own_group"`},
			{prom: `max by (PLACE, host, plugin_instance, device, port, own_group) (` + mine + `)`},
			{prom: `max by (PLACE, host, plugin_instance, device, port, own_group) (rdma_fabric_port_verdict_age_seconds{FILTER} and ` + mine + `)`},
		},
	}, b.toRow(), b.placed(column{name: "port"}, column{name: "own_group"},
		column{name: "age", prom: "Value #B", title: "age", unit: b.names.unit("rdma_fabric_port.verdict_age_ns")},
		column{name: "bad", prom: "Value #A", hidden: true})...)
	b.first(100)
}

// fabricGroups adds the table of groups with bad pairs.
func (b *board) fabricGroups() {
	by := ` GROUP BY ` + b.options.site(InfluxDB) + `"own_group"`
	ofGroup := ` by (` + b.options.site(Prometheus) + `own_group) `
	columns := []column{
		{name: "own_group"}, {name: "bad", prom: "Value #A", title: "bad across", bad: true}, {name: "pairs", prom: "Value #B", title: "pairs across"},
		{name: "own", prom: "Value #C", title: "bad within", bad: true},
	}
	if len(b.options.Labels) > 0 {
		columns = append(columns, column{name: b.options.Labels[0]})
	}
	pairs := func(scope string) string { return pairsThatSay(`FILTER,scope="`+scope+`",`, groupVerdicts()...) }
	b.table(panel{
		id: 12, title: "Groups by bad pairs", width: 24, height: 7, now: true, fabric: true,
		help: help{
			"The 20 groups with the most bad pairs with other groups, all judged pairs with other groups, and the bad pairs within the group. A bad pair " +
				"loses packets in the network. Pairs whose port blames its own link count too.",
			nothing + "; if more than a quarter of the pairs across are bad, at two hosts or more, the leaf switch or its uplinks are at fault.",
			"`rdma-events explain fabric-group`. If pairs within the group are bad too, the leaf switch itself is at fault.",
			"which uplink it is: the counters of the leaf switch show that.",
		},
		queries: []query{
			{text: `SELECT count("verdict") AS "bad" FROM ` + lastVerdicts(` AND "scope" = 'across'`) + ` WHERE ` +
				verdictCondition(groupVerdicts()...) + ` AND $timeFilter` + by},
			{text: `SELECT sum("n") AS "pairs" FROM (` + acrossText + `) WHERE $timeFilter` + by},
			{text: `SELECT count("verdict") AS "own" FROM ` + lastVerdicts(` AND "scope" = 'group'`) + ` WHERE ` +
				verdictCondition(groupVerdicts()...) + ` AND $timeFilter` + by},
			{prom: `count` + ofGroup + `(` + pairs("across") + `)`},
			{prom: `sum` + ofGroup + `(` + strings.ReplaceAll(acrossProm, "FILTER", "FILTER,") + `)`},
			{prom: `count` + ofGroup + `(` + pairs("group") + `)`},
		},
	}, nil, columns...)
	b.sorted("bad across", "bad", true)
}

// Queries of the matrices, for each pair of groups.
const (
	slowText = `SELECT max("write_ns_p99") AS "Value" FROM {rdma_fabric} WHERE {filter} GROUP BY "own_group", "peer_group"`
	slowProm = `max by (own_group, peer_group) (rdma_fabric_write_p99_seconds{FILTER})`
	// lossText has a subquery for each sum, with fractions, as problemTables says.
	lossText = ` FROM (SELECT sum("there") AS "there", sum("back") AS "back", sum("sent") AS "sent" FROM
		(SELECT (last("forward_lost") - min("forward_lost")) * 1.0 AS "there" FROM {rdma_fabric} WHERE {filter} GROUP BY ` + byGroupPair + `),
		(SELECT (last("reverse_lost") - min("reverse_lost")) * 1.0 AS "back" FROM {rdma_fabric} WHERE {filter} GROUP BY ` + byGroupPair + `),
		(SELECT (last("sent") - min("sent")) * 1.0 AS "sent" FROM {rdma_fabric} WHERE {filter} GROUP BY ` + byGroupPair + `)
		WHERE $timeFilter GROUP BY "own_group", "peer_group") WHERE "sent" > 0 AND $timeFilter`
	lossProm = `100 * sum by (own_group, peer_group) (increase(rdma_fabric_forward_lost_total{FILTER}[5m]) + increase(rdma_fabric_reverse_lost_total{FILTER}[5m]))
		/ (sum by (own_group, peer_group) (increase(rdma_fabric_sent_total{FILTER}[5m])) > 0)`
)

func (b *board) fabricMatrices() {
	const many = " With more than 40 groups, only the worst 1,600 pairs of groups are shown; choose groups at the top to see all their pairs."
	slow := query{text: slowText, prom: slowProm}
	loss := query{
		text: `SELECT 100.0 * (last("there") + last("back")) / last("sent") AS "Value"` + lossText + ` GROUP BY "own_group", "peer_group"`, prom: lossProm,
	}
	// For thousands of pairs of groups, the query takes a sixth of the time if it returns the groups as columns.
	lossCells := query{text: `SELECT 100.0 * ("there" + "back") / "sent" AS "Value", "own_group", "peer_group"` + lossText, prom: lossProm}
	b.matrix(panel{
		id: 14, title: "Write p99, from group to group", width: 12, height: 12, now: true, fabric: true, unit: b.names.unit("rdma_fabric.write_ns_p99"),
		help: help{
			"The greatest 99th percentile of the write latency from the hosts of a group (row) to the hosts of another " +
				"group (column). The colours go from the least to the greatest value." + many,
			nothing + "; if a row and a column stand out, check the leaf switch of that group; if a single cell does, check a path or a host.",
			"compare with the loss beside it: lost writes are repeated, and so complete late.",
			"pairs of groups whose hosts do not probe each other.",
		},
		queries: []query{slow},
	})
	b.matrix(panel{
		id: 15, title: "Loss, from group to group", width: 12, height: 12, now: true, fabric: true, unit: "percent",
		help: help{
			"The share of probes that the network lost within the last minutes between the hosts of a group (row) and the hosts of another group (column), " +
				"in both directions." + many,
			nothing + "; in a network without faults, all cells are near 0.",
			"if a row and a column stand out, check the leaf switch of that group; the table of suspects has single interfaces.",
			"probes that are neither answered nor known to be lost yet, for example while no answer comes back at all.",
		},
		queries: []query{lossCells},
	})
	worst := func(id int, title, unit string, q query, h help) {
		b.table(panel{
			id: id, title: title, width: 12, height: 8, now: true, fabric: true, help: h,
			queries: []query{{
				text: fmt.Sprintf(`SELECT top("Value", "own_group", "peer_group", %d) AS "Value" FROM (%s) WHERE $timeFilter`, fewWorst, q.text),
				prom: fmt.Sprintf("topk(%d, %s)", fewWorst, q.prom),
			}},
		}, nil, column{name: "own_group"}, column{name: "peer_group"}, column{name: "Value", title: "worst", unit: unit})
	}
	worst(16, "Slowest pairs of groups", b.names.unit("rdma_fabric.write_ns_p99"), slow, help{
		"The 20 pairs of groups with the greatest 99th percentile of writes.", nothing + "; compare the first with the last.",
		"one group in many rows is its leaf.", "hosts: the Device dashboard has their own latencies.",
	})
	worst(17, "Pairs of groups with most loss", "percent", loss, help{
		"The 20 pairs of groups between which the greatest share of probes was lost within some minutes.", nothing + "; compare the first with the last.",
		"one group in many rows is its leaf.", "probes that busy peers did not accept: the network did not lose them.",
	})
}

// matrix adds a table with a row and a column for each group. Its query has own_group, peer_group and Value.
func (b *board) matrix(p panel) {
	made := b.make("table", "table", p, grafana.FieldDefaults{
		NoValue: "-", Color: map[string]any{"mode": "continuous-GrYlRd"},
		Custom: map[string]any{"align": "auto", "filterable": false, "minWidth": 50, "cellOptions": map[string]any{"type": "color-background", "mode": "basic"}},
	}, map[string]any{"showHeader": true, "frameIndex": 0, "cellHeight": "sm"})
	made.Transformations = []grafana.Transform{
		sortedBy("Value", true),
		{ID: "limit", Options: map[string]any{"limitField": mostCells}},
		{ID: "groupingToMatrix", Options: map[string]any{
			"columnField": "peer_group", "rowField": "own_group", "valueField": "Value", "emptyValue": "empty",
		}},
	}
	b.add(made)
}

func (b *board) fabricHistory() {
	unwell := func(r *verdict.Row) bool { return r.Verdict != verdict.VerdictOK }
	var words []query
	for _, v := range verdictsThat(unwell) {
		words = append(words, query{
			alias: v,
			text: `SELECT count("verdict") AS "pairs" FROM (SELECT last("verdict") AS "verdict" FROM {rdma_fabric_peer} WHERE {filter}
				GROUP BY time($__interval), ` + byPair + ` fill(none)) WHERE "verdict" = '` + v + `' AND $timeFilter GROUP BY time($__interval) fill(none)`,
			prom: `count(` + pairsThatSay("FILTER,", v) + `)`,
		})
	}
	b.series(panel{
		id: 19, title: "Verdicts", width: 12, height: 10, fabric: true,
		help: help{
			"Pairs with a verdict other than ok, by verdict.",
			nothing + "; from the worst to the mildest: " + explainWords(verdictsThat(unwell), func(word string) string { return verdict.Verdict(word).Text() }),
			"the tables above name interface and group.", "pairs whose verdict is ok, and pairs that have not met.",
		},
		queries: words,
	}, lines)
	b.series(panel{
		id: 20, title: "Loss by direction", width: 12, height: 10, fabric: true,
		help: help{
			"Probes without an echo in each interval: lost on the forward path, lost on the reverse path, refused by a peer that had no room for them, " +
				"and unknown, for example when a worker dies.",
			nothing + "; orange is loss in the network; blue and grey are not.",
			"loss in one direction points to a transmitter or a receiver, loss in both to a link.",
			"the direction of lost writes: the NIC repeats them, which shows only as latency.",
		},
		queries: []query{
			counterQuery("there", "forward_lost", "rdma_fabric_port", ""), counterQuery("back", "reverse_lost", "rdma_fabric_port", ""),
			counterQuery("busy", "busy_lost", "rdma_fabric_port", ""), counterQuery("not known", "unknown_lost", "rdma_fabric_port", ""),
		},
	}, bars)
	b.series(panel{
		id: 21, title: "Write p99 by group", width: 24, height: 9, fabric: true, unit: b.names.unit("rdma_fabric.write_ns_p99"),
		help: help{
			"The mean of the 99th percentiles of the write latency from the hosts of each group to all their peers. The alert fabric-slow uses the median.",
			nothing + "; compare a group with its past and with others.",
			"`rdma-events explain fabric-slow`.", "single hosts of a group: the matrix above shows the greatest value.",
		},
		queries: []query{{
			alias: "$tag_own_group",
			text:  `SELECT mean("write_ns_p99") AS "p99" FROM {rdma_fabric} WHERE {filter} GROUP BY time($__interval), "own_group" fill(none)`,
			prom:  `avg by (own_group) (rdma_fabric_write_p99_seconds{FILTER})`,
		}},
	}, lines)
}

// unmetReasons returns the reasons why two hosts have not met, the worst first. It leaves out reasons that say nothing about the peer.
func unmetReasons() (words []string) {
	for _, r := range verdict.Reasons() {
		if !r.NotAboutPeer {
			words = append(words, string(r.Reason))
		}
	}
	return words
}

// explainWords returns the meaning of each word, as in "path: echo and write silent. partial: ...".
func explainWords(words []string, text func(string) string) string {
	var all []string
	for _, word := range words {
		all = append(all, word+": "+text(word)+".")
	}
	return strings.Join(all, " ")
}

func (b *board) fabricPeers() {
	b.table(panel{
		id: 23, title: "Busy peers", width: 8, height: 9, now: true, fabric: true,
		help: help{
			"Up to 100 interfaces whose NIC acknowledges writes while the plugin's process does not echo probes, with the number of hosts that observe it.",
			nothing + "; on such a host the process is stopped, or lacks CPU time or memory.",
			"look at the host's load; its applications may be slow too.",
			"pauses shorter than two seconds.",
		},
		queries: []query{
			b.saying("Value", "peer_busy"),
		},
	}, b.toPeer(), b.peerColumns(column{name: "Value", title: "observers"})...)
	b.sorted("observers", "Value", true)
	var unmet []query
	for _, reason := range unmetReasons() {
		unmet = append(unmet, query{
			alias: reason,
			text: `SELECT count("reason") AS "pairs" FROM (SELECT last("reason") AS "reason" FROM {rdma_fabric_peer} WHERE {filter}
				GROUP BY time($__interval), ` + byPair + ` fill(none)) WHERE "reason" = '` + reason + `' AND $timeFilter GROUP BY time($__interval) fill(none)`,
			prom: `count(max by (` + inPair + `) (rdma_fabric_peer_status{FILTER,reason="` + reason + `"} == 1))`,
		})
	}
	b.series(panel{
		id: 24, title: "Not met, by reason", width: 10, height: 9, fabric: true,
		help: help{
			"Pairs that are not probed, by the reason why their hello failed.",
			nothing + "; from the worst to the mildest: " + explainWords(unmetReasons(), func(word string) string { return verdict.Reason(word).Text() }),
			"`rdma-events explain fabric-unmet`.", "hosts that are in no list.",
		},
		queries: unmet,
	}, lines)
	b.table(panel{
		id: 25, title: "Lists", width: 6, height: 9, now: true, fabric: true,
		help: help{
			"The number of ports that have each list of hosts. A list is shown by its digest, the rarest first.",
			nothing + "; if there are two rows for long, some hosts did not get the new list.",
			"compare the files of a host with each digest, and roll out the right file.",
			"which hosts: ask the database for the digest.",
		},
		queries: []query{{
			text: `SELECT last("list") AS "list", last("pairs") AS "up" FROM {rdma_fabric_port} WHERE {filter} GROUP BY ` + byPort + `, "own_group"`,
			prom: `sort(count by (list) (rdma_fabric_port_info{FILTER} == 1))`,
		}},
	}, nil, column{name: "list"}, column{name: "up", prom: "Value", title: "ports"})
	b.counting("up", "list")
}

func (b *board) fabricCost() {
	b.series(panel{
		id: 27, title: "Packets", width: 12, height: 8, fabric: true,
		help: help{
			"Probes and writes that the ports sent in each interval, and echoes that they sent for peers.",
			nothing + "; a port sends 16 of each per second, and a few more while packets are lost.",
			"if there are fewer, some ports do not probe or some hosts are down.",
			"acknowledgements of the NICs, as many as writes.",
		},
		queries: []query{
			counterQuery("probes sent", "sent", "rdma_fabric_port", ""), counterQuery("writes posted", "writes", "rdma_fabric_port", ""),
			counterQuery("echoes sent", "echoed", "rdma_fabric_port", ""),
		},
	}, bars)
	b.series(panel{
		id: 28, title: "Packets without an echo", width: 12, height: 8, fabric: true,
		help: help{
			"Probes of peers that were refused; datagrams from unknown senders or ended sessions (foreign); " +
				"and how often a queue had no receive buffer left (dry).",
			nothing + "; refused and dry mean that the host lacked CPU time; some foreign ones after a restart are normal.",
			"if there are many for long, run `rdma-events doctor` on the host.",
			"who sent them.",
		},
		queries: []query{
			counterQuery("refused", "refused", "rdma_fabric_port", ""), counterQuery("foreign", "foreign", "rdma_fabric_port", ""),
			counterQuery("dry", "dry", "rdma_fabric_port", ""),
		},
	}, bars)
}
