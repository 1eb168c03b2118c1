package gen

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/fabric/verdict"
)

// verdictsThat returns the words of some verdicts of pairs, from the worst to the mildest.
func verdictsThat(which func(*verdict.Row) bool) (words []string) {
	for _, r := range verdict.Verdicts() {
		if r.OfPair && which(&r) {
			words = append(words, string(r.Verdict))
		}
	}
	return words
}

// These are the numbers by which an interface or a group is suspected.
const (
	suspectedBy  = 2    // observers of its own group
	smallGroup   = 4    // hosts: a group of fewer has too few observers
	suspectedAny = 3    // observers from anywhere, of a host in such a group
	groupShare   = 0.25 // of the pairs of a group with others: more than this
	cutHosts     = 2    // hosts at either end of these pairs: those of one host are that host's link
)

// groupVerdicts returns the verdicts that count against a group. They include the verdicts about pairs whose port blames its own link: if a
// whole group is cut off, each of its hosts blames its own link.
func groupVerdicts() []string {
	return verdictsThat(func(r *verdict.Row) bool {
		return r.Blames == verdict.BlameNetwork || r.Blames == verdict.BlameOwn
	})
}

// silentVerdicts returns the verdicts that blame the network because nothing comes through, on one path or on all of them.
func silentVerdicts() []string {
	return verdictsThat(func(r *verdict.Row) bool { return r.Blames == verdict.BlameNetwork && r.Direction == "" })
}

// lossyVerdicts returns the verdicts that blame the network because it loses a share of the packets, sorted.
func lossyVerdicts() []string {
	return slices.Sorted(slices.Values(verdictsThat(func(r *verdict.Row) bool {
		return r.Blames == verdict.BlameNetwork && r.Direction != ""
	})))
}

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

// verdictCondition returns a condition of InfluxQL for pairs whose last verdict is one of words.
func verdictCondition(words ...string) string {
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

// end is one end of a pair by its tags, in both engines: the host, its device and its group, and the host at the other end.
type end struct{ host, device, group, other string }

var (
	ownEnd  = end{"host", "device", "own_group", "peer_host"}
	peerEnd = end{"peer_host", "peer_device", "peer_group", "host"}
)

// quotedTags returns names as a list of tags in InfluxQL.
func quotedTags(names ...string) string { return `"` + strings.Join(names, `", "`) + `"` }

// groupedBy returns the end of a query that groups by the site and by tags. Without either there is nothing to group by.
func (o *Options) groupedBy(tags ...string) string {
	by := strings.TrimSuffix(o.site(InfluxDB), ", ")
	if len(tags) > 0 {
		by = o.site(InfluxDB) + quotedTags(tags...)
	}
	if by == "" {
		return ""
	}
	return " GROUP BY " + by
}

// bySite returns the clause by of an aggregation in Prometheus, of the site and other labels.
func (o *Options) bySite(labels ...string) string { return "by " + o.inSite(labels...) }

// inSite returns a list of the site's label and of others, for PromQL.
func (o *Options) inSite(labels ...string) string {
	return "(" + strings.TrimSuffix(o.site(Prometheus)+strings.Join(labels, ", "), ", ") + ")"
}

// observers asks for the number of hosts that have a network verdict about each device at an end of pairs, in InfluxDB. A host
// counts once, whatever its ports are. A device that only has pairs of another scope counts 0, so that all conditions of a
// rule have the same series. scope is "" for all pairs.
func (o *Options) observers(e end, scope string) string {
	of := func(value, condition string) string {
		return `(SELECT max("bad") AS "bad" FROM (SELECT ` + value + ` AS "bad" FROM {rdma_fabric_peer} WHERE {filter}` + condition + ` GROUP BY ` + byPair +
			`) WHERE $timeFilter` + o.groupedBy(e.group, e.host, e.device, e.other) + `)`
	}
	from := of(`last("bad")`, "")
	if scope != "" {
		from = of(`last("bad")`, ` AND "scope" = '`+scope+`'`) + `, ` + of(`last("bad") * 0`, ` AND "scope" != '`+scope+`'`)
	}
	return `SELECT sum("bad") AS "observers" FROM ` + from + ` WHERE $timeFilter` + o.groupedBy(e.group, e.host, e.device)
}

// orZero asks for the sum of n of a query, by the site and tags of groups. A group without it counts 0 if the measurement has it: InfluxDB
// adds up what is of one measurement only.
func (o *Options) orZero(query, measurement string, tags ...string) string {
	zero := map[string]string{
		"rdma_fabric":      `SELECT last("pairs") * 0 AS "n" FROM {rdma_fabric} WHERE {filter} GROUP BY ` + byGroupPair,
		"rdma_fabric_peer": `SELECT last("bad") * 0 AS "n" FROM {rdma_fabric_peer} WHERE {filter} GROUP BY ` + byPair,
	}[measurement]
	return `SELECT sum("n") AS "n" FROM (` + query + `), (` + zero + `) WHERE $timeFilter` + o.groupedBy(tags...)
}

// sized asks for the number of hosts of each group.
func (o *Options) sized(e end) string {
	return o.orZero(`SELECT last("pairs") * 0 + 1 AS "n" FROM {rdma_fabric} WHERE {filter} AND "scope" = 'group' GROUP BY {labels}`+
		quotedTags("host", e.group), "rdma_fabric", e.group)
}

// others asks for the number of hosts of a site but one.
func (o *Options) others() string {
	return `SELECT sum("n") - 1 AS "others" FROM (SELECT last("pairs") * 0 + 1 AS "n" FROM {rdma_fabric} WHERE {filter} GROUP BY {labels}"host")
		WHERE $timeFilter` + o.groupedBy()
}

// suspectedCondition returns the condition that a device is a suspect. The arguments name results of steps: the observers in the device's
// own group, the observers in all groups, the hosts of its group, and the other hosts of the site.
func suspectedCondition(own, all, size, others string) string {
	return fmt.Sprintf("(%[3]s >= %[7]d && %[1]s >= %[5]d || %[3]s < %[7]d && (%[2]s >= %[6]d || %[2]s >= %[5]d && %[2]s >= %[4]s))",
		own, all, size, others, suspectedBy, suspectedAny, smallGroup)
}

// notSuspectedCondition returns the negation of suspectedCondition.
func notSuspectedCondition(own, all, size, others string) string {
	return fmt.Sprintf("(%[3]s >= %[7]d && %[1]s < %[5]d || %[3]s < %[7]d && %[2]s < %[6]d && (%[2]s < %[5]d || %[2]s < %[4]s))",
		own, all, size, others, suspectedBy, suspectedAny, smallGroup)
}

// suspects are the devices that are suspected, in Prometheus, with the number of their observers.
func (o *Options) suspects() string {
	observers := func(filter string) string {
		return `count ` + o.bySite("peer_group", "peer_host", "peer_device") + ` (max ` + o.bySite("host", "peer_group", "peer_host", "peer_device") +
			` (rdma_fabric_peer_bad` + filter + `) == 1)`
	}
	own, all := observers(`{scope="group"}`), observers("")
	large := fmt.Sprintf(`on %s (count %s (max %s (rdma_fabric_pairs{scope="group"})) >= %d)`,
		o.inSite("peer_group"), o.bySite("peer_group"), o.bySite("host", "peer_group"), smallGroup)
	others := `on ` + o.inSite() + ` group_left () (count ` + o.bySite() + ` (max ` + o.bySite("host") + ` (rdma_fabric_pairs)) - 1)`
	return fmt.Sprintf(`(%[1]s >= %[5]d and %[3]s or (%[2]s >= %[6]d or %[2]s >= %[4]s and %[2]s >= %[5]d) unless %[3]s)`,
		own, all, large, others, suspectedBy, suspectedAny)
}

// copyLabels returns series of Prometheus with labels copied to other names. names is a list of pairs: from, to, from, to.
func copyLabels(series string, names ...string) string {
	for pair := range slices.Chunk(names, 2) {
		series = fmt.Sprintf(`label_replace(%s, %q, "$1", %q, "(.*)")`, series, pair[1], pair[0])
	}
	return series
}

// ownLinks are the devices of ports that blame their own link, by the labels of peers, in Prometheus.
func (o *Options) ownLinks() string {
	return copyLabels(`max `+o.bySite("host", "device")+` (rdma_fabric_port_bad == 1)`, "host", "peer_host", "device", "peer_device")
}

// cutSteps ask what says that groups are cut off: their bad pairs with other groups, all of these, and the hosts at both ends of the
// bad ones.
func (o *Options) cutSteps(e end) []step {
	bad := ` FROM ` + lastVerdicts(` AND "scope" = 'across'`) + ` WHERE ` + verdictCondition(groupVerdicts()...) + ` AND $timeFilter`
	hosts := func(host string) string {
		each := `(SELECT count("verdict") AS "n"` + bad + o.groupedBy(e.group, host) + `)`
		return o.orZero(`SELECT count("n") AS "n" FROM `+each+` WHERE $timeFilter`+o.groupedBy(e.group), "rdma_fabric_peer", e.group)
	}
	var all []step
	for _, query := range []string{
		o.orZero(`SELECT count("verdict") AS "n"`+bad+o.groupedBy(e.group), "rdma_fabric_peer", e.group), o.orZero(acrossText, "rdma_fabric", e.group),
		hosts(e.host), hosts(e.other),
	} {
		all = append(all, step{query: query, from: o.window()})
	}
	return all
}

// cutOffCondition returns the condition that a group is cut off. The arguments name results of cutSteps.
func cutOffCondition(bad, pairs, near, far string) string {
	return fmt.Sprintf("%s > %g * %s && %s >= %d && %s >= %[5]d", bad, groupShare, pairs, near, cutHosts, far)
}

// notCutOffCondition returns the negation of cutOffCondition.
func notCutOffCondition(bad, pairs, near, far string) string {
	return fmt.Sprintf("(%s <= %g * %s || %s < %d || %s < %[5]d)", bad, groupShare, pairs, near, cutHosts, far)
}

// cutGroups are the groups that are cut off, in Prometheus.
func (o *Options) cutGroups() string {
	bad := strings.ReplaceAll(pairsThatSay(`scope="across",`, groupVerdicts()...), "PLACE, ", o.site(Prometheus))
	by := o.bySite("own_group")
	hosts := func(host string) string {
		return `count ` + by + ` (count ` + o.bySite("own_group", host) + ` (` + bad + `)) >= ` + fmt.Sprint(cutHosts)
	}
	return `(count ` + by + ` (` + bad + `) > ` + fmt.Sprint(groupShare) + ` * sum ` + by + ` (` + strings.ReplaceAll(acrossProm, "FILTER", "") + `)
		and ` + hosts("host") + ` and ` + hosts("peer_host") + `)`
}

// across are the pairs of each group with others about which a verdict says something of the network, or that are well.
const (
	acrossText = `SELECT last("pairs_met") - last("pairs_busy") - last("pairs_down") AS "n"
		FROM {rdma_fabric} WHERE {filter} AND "scope" = 'across' GROUP BY ` + byGroupPair
	acrossProm = `(rdma_fabric_pairs_met{FILTERscope="across"} - rdma_fabric_pairs_busy{FILTERscope="across"}
		- rdma_fabric_pairs_down{FILTERscope="across"})`
)

// fabricQueries are about the network between hosts. Hosts without the option have none of these series.
func (o *Options) fabricQueries() map[string]queries {
	all := map[string]queries{
		"fabric-own-link": o.ownLink(), "fabric-suspect": o.suspect(), "fabric-group": o.groupSuspect(), "fabric-pair": o.pair(),
	}
	maps.Copy(all, o.fabricSlow())
	maps.Copy(all, o.fabricSetUp())
	return all
}

func (o *Options) ownLink() queries {
	return queries{
		promql: `rdma_fabric_port_bad == 1 unless on ` + o.inSite("own_group") + ` (` + o.cutGroups() + ` and count ` + o.bySite("own_group") +
			` (max ` + o.bySite("own_group", "host") + ` (rdma_fabric_port_bad) == 1) >= 2)`,
	}
}

func (o *Options) suspect() queries {
	all := o.observers(peerEnd, "")
	blaming := `SELECT count(distinct("verdict")) AS "n" FROM ` + lastVerdicts(` AND "scope" = 'group'`) + ` WHERE ` +
		verdictCondition(string(verdict.VerdictOwnLink)) + ` AND $timeFilter` +
		o.groupedBy("peer_group", "host", "device", "port")
	asked := queries{
		// InfluxDB cannot compare the tag peer_host of observers with the tag host of the port that they observe. So it compares, in each
		// group, how many interfaces are suspected with how many ports blame their own link.
		when:   suspectedCondition("$RA", "$RB", "$RC", "$RD") + " && ($RF == 0 || $RE > $RF)",
		promql: o.suspects() + ` unless on ` + o.inSite("peer_host", "peer_device") + ` ` + o.ownLinks(),
	}
	for _, query := range []string{
		o.observers(peerEnd, "group"), all, o.sized(peerEnd), o.others(),
		fmt.Sprintf(`SELECT count("observers") AS "n" FROM (%s) WHERE "observers" >= %d AND $timeFilter`, all, suspectedBy) + o.groupedBy("peer_group"),
		o.orZero(`SELECT sum("n") AS "n" FROM (`+blaming+`) WHERE $timeFilter`+o.groupedBy("peer_group"), "rdma_fabric_peer", "peer_group"),
	} {
		asked.steps = append(asked.steps, step{query: query, from: o.window()})
	}
	return asked
}

func (o *Options) groupSuspect() queries {
	return queries{
		steps:  o.cutSteps(ownEnd),
		when:   cutOffCondition("$RA", "$RB", "$RC", "$RD"),
		promql: o.cutGroups(),
	}
}

// orderedLabel returns a template for a label of the first or the second end of a pair. The ends are ordered by the names of their hosts.
func orderedLabel(first bool, e, other string) string {
	if !first {
		e, other = other, e
	}
	return "{{ if lt .Labels.host .Labels.peer_host }}{{ .Labels." + e + " }}{{ else }}{{ .Labels." + other + " }}{{ end }}"
}

// pair is about what no other rule can name an end of. Both hosts of a pair report it, and it is one alert: its labels have the ends in the
// order of their names. InfluxDB cannot bring tags into an order, so that Grafana's labels do it. In Prometheus the label
// pair, which telegraf.conf makes, is the same in what both report.
func (o *Options) pair() queries {
	ends := []string{"host", "device", "own_group", "peer_host", "peer_device", "peer_group"}
	silent := silentVerdicts()
	steps := []step{{
		query: `SELECT count("verdict") AS "pairs" FROM ` + lastVerdicts("") + ` WHERE ` + verdictCondition(silent...) + ` AND $timeFilter` + o.groupedBy(ends...),
		from:  o.window(),
	}, {query: o.others(), from: o.window()}}
	when := "$RA > 0"
	next := func() string { return "$R" + string(rune('A'+len(steps)-1)) }
	for _, e := range []end{ownEnd, peerEnd} {
		var results []string
		for _, s := range append([]step{
			{query: o.observers(e, "group"), from: o.window()}, {query: o.observers(e, ""), from: o.window()}, {query: o.sized(e), from: o.window()},
		}, o.cutSteps(e)...) {
			steps = append(steps, s)
			results = append(results, next())
		}
		when += " && " + notSuspectedCondition(results[0], results[1], results[2], "$RB") + " && " + notCutOffCondition(results[3],
			results[4], results[5], results[6])
	}
	suspects, groups := o.suspects(), o.cutGroups()
	return queries{
		labels: map[string]string{
			"host": orderedLabel(true, "host", "peer_host"), "peer_host": orderedLabel(false, "host", "peer_host"),
			"device": orderedLabel(true, "device", "peer_device"), "peer_device": orderedLabel(false, "device", "peer_device"),
			"own_group": "", "peer_group": "",
		},
		steps: steps,
		when:  when,
		promql: relabelledPair(`max ` + o.bySite("pair") + ` (rdma_fabric_peer_status{verdict=~"` + strings.Join(silent, "|") + `"} == 1
			unless on ` + o.inSite("peer_host", "peer_device") + ` ` + suspects + `
			unless on ` + o.inSite("host", "device") + ` ` + copyLabels(suspects, "peer_host", "host", "peer_device", "device") + `
			unless on ` + o.inSite("peer_host", "peer_device") + ` ` + o.ownLinks() + `
			unless on ` + o.inSite("own_group") + ` ` + groups + `
			unless on ` + o.inSite("peer_group") + ` ` + copyLabels(groups, "own_group", "peer_group") + `)`),
	}
}

// relabelledPair returns series of Prometheus with the labels of both ends of their label pair.
func relabelledPair(series string) string {
	for i, label := range []string{"host", "device", "peer_host", "peer_device"} {
		series = fmt.Sprintf(`label_replace(%s, %q, "$%d", "pair", "(.*)/(.*) (.*)/(.*)")`, series, label, i+1)
	}
	return `max without (pair) (` + series + `)`
}

// fabricSlow are the rules about loss and latency that last.
func (o *Options) fabricSlow() map[string]queries {
	by := ` GROUP BY ` + o.site(InfluxDB) + `"own_group"`
	site := o.site(Prometheus)
	lossy := lossyVerdicts()
	p99 := `SELECT median("write_ns_p99") AS "p99" FROM {rdma_fabric} WHERE {filter}` + by + `, "scope"`
	ago := func(d time.Duration) step { return step{query: p99, from: d + 10*time.Minute, to: d} }
	now := fabricNow(site)
	return map[string]queries{
		"fabric-lossy": {
			steps: []step{{
				query: `SELECT count("verdict") AS "pairs" FROM ` + lastVerdicts("") + ` WHERE ` + verdictCondition(lossy...) + ` AND $timeFilter` + by, from: o.window(),
			}},
			promql: `count by (` + site + `own_group) (` + strings.ReplaceAll(pairsThatSay("", lossy...), "PLACE, ", site) + `) > 0`,
		},
		"fabric-slow": {
			steps: []step{
				{query: p99, from: 5 * time.Minute},
				// To read a day of points of thousands of hosts would take seconds.
				ago(6 * time.Hour), ago(12 * time.Hour), ago(18 * time.Hour),
			},
			// Above four times the median of three is above four times two of them.
			when: "$RA > 100000 && ($RA > 4 * $RB && $RA > 4 * $RC || $RA > 4 * $RB && $RA > 4 * $RD || $RA > 4 * $RC && $RA > 4 * $RD)",
			promql: now + ` > 100e-6 and
				` + now + ` > 4 * quantile_over_time(0.5, ` + fabricPast + `[1d])`,
		},
	}
}

// fabricPast is the name of the recording rule for the past latency of each group.
const fabricPast = "rdma:fabric_write_p99_seconds:median"

// fabricNow is the latency of each group now, in Prometheus.
func fabricNow(site string) string {
	return `quantile by (` + site + `own_group, scope) (0.5, rdma_fabric_write_p99_seconds)`
}

// fabricSetUp are the rules about hosts that do not probe each other as they should.
func (o *Options) fabricSetUp() map[string]queries {
	by := ` WHERE $timeFilter GROUP BY ` + o.site(InfluxDB) + `"own_group"`
	site := o.site(Prometheus)
	sum := func(field string) string {
		return `SELECT sum("n") AS "` + field + `" FROM (SELECT last("` + field + `") AS "n" FROM {rdma_fabric} WHERE {filter} GROUP BY ` + byGroupPair + `)` + by
	}
	// A pair that has met has no reason any more, so that a longer time would have the last one from before.
	moment := max(time.Minute, 3*o.Interval)
	const ofKey = `(SELECT last("reason") AS "reason" FROM {rdma_fabric_peer} WHERE {filter} GROUP BY ` + byPair + `) WHERE "reason" = 'key' AND $timeFilter`
	status := func(filter string) string {
		return `max ` + o.bySite(inPair) + ` (rdma_fabric_peer_status{` + filter + `} == 1)`
	}
	excused := `(count by (` + site + `own_group) (` + status(`reason="key",verdict=""`) + `)
		or 0 * sum by (` + site + `own_group) (rdma_fabric_pairs))`
	inSite, bySite := "", ""
	if site != "" {
		inSite, bySite = ` GROUP BY `+strings.TrimSuffix(o.site(InfluxDB), ", "), ` by (`+strings.TrimSuffix(site, ", ")+`)`
	}
	return map[string]queries{
		"fabric-unmet": {
			steps: []step{
				{query: sum("pairs"), from: o.window()}, {query: sum("pairs_met"), from: o.window()},
				{
					query: o.orZero(`SELECT count("reason") AS "n" FROM `+ofKey+o.groupedBy("own_group"), "rdma_fabric_peer", "own_group"),
					from:  moment,
				},
			},
			when: "9 * ($RA - $RC) >= 10 * $RB && $RA > $RC",
			promql: `10 * (sum by (` + site + `own_group) (rdma_fabric_pairs - rdma_fabric_pairs_met) - ` + excused + `) >=
				sum by (` + site + `own_group) (rdma_fabric_pairs) - ` + excused + ` > 0`,
		},
		"fabric-key": {
			steps: []step{{
				query: `SELECT count("reason") AS "pairs" FROM ` + ofKey + o.groupedBy(), from: moment,
			}},
			promql: `count ` + o.bySite() + ` (` + status(`reason="key"`) + `) > 0`,
		},
		"fabric-lists-differ": {
			above: 1,
			steps: []step{{
				query: `SELECT count(distinct("list")) AS "lists" FROM (SELECT last("list") AS "list" FROM {rdma_fabric_port} WHERE {filter} GROUP BY ` + byPort +
					`) WHERE $timeFilter` + inSite,
				from: o.window(),
			}},
			promql: `count` + bySite + ` (count by (` + site + `list) (rdma_fabric_port_info == 1)) > 1`,
		},
	}
}
