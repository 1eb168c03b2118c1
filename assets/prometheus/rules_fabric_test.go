package prometheus_test

import (
	"fmt"
	"maps"
)

// together returns all series of several.
func together(all ...map[string]string) map[string]string {
	series := map[string]string{}
	for _, some := range all {
		maps.Copy(series, some)
	}
	return series
}

// observed returns what hosts of a group have to say of an interface in group a.
func observed(hosts int, group, bad string) map[string]string {
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

// sized returns the pairs within a group by which its hosts are counted.
func sized(hosts int) map[string]string {
	all := map[string]string{}
	for i := range hosts {
		all[fmt.Sprintf(`rdma_fabric_pairs{site="s",host="a%d",own_group="a",peer_group="a",scope="group"}`, i)] = "3x90"
	}
	return all
}

// outward returns the pairs of a group's host with others: so many are met, and one of those has a verdict.
func outward(met int, verdict, values string) map[string]string {
	of := `{site="s",host="h",own_group="a",peer_group="b",scope="across"}`
	return map[string]string{
		"rdma_fabric_pairs" + of: "8x90", "rdma_fabric_pairs_met" + of: fmt.Sprintf("%dx90", met), "rdma_fabric_pairs_busy" + of: "0x90",
		"rdma_fabric_pairs_down" + of: "0x90", spokenOf("across", verdict): values,
	}
}

// spokenOf is the series of a pair's verdict.
func spokenOf(scope, verdict string) string {
	return fmt.Sprintf(`rdma_fabric_peer_status{site="s",host="h",device="d",port="1",own_group="a",peer_host="x",peer_device="d",peer_group="b",`+
		`scope=%q,verdict=%q}`, scope, verdict)
}

// listed returns ports of two hosts by their lists.
func listed(site, list, values string) map[string]string {
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
	const begins = "0x20 1x20 0x30"
	return []unit{
		{"own link", "RDMAFabricOwnLink", map[string]string{own: begins}, []int{22, 40}, []int{20, 21, 43}},
		{"own link for less than a minute", "RDMAFabricOwnLink", map[string]string{own: "0x20 1 0x30"}, nil, []int{21, 22, 23}},
		{"no own link", "RDMAFabricOwnLink", map[string]string{own: "0x90"}, nil, []int{10, 60}},
		{"own link until the port is not active", "RDMAFabricOwnLink", map[string]string{own: "0x20 1x10 0x60"}, []int{25}, []int{35, 60}},

		{"two of its own group", "RDMAFabricSuspect", together(observed(2, "a", begins), sized(5)), []int{22, 40}, []int{20, 43}},
		{"one of its own group", "RDMAFabricSuspect", together(observed(1, "a", begins), sized(5)), nil, []int{22, 40}},
		{"four of other groups", "RDMAFabricSuspect", together(observed(1, "a", begins), observed(3, "b", begins), sized(5)), nil, []int{22, 40}},
		{"three in a small group", "RDMAFabricSuspect", together(observed(2, "a", begins), observed(1, "b", begins), sized(3)), []int{22, 40}, []int{20, 43}},
		{"two in a small group", "RDMAFabricSuspect", together(observed(2, "a", begins), sized(3)), nil, []int{22, 40}},
		{"three, of the only host of its group", "RDMAFabricSuspect", observed(3, "b", begins), []int{22, 40}, []int{20, 43}},
		{"verdicts that blame nothing", "RDMAFabricSuspect", together(observed(4, "a", "0x90"), sized(5)), nil, []int{22, 40}},

		{"a quarter of the pairs", "RDMAFabricGroup", outward(4, "path", begins), []int{22, 40}, []int{20, 43}},
		{"a fifth of the pairs", "RDMAFabricGroup", outward(5, "path", begins), nil, []int{22, 40}},
		{"pairs of hosts that blame their own link", "RDMAFabricGroup", outward(4, "own_link", begins), []int{22, 40}, []int{20, 43}},
		{"peers that are down", "RDMAFabricGroup", outward(4, "peer_down", begins), nil, []int{22, 40}},
		{"pairs within the group", "RDMAFabricGroup", together(outward(4, "ok", "1x90"), map[string]string{spokenOf("group", "path"): begins}), nil, []int{22, 40}},

		{"loss", "RDMAFabricLossy", map[string]string{spokenOf("group", "lossy_forward"): "0x20 1x30 0x20"}, []int{32, 50}, []int{20, 25, 53}},
		{"loss that turns", "RDMAFabricLossy", map[string]string{
			spokenOf("group", "lossy_forward"): "0x20 1x6 0x40", spokenOf("group", "lossy_both"): "0x26 1x20 0x20",
		}, []int{32, 45}, []int{20, 25, 53}},
		{"loss for eight minutes", "RDMAFabricLossy", map[string]string{spokenOf("group", "lossy_reverse"): "0x20 1x7 0x40"}, nil, []int{25, 29, 31, 35}},
		{"a path, which is no loss", "RDMAFabricLossy", map[string]string{spokenOf("group", "path"): "1x60"}, nil, []int{15, 40}},

		{"writes are slow", "RDMAFabricSlow", map[string]string{p99: "12e-6x300 240e-6x60 12e-6x60"}, []int{315, 350}, []int{300, 305, 365}},
		{"slow from the start", "RDMAFabricSlow", map[string]string{p99: "240e-6x400"}, nil, []int{100, 330, 400}},
		{"four times little", "RDMAFabricSlow", map[string]string{p99: "12e-6x300 90e-6x60"}, nil, []int{315, 350}},
		{"three times as slow", "RDMAFabricSlow", map[string]string{p99: "40e-6x300 120e-6x60"}, nil, []int{315, 350}},
		{"slow for eight minutes", "RDMAFabricSlow", map[string]string{p99: "12e-6x300 240e-6x7 12e-6x60"}, nil, []int{305, 309, 311, 315}},

		{"a tenth has not met", "RDMAFabricUnmet", unmet("20x20 18x30 20x30"), []int{32, 50}, []int{20, 25, 53}},
		{"a twentieth has not met", "RDMAFabricUnmet", unmet("20x20 19x60"), nil, []int{32, 50}},
		{"not met for eight minutes", "RDMAFabricUnmet", unmet("20x20 0x7 20x60"), nil, []int{25, 29, 31, 35}},
		{"no pairs", "RDMAFabricUnmet", map[string]string{"rdma_fabric_pairs" + of: "0x60", "rdma_fabric_pairs_met" + of: "0x60"}, nil, []int{15, 40}},

		{"two lists", "RDMAFabricListsDiffer", listed("s", "2", "0x10 1x45 0x30"), []int{42, 54}, []int{10, 20, 38, 58}},
		{"a list is rolled out", "RDMAFabricListsDiffer", listed("s", "2", "0x10 1x25 0x40"), nil, []int{20, 38, 42, 60}},
		{"two sites", "RDMAFabricListsDiffer", listed("north", "2", "1x90"), nil, []int{35, 80}},
		{"one list", "RDMAFabricListsDiffer", listed("s", "1", "1x90"), nil, []int{35, 80}},
	}
}
