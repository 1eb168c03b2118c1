package prometheus_test

import (
	"fmt"
	"maps"
)

// mergeSeries returns all series of several maps.
func mergeSeries(all ...map[string]string) map[string]string {
	series := map[string]string{}
	for _, some := range all {
		maps.Copy(series, some)
	}
	return series
}

// observerSeries returns the series of a group's hosts about an interface in group a.
func observerSeries(hosts int, group, bad string) map[string]string {
	scope := "across"
	if group == "a" {
		scope = "group"
	}
	all := map[string]string{}
	for i := range hosts {
		all[fmt.Sprintf(`rdma_fabric_peer_bad{site="s",host="%s%d",device="d",port="1",own_group="%[1]s",peer_host="x",peer_device="d",`+
			`peer_group="a",scope=%[3]q}`, group, i, scope)] = bad
	}
	return all
}

// groupSizes returns the pairs that the rules use to count hosts: of hosts within group a, and of other hosts in groups of their own.
func groupSizes(hosts, others int) map[string]string {
	all := map[string]string{}
	for i := range hosts {
		all[fmt.Sprintf(`rdma_fabric_pairs{site="s",host="a%d",own_group="a",peer_group="a",scope="group"}`, i)] = "3x90"
	}
	for i := range others {
		all[fmt.Sprintf(`rdma_fabric_pairs{site="s",host="b%d",own_group="b%[1]d",peer_group="a",scope="across"}`, i)] = "3x90"
	}
	return all
}

// twoPortObserver returns the series of two ports of one host in group a about an interface in its group.
func twoPortObserver(bad string) map[string]string {
	all := map[string]string{}
	for _, device := range []string{"d", "e"} {
		all[fmt.Sprintf(`rdma_fabric_peer_bad{site="s",host="a0",device=%q,port="1",own_group="a",peer_host="x",peer_device="d",peer_group="a",scope="group"}`,
			device)] = bad
	}
	return all
}

// ownLinkPorts returns the series of ports of group a that blame their own link.
func ownLinkPorts(values string, hosts ...string) map[string]string {
	all := map[string]string{}
	for _, host := range hosts {
		all[fmt.Sprintf(`rdma_fabric_port_bad{site="s",host=%q,device="d",port="1",own_group="a"}`, host)] = values
	}
	return all
}

// pairsAcross returns the pairs of two hosts of group a with group b: 8 for each host, of which met are connected. Pairs of the hosts near
// with the hosts far have the verdict.
func pairsAcross(met int, verdict, values string, near, far []string) map[string]string {
	all := map[string]string{}
	for _, host := range []string{"h", "i"} {
		of := fmt.Sprintf(`{site="s",host=%q,own_group="a",peer_group="b",scope="across"}`, host)
		maps.Copy(all, map[string]string{
			"rdma_fabric_pairs" + of: "8x90", "rdma_fabric_pairs_met" + of: fmt.Sprintf("%dx90", met), "rdma_fabric_pairs_busy" + of: "0x90",
			"rdma_fabric_pairs_down" + of: "0x90",
		})
	}
	for i := range max(len(near), len(far)) {
		all[spokenOf(near[i%len(near)], far[i%len(far)], "across", verdict)] = values
	}
	return all
}

// spokenOf is the series of a pair's verdict.
func spokenOf(host, peer, scope, verdict string) string {
	return fmt.Sprintf(`rdma_fabric_peer_status{site="s",host=%q,device="d",port="1",own_group="a",peer_host=%q,peer_device="d",peer_group="b",`+
		`scope=%q,verdict=%q,pair=%q}`, host, peer, scope, verdict, pairLabel(host, peer))
}

// pairLabel names both ends of a pair, as telegraf.conf does.
func pairLabel(host, peer string) string {
	return min(host, peer) + "/d " + max(host, peer) + "/d"
}

// pairVerdicts returns the series of two hosts of group a about each other, with the verdict as a word and as a number.
func pairVerdicts(host, peer, verdict, values string) map[string]string {
	all := map[string]string{}
	for _, end := range [][2]string{{host, peer}, {peer, host}} {
		of := fmt.Sprintf(`site="s",host=%q,device="d",port="1",own_group="a",peer_host=%q,peer_device="d",peer_group="a",scope="group"`, end[0], end[1])
		all[fmt.Sprintf(`rdma_fabric_peer_status{%s,verdict=%q,pair=%q}`, of, verdict, pairLabel(host, peer))] = values
		all[`rdma_fabric_peer_bad{`+of+`}`] = values
		all[fmt.Sprintf(`rdma_fabric_pairs{site="s",host=%q,own_group="a",peer_group="a",scope="group"}`, end[0])] = "3x90"
	}
	return all
}

// unmetPair returns a pair that has not met, with the reason.
func unmetPair(reason, values string) map[string]string {
	return map[string]string{fmt.Sprintf(`rdma_fabric_peer_status{site="s",host="h",device="d",port="1",own_group="a",peer_host="x",peer_group="b",`+
		`scope="across",reason=%q}`, reason): values}
}

// listPorts returns a port of each of two hosts, with the digests of their lists.
func listPorts(site, list, values string) map[string]string {
	return map[string]string{
		`rdma_fabric_port_info{site="s",host="h",device="d",port="1",own_group="a",list="1"}`:                        "1x90",
		fmt.Sprintf(`rdma_fabric_port_info{site=%q,host="i",device="d",port="1",own_group="a",list=%q}`, site, list): values,
	}
}

// fabricUnits are the cases of the alerts about the network between hosts.
func fabricUnits() []unit {
	own := `rdma_fabric_port_bad{host="h",device="d",port="1",own_group="a"}`
	p99 := `rdma_fabric_write_p99_seconds{site="s",host="h",own_group="a",peer_group="a",scope="group"}`
	of := `{site="s",host="h",own_group="a",peer_group="b",scope="across"}`
	unmet := func(met string) map[string]string {
		return map[string]string{"rdma_fabric_pairs" + of: "20x90", "rdma_fabric_pairs_met" + of: met}
	}
	other := `{site="s",host="h",own_group="a",peer_group="a",scope="group"}`
	keyed := func(peer, device string) string {
		return fmt.Sprintf(`rdma_fabric_peer_status{site="s",host="h",device=%q,port="1",own_group="a",peer_host=%q,peer_group="a",scope="group",reason="key"}`,
			device, peer)
	}
	const begins = "0x20 1x20 0x30"
	two, three := []string{"h", "i"}, []string{"x", "y", "z"}
	return []unit{
		{"own link", "RDMAFabricOwnLink", map[string]string{own: begins}, []int{22, 40}, []int{20, 21, 43}},
		{"own link for less than a minute", "RDMAFabricOwnLink", map[string]string{own: "0x20 1 0x30"}, nil, []int{21, 22, 23}},
		{"no own link", "RDMAFabricOwnLink", map[string]string{own: "0x90"}, nil, []int{10, 60}},
		{"own link until the port is not active", "RDMAFabricOwnLink", map[string]string{own: "0x20 1x10 0x60"}, []int{25}, []int{35, 60}},

		{"own links of a group that is cut off", "RDMAFabricOwnLink", mergeSeries(ownLinkPorts("1x60", "h", "i"),
			pairsAcross(4, "own_link", begins, two, three)), nil, []int{22, 40}},
		{"an own link in a group that is cut off", "RDMAFabricOwnLink", mergeSeries(ownLinkPorts("1x60", "h"),
			pairsAcross(4, "own_link", begins, two, three)), []int{22, 40}, nil},

		{"two of its own group", "RDMAFabricSuspect", mergeSeries(observerSeries(2, "a", begins), groupSizes(5, 0)), []int{22, 40}, []int{20, 43}},
		{"one of its own group", "RDMAFabricSuspect", mergeSeries(observerSeries(1, "a", begins), groupSizes(5, 0)), nil, []int{22, 40}},
		{"two ports of one host", "RDMAFabricSuspect", mergeSeries(twoPortObserver(begins), groupSizes(5, 0)), nil, []int{22, 40}},
		{"four of other groups", "RDMAFabricSuspect", mergeSeries(observerSeries(1, "a", begins), observerSeries(3, "b", begins),
			groupSizes(5, 0)), nil, []int{22, 40}},
		{"three in a small group", "RDMAFabricSuspect", mergeSeries(observerSeries(2, "a", begins), observerSeries(1, "b", begins),
			groupSizes(3, 1)), []int{22, 40}, []int{20, 43}},
		{"two in a small group", "RDMAFabricSuspect", mergeSeries(observerSeries(2, "a", begins), groupSizes(3, 1)), nil, []int{22, 40}},
		{"both others of three hosts", "RDMAFabricSuspect", mergeSeries(observerSeries(2, "a", begins), groupSizes(3, 0)), []int{22, 40}, []int{20, 43}},
		{"the other of two hosts", "RDMAFabricSuspect", mergeSeries(observerSeries(1, "a", begins), groupSizes(2, 0)), nil, []int{22, 40}},
		{"three, of the only host of its group", "RDMAFabricSuspect", observerSeries(3, "b", begins), []int{22, 40}, []int{20, 43}},
		{"verdicts that blame nothing", "RDMAFabricSuspect", mergeSeries(observerSeries(4, "a", "0x90"), groupSizes(5, 0)), nil, []int{22, 40}},
		{"it blames its own link", "RDMAFabricSuspect", mergeSeries(observerSeries(2, "a", begins), groupSizes(5, 0), ownLinkPorts("1x60", "x")), nil, []int{22, 40}},
		{"another one blames its own link", "RDMAFabricSuspect", mergeSeries(observerSeries(2, "a", begins), groupSizes(5, 0), ownLinkPorts("1x60", "y")),
			[]int{22, 40}, []int{20, 43}},

		{"more than a quarter of the pairs", "RDMAFabricGroup", pairsAcross(4, "path", begins, two, three), []int{22, 40}, []int{20, 43}},
		{"a quarter of the pairs", "RDMAFabricGroup", pairsAcross(6, "path", begins, two, three), nil, []int{22, 40}},
		{"all pairs of one host", "RDMAFabricGroup", pairsAcross(4, "path", begins, []string{"h"}, []string{"w", "x", "y", "z"}), nil, []int{22, 40}},
		{"pairs with one host", "RDMAFabricGroup", pairsAcross(2, "path", begins, []string{"h", "i"}, []string{"x"}), nil, []int{22, 40}},
		{"pairs of hosts that blame their own link", "RDMAFabricGroup", pairsAcross(4, "own_link", begins, two, three), []int{22, 40}, []int{20, 43}},
		{"peers that are down", "RDMAFabricGroup", pairsAcross(4, "peer_down", begins, two, three), nil, []int{22, 40}},
		{"pairs within the group", "RDMAFabricGroup", mergeSeries(pairsAcross(4, "ok", "1x90", two, three), map[string]string{
			spokenOf("h", "i", "group", "path"): begins, spokenOf("i", "h", "group", "path"): begins, spokenOf("i", "j", "group", "path"): begins,
		}), nil, []int{22, 40}},

		{"both hosts of a pair", "RDMAFabricPair", pairVerdicts("h", "i", "path", begins), []int{27, 40}, []int{20, 24, 43}},
		{"one path of a pair", "RDMAFabricPair", pairVerdicts("h", "i", "partial", begins), []int{27, 40}, []int{20, 24, 43}},
		{"a pair for four minutes", "RDMAFabricPair", pairVerdicts("h", "i", "path", "0x20 1x3 0x40"), nil, []int{22, 25, 27, 29}},
		{"a pair that is lossy", "RDMAFabricPair", pairVerdicts("h", "i", "lossy_both", begins), nil, []int{22, 40}},
		{"a pair with a suspect", "RDMAFabricPair", mergeSeries(pairVerdicts("h", "i", "path", begins), pairVerdicts("h", "j", "path", begins)), nil, []int{27, 40}},
		{"a pair with a port that blames its own link", "RDMAFabricPair", mergeSeries(ownLinkPorts("1x60", "i"), map[string]string{
			spokenOf("h", "i", "group", "path"): begins, spokenOf("i", "h", "group", "own_link"): begins,
		}), nil, []int{27, 40}},
		{"pairs of a group that is cut off", "RDMAFabricPair", pairsAcross(4, "path", begins, two, three), nil, []int{27, 40}},

		{"loss", "RDMAFabricLossy", map[string]string{spokenOf("h", "x", "group", "lossy_forward"): "0x20 1x30 0x20"}, []int{32, 50}, []int{20, 25, 53}},
		{"loss that turns", "RDMAFabricLossy", map[string]string{
			spokenOf("h", "x", "group", "lossy_forward"): "0x20 1x6 0x40", spokenOf("h", "x", "group", "lossy_both"): "0x26 1x20 0x20",
		}, []int{32, 45}, []int{20, 25, 53}},
		{"loss for eight minutes", "RDMAFabricLossy", map[string]string{spokenOf("h", "x", "group", "lossy_reverse"): "0x20 1x7 0x40"}, nil, []int{25, 29, 31, 35}},
		{"a path, which is no loss", "RDMAFabricLossy", map[string]string{spokenOf("h", "x", "group", "path"): "1x60"}, nil, []int{15, 40}},

		{"writes are slow", "RDMAFabricSlow", map[string]string{p99: "12e-6x300 240e-6x60 12e-6x60"}, []int{315, 350}, []int{300, 305, 365}},
		{"slow from the start", "RDMAFabricSlow", map[string]string{p99: "240e-6x400"}, nil, []int{100, 330, 400}},
		{"four times little", "RDMAFabricSlow", map[string]string{p99: "12e-6x300 90e-6x60"}, nil, []int{315, 350}},
		{"three times as slow", "RDMAFabricSlow", map[string]string{p99: "40e-6x300 120e-6x60"}, nil, []int{315, 350}},
		{"slow for eight minutes", "RDMAFabricSlow", map[string]string{p99: "12e-6x300 240e-6x7 12e-6x60"}, nil, []int{305, 309, 311, 315}},

		{"a tenth has not met", "RDMAFabricUnmet", unmet("20x20 18x30 20x30"), []int{32, 50}, []int{20, 25, 53}},
		{"a twentieth has not met", "RDMAFabricUnmet", unmet("20x20 19x60"), nil, []int{32, 50}},
		{"not met for eight minutes", "RDMAFabricUnmet", unmet("20x20 0x7 20x60"), nil, []int{25, 29, 31, 35}},
		{"no pairs", "RDMAFabricUnmet", map[string]string{"rdma_fabric_pairs" + of: "0x60", "rdma_fabric_pairs_met" + of: "0x60"}, nil, []int{15, 40}},

		{"only pairs whose key differs", "RDMAFabricUnmet", map[string]string{
			"rdma_fabric_pairs" + other: "2x90", "rdma_fabric_pairs_met" + other: "0x90", keyed("x", "d"): "1x90", keyed("y", "d"): "1x90",
		}, nil, []int{32, 50}},
		{"a key that peers refuse", "RDMAFabricUnmet", mergeSeries(unmet("20x20 18x30 20x30"), unmetPair("key", "0x20 1x30 0x30"),
			map[string]string{keyed("x", "e"): "0x20 1x30 0x30"},
		), nil, []int{32, 50}},

		{"a key that differs", "RDMAFabricKey", unmetPair("key", "0x20 1x30 0x20"), []int{32, 50}, []int{20, 28, 53}},
		{"a key that is exchanged", "RDMAFabricKey", unmetPair("key", "0x20 1x7 0x40"), nil, []int{25, 29, 31, 35}},
		{"a certificate that expires while they probe", "RDMAFabricKey", map[string]string{
			`rdma_fabric_peer_status{site="s",host="h",device="d",port="1",own_group="a",peer_host="x",peer_device="d",peer_group="b",scope="across",` +
				`verdict="ok",reason="key"}`: "0x20 1x30 0x20",
		}, []int{32, 50}, []int{20, 28, 53}},
		{"no process", "RDMAFabricKey", unmetPair("no_responder", "1x60"), nil, []int{15, 40}},

		{"two lists", "RDMAFabricListsDiffer", listPorts("s", "2", "0x10 1x45 0x30"), []int{42, 54}, []int{10, 20, 38, 58}},
		{"a list is rolled out", "RDMAFabricListsDiffer", listPorts("s", "2", "0x10 1x25 0x40"), nil, []int{20, 38, 42, 60}},
		{"two sites", "RDMAFabricListsDiffer", listPorts("north", "2", "1x90"), nil, []int{35, 80}},
		{"one list", "RDMAFabricListsDiffer", listPorts("s", "1", "1x90"), nil, []int{35, 80}},
	}
}
