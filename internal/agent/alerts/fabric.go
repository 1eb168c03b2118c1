package alerts

import "time"

func fabricAlerts() []Alert {
	return []Alert{
		{
			ID: "fabric-own-link", Title: "RDMA link of a host loses packets", Severity: Critical, Panel: Panel{FabricDashboard, 11},
			Measurement: "rdma_fabric_port", When: equals("bad", 1), Age: "verdict_age_ns",
			Hold:    time.Minute,
			Text:    "the port does not reach its peers: {forward_lost} probes lost on the forward path and {reverse_lost} on the reverse path, in all",
			Summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} does not reach its peers, and they are well",
			Fires: "For a minute, three quarters or more of the port's pairs, with two hosts or more, have reported lost packets while the port was " +
				"active. They share the port's own link: the port, the cable or the switch port.",
			Quiet: "Ports that are not active, which port-down reports. Single peers, which fabric-suspect counts. With Prometheus: two hosts or " +
				"more of a group that is cut off, since fabric-group reports their leaf.",
			Clears: "When fewer than three quarters of its pairs report loss.",
			FirstSteps: []string{
				"The cable, the transceiver and the switch port: error counters at both ends, `ethtool -S` or `mlxlink`, and the switch's own log.",
				"Do several hosts of one group report this? Then the cause is their leaf: fabric-group fires too, and with Prometheus instead.",
				"Drain the host: applications on it see the same loss.",
			},
			Blind: "Loss of large packets only: probes have 66 to 110 bytes. Hosts without fabric.peers_file.",
		},
		{
			ID: "fabric-suspect", Title: "RDMA interface suspected by its neighbours", Severity: Critical, Panel: Panel{FabricDashboard, 10},
			Elsewhere: "other hosts",
			Hold:      time.Minute,
			Summary:   "{{ .Labels.peer_device }} of {{ .Labels.peer_host }} is suspected by its neighbours in {{ .Labels.peer_group }}{of_site}",
			Fires: "For a minute, two hosts or more of its own group have reported lost packets between them and this interface. They share a leaf " +
				"with it and nothing else but the interface. In groups of fewer than four hosts it takes three hosts of any group, and in a " +
				"site of three hosts both others.",
			Quiet: "Hosts that are down or busy: their peers report peer_down or peer_busy. A host that blames its own link is neither an observer nor a " +
				"suspect: fabric-own-link names it. Verdicts of hosts in other groups, whose paths share spines.",
			Clears: "When fewer hosts report it.",
			FirstSteps: []string{
				"The dashboard RDMA fabric has the observers and the direction: lossy_forward is what the interface receives, lossy_reverse what " +
					"it sends.",
				"Its cable, transceiver and switch port, with the error counters of both ends.",
				"Drain the host, and exchange the cable first.",
			},
			Blind: "Interfaces with fewer observers, and loss below 2 % in a minute. With InfluxDB: a suspect in a group in which another host " +
				"blames its own link and has no observers. Hosts without fabric.peers_file.",
		},
		{
			ID: "fabric-group", Title: "RDMA group is cut off from others", Severity: Critical, Panel: Panel{FabricDashboard, 12},
			Elsewhere: "other hosts",
			Hold:      time.Minute,
			Summary:   "More than a quarter of the pairs of {{ .Labels.own_group }} with other groups are bad{of_site}",
			Fires: "For a minute, more than a quarter of the pairs between a group and other groups have reported lost packets, with two hosts or " +
				"more at each end. The cause is the leaf, its uplinks, or a spine on the paths of this group.",
			Quiet: "Pairs whose peer is down, busy or not connected: they count neither way. Single uplinks with little loss. The pairs of one host " +
				"at either end, which point to its own link.",
			Clears: "When no more than a quarter of the pairs are bad, or only the pairs of one host.",
			FirstSteps: []string{
				"Are all pairs bad, also those within the group? Then the leaf has failed or has no power. If only pairs with other groups are bad, the " +
					"cause is the leaf's uplinks.",
				"partial means that some paths work: one of several uplinks fails. The uplinks' counters on the leaf show which one.",
				"Many groups at once point to a spine or to a change that was rolled out.",
			},
			Blind: "Groups of one host. Hosts without fabric.peers_file.",
		},
		{
			ID: "fabric-pair", Title: "RDMA hosts do not reach each other", Severity: Warning, Panel: Panel{FabricDashboard, 19},
			When: AcrossSeries("no pair of a port is well, and it has too few to blame its own link"),
			Hold: 5 * time.Minute,
			Text: "the network swallows packets between the port and all of its peers",
			Summary: "The network swallows packets between {{ .Labels.device }} of {{ .Labels.host }} and {{ .Labels.peer_device }} of {{ " +
				".Labels.peer_host }}{of_site}",
			Fires: "For five minutes a pair has had the verdict path or partial: all packets between two interfaces are lost, or all on one " +
				"of their paths. No other alert covers it: neither end is suspected or blames its own link, and neither group is cut off. In a " +
				"site of two hosts it is the only alert about a link, since no third host can say which end it is.",
			Quiet:  "Pairs of an interface that fabric-suspect or fabric-own-link names, and pairs of groups that fabric-group names.",
			Clears: "When both hosts report ok for the pair, or another alert covers it.",
			FirstSteps: []string{
				"Two hosts: both ends are possible. Compare the error counters of both ports and of both switch ports, and exchange the cable of " +
					"the worse one.",
				"partial means that one of several paths is lost: an uplink or a spine. The field path of rdma_fabric_peer and `rdma-events fabric` on the " +
					"host show which one.",
				"If several pairs have one host in common, the cause is probably that host's link, which has too few observers to be a suspect.",
			},
			Blind: "Which end it is. Loss of a part of the packets, which fabric-lossy reports. Where the tag host is not the name in the list of " +
				"peers, a pair has an alert for each of its ends. Hosts without fabric.peers_file.",
		},
		{
			ID: "fabric-lossy", Title: "RDMA fabric loses packets", Severity: Warning, Panel: Panel{FabricDashboard, 20},
			Elsewhere: "other hosts",
			Hold:      10 * time.Minute,
			Summary:   "Pairs of {{ .Labels.own_group }} lose packets{of_site}",
			Fires: "For ten minutes one pair or more of the group's hosts has lost at least 2 % of its probes within a minute, in one direction or " +
				"both.",
			Quiet:  "Loss below 2 %, for example while a path is congested for a moment. Probes that found the peer's receive queue empty.",
			Clears: "When all pairs have lost less than 0.5 % for a minute.",
			FirstSteps: []string{
				"Is there a suspect? fabric-suspect or fabric-group names it. Without a suspect the loss is spread over several paths: look at the table of " +
					"groups.",
				"Loss by direction shows whether the forward or the reverse path loses packets. Compare with discards and pause frames of the switches.",
			},
			Blind: "Loss in another traffic class than the probes'; loss of large packets alone. Hosts without fabric.peers_file.",
		},
		{
			ID: "fabric-slow", Title: "RDMA fabric far slower than its past", Severity: Warning, Panel: Panel{FabricDashboard, 21},
			Elsewhere: "other hosts, and their day",
			Hold:      10 * time.Minute,
			Slow:      true,
			Summary:   "RDMA writes of {{ .Labels.own_group }} ({{ .Labels.scope }}) are far slower than they were{of_site}",
			Fires: "For ten minutes the 99th percentile of the writes of a group's hosts (their median; within the group or with others) has been " +
				"above four times its median of the last day, and above 100 us. With InfluxDB the day is three looks of ten minutes, 6, 12 and 18 " +
				"hours ago.",
			Quiet: "Latencies below 100 us; groups that have been measured for less than that; a busy peer's CPU, which a write does not need.",
			Clears: "When writes are fast again; also after at most a day, when slow writes have become part of the past they are compared with: look at the " +
				"graph then.",
			FirstSteps: []string{
				"Within the group or with other groups? If only with other groups, the uplinks are congested. Compare with the traffic of the switches.",
				"writes_late counts writes that the NIC had to send again: if it grows, the cause is loss and not congestion.",
			},
			Blind: "Single hosts of a group. Latency of the peer's process: see responder_ns_p99. Hosts without fabric.peers_file.",
		},
		{
			ID: "fabric-unmet", Title: "RDMA hosts do not meet", Severity: Warning, Panel: Panel{FabricDashboard, 24},
			Elsewhere: "other hosts",
			Hold:      10 * time.Minute,
			Summary:   "A tenth or more of the pairs of {{ .Labels.own_group }} have not met{of_site}",
			Fires: "For ten minutes a tenth or more of the pairs of a group's hosts have not met: their peers answer no hello, or refuse it. The " +
				"network between them is not judged.",
			Quiet: "Fewer pairs, for example while a host is repaired. Devices that a peer lacks (unsupported), as when hosts with one NIC and hosts with " +
				"eight are in one list: they form no pairs. Pairs with the reason key, which fabric-key reports.",
			Clears: "When more than nine tenths have met.",
			FirstSteps: []string{
				"The panel Not met, by reason: no_responder means a peer without the plugin or a blocked TCP port, not_listed that the lists differ, " +
					"no_common_gid and pkey that the addresses do not fit.",
				"`rdma-events doctor` on such a host connects to two of its peers.",
			},
			Blind: "Hosts that are in no list. Whether fabric.devices names the devices that peers have. Hosts without fabric.peers_file.",
		},
		{
			ID: "fabric-key", Title: "RDMA hosts refuse each other's key", Severity: Warning, Panel: Panel{FabricDashboard, 24},
			Elsewhere: "other hosts",
			Hold:      10 * time.Minute,
			Summary:   "Hosts have different keys, or a certificate that others do not accept{of_site}",
			Fires: "For ten minutes one pair or more has had the reason key: a host was started with another key, its certificate has expired or has " +
				"another authority or name, or another host has its address. The network between them is not judged any more.",
			Quiet:  "Keys and certificates that are being exchanged on all hosts within ten minutes.",
			Clears: "When all hosts accept each other.",
			FirstSteps: []string{
				"`rdma-events fabric` on a host shows the peers with the reason key; one that is refused by many has the wrong key.",
				"Give it the fabric.key_file that all hosts have and restart its plugin, or renew its certificate, which is read again without a " +
					"restart.",
				"Is the host's clock right? Is its address in the list correct?",
			},
			Blind: "Hosts that are in no list. Hosts without fabric.peers_file.",
		},
		{
			ID: "fabric-lists-differ", Title: "RDMA hosts have different lists", Severity: Warning, Panel: Panel{FabricDashboard, 25},
			Elsewhere: "other hosts",
			Hold:      30 * time.Minute,
			Summary:   "Hosts have different lists of peers{of_site}",
			Fires: "For half an hour the hosts of a site have had two or more different lists of peers. A host that is missing in a list is refused, and " +
				"some interfaces have fewer observers.",
			Quiet:  "A list that is being rolled out. Addresses, which are not part of the digest.",
			Clears: "When all hosts have the same list.",
			FirstSteps: []string{
				"The panel Lists has the digests, the rarest first. Compare the files of a host with each: same hosts, same groups?",
				"Roll out the file to the rest. Two fabrics of one site on purpose: give them different values of the widest label.",
			},
			Blind: "Hosts that do not report. Hosts without fabric.peers_file.",
		},
	}
}
