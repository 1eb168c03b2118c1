package alerts

import "time"

func portAlerts() []Alert {
	return []Alert{
		{
			ID: "port-down", Title: "RDMA port down", Severity: Critical, Panel: Panel{OverviewDashboard, 10},
			Measurement: "rdma_port", When: All{equals("up", 0), equals("expected_up", 1)}, Age: "state_age_ns",
			Hold:    time.Minute,
			Text:    "the port is {state_name}",
			Summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} is down",
			Fires: "For a minute the port has not been active although it should be. Either the configuration says so, or this host remembers that the port " +
				"was once active for a minute or more, or the port has had a physical link and has been in init or armed for two minutes. A restart " +
				"of Telegraf or of the host does not end the alert. `rdma-events status` shows which reason applies.",
			Quiet: "Ports listed in expected_down. Ports that were never active and have no link, such as unused ones. Representors of virtual and " +
				"scalable functions (switchdev). Drops shorter than a minute. Ports of missing devices, which device-missing reports.",
			Clears: "When the port is active again. If the port is not used any more, run `rdma-events forget mlx5_1:2` or list it in expected_down.",
			FirstSteps: []string{
				"Look at the Device dashboard: one port, or all of the device? One device, or all behind a switch (Overview)?",
				"If the cause is certain, it is in rdma_evidence, on the Device dashboard, and in `rdma-events events` on the host.",
				"On the host: `rdma link`, `ip link`, `ethtool -m` for the transceiver. The field phys_state_name shows whether a link is polling " +
					"or disabled.",
				"InfiniBand in state init or armed has a link and waits for a subnet manager.",
				"If it is down by design, add it to expected_down.",
			},
			Blind: "A port whose device is not open. A bond may hide the loss of one leg from its own port: legs_up of rdma_port has it.",
		},
		{
			ID: "ports-down-together", Title: "RDMA ports down together", Severity: Critical, Panel: Panel{OverviewDashboard, 10},
			Elsewhere: "other hosts",
			Hold:      30 * time.Second,
			Summary:   "Eight or more RDMA ports are down together{at_place}",
			Fires: "Eight or more ports of {one_place} that should be active are down, and they are more than a tenth of its ports that should be " +
				"active. Ports that share one cable, as with Socket Direct and multi-host NICs, count once (field cable).",
			Quiet: "Fewer than eight ports, or at most a tenth of the place's ports. Ports that need not be active, such as unused ones and those listed in " +
				"expected_down. Hosts without these labels count as one place.",
			Clears: "When fewer than eight ports of the place are down. With Alertmanager, this alert suppresses port-down of the same place.",
			FirstSteps: []string{
				"Look at what these ports share: the switch, its power and line card, on InfiniBand the subnet manager; the switch's own log.",
				"Ports of many switches at once: power or cooling of the room, or a change that was rolled out.",
			},
			Blind: "Ports of devices that are not open, and of hosts that have lost power: see plugin-silent. With Alertmanager, one more port " +
				"that goes down in such a place has no notification of its own.",
		},
		{
			ID: "sm-unstable", Title: "RDMA subnet manager unstable", Severity: Warning, Panel: Panel{OverviewDashboard, 19},
			Elsewhere: "other hosts",
			Summary:   "The subnet manager{of_the_site} changes again and again",
			Fires:     "Half of a site's InfiniBand ports or more had an event sm_change three times or more within half an hour.",
			Quiet:     "One handover from a subnet manager to its standby. Single ports, where the cable or the switch port is the cause.",
			Clears:    "By itself, half an hour after the last change.",
			FirstSteps: []string{
				"The logs of the subnet managers (opensm, or that of the switch): which one is master, and why did it change? Two with the same " +
					"priority?",
				"`sminfo` on a host names the present master.",
			},
			Blind: "RoCE and iWARP, which have no subnet manager.",
		},
		{
			ID: "port-flapping", Title: "RDMA port flapping", Severity: Warning, Panel: Panel{OverviewDashboard, 12},
			Measurement: "rdma_port", Except: expectedDownTag(), When: Any{grew("flaps", 3, 30*time.Minute), greaterThan("flaps_day", 5)},
			Text:    "{flaps} flaps in all",
			Summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} flaps",
			Fires:   "Three flaps (active, not active, active again) or more within half an hour, or six or more within a day.",
			Quiet:   "One or two flaps, as when a cable is moved. A device that goes and comes back has not flapped. Ports listed in expected_down.",
			Clears:  "By itself: half an hour after three flaps, and when fewer than six are within the last day.",
			FirstSteps: []string{
				"Look at flap durations on the Device dashboard: tens of milliseconds mean that the link trained again, seconds point to a switch port " +
					"or a driver.",
				"Clean or replace cable and transceiver; compare with the switch's own counters.",
			},
			Blind: "Flaps closer together than 5 ms may count as one; link-disagrees reports them. Flaps before the plugin started.",
		},
		{
			ID: "link-slow", Title: "RDMA link slower than it should be", Severity: Warning, Panel: Panel{DeviceDashboard, 14},
			Measurement: "rdma_port", Except: expectedDownTag(), When: All{lessThanField("rate_gbps", "rate_expected_gbps"), equals("up", 1)},
			Hold:    5 * time.Minute,
			Text:    "{rate_gbps}, and {rate_expected_gbps} is expected",
			Summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} is slower than it should be",
			Fires: "For five minutes the port has been active with a lower rate than rate_expected_gbps: the minimum that the configuration " +
				"states, the best rate that this host remembers of the port, or the rate of most other active ports of the same board type on the " +
				"host.",
			Quiet: "Ports that are down. Ports that have always been slow, such as those of a storage adapter of another type. Ports listed in expected_down.",
			Clears: "When the rate is back. If the link is meant to stay slow, run `rdma-events forget mlx5_1:2`; if most other ports of its type are faster, " +
				"also set its rate_gbps in a section expected.",
			FirstSteps: []string{
				"Compare the width with its former value (rdma_attr_change has both): fewer lanes point to a cable or a transceiver, the same width to a " +
					"lower negotiated speed.",
				"Check `ethtool -m`, the switch's port counters and the settings of the switch port. Reseat or replace the cable.",
			},
			Blind: "A link that was never faster, on a host without another port of its board type, unless the configuration sets its rate. The load of the " +
				"link: this alert is about its capacity.",
		},
		{
			ID: "link-degrading", Title: "RDMA link degrades", Severity: Warning, Panel: Panel{DeviceDashboard, 12},
			Measurement: "rdma_port", Except: expectedDownTag(), When: grew("fec_uncorrectable_active", 1, 2*time.Hour),
			Text:    "blocks were lost on the active link that error correction could not restore, {fec_uncorrectable_active} in all",
			Summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} loses blocks that error correction cannot restore",
			Fires: "Within two hours the forward error correction of the link found blocks with too many errors while the port was active. Such a " +
				"link often drops within days.",
			Quiet: "Corrected blocks, however many. Blocks that were lost while the link came up or was down. Drivers without these " +
				"counters. Ports listed in expected_down.",
			Clears: "Two hours after a counter reading last found lost blocks. Counters are read hourly, and after a drop.",
			FirstSteps: []string{
				"`ethtool -m` shows the transceiver's power and temperature; compare with its neighbours.",
				"`ethtool -I --show-fec` has the driver's own counters; how fast do they grow?",
				"Clean and reseat the cable or transceiver when no job runs on the host, and exchange it if they grow again.",
			},
			Blind: "InfiniBand, whose drivers do not show these counters without privilege: symbol_errors of rdma_port is the nearest.",
		},
		{
			ID: "bond-leg-down", Title: "RDMA bond without one of its legs", Severity: Warning, Panel: Panel{DeviceDashboard, 11},
			Measurement: "rdma_port", Except: expectedDownTag(), When: lessThanField("legs_up", "legs"),
			Hold:    time.Minute,
			Text:    "{legs_up} of {legs} legs of the bond can carry traffic",
			Summary: "The bond below port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} has lost a leg",
			Fires: "For a minute fewer legs of the bond or team below the port than it has can carry traffic. The port stays active with the " +
				"remaining ones, at a lower rate.",
			Quiet:  "Bonds whose standby leg waits and could carry traffic. Ports without a bond. Ports listed in expected_down.",
			Clears: "When all legs can carry traffic, or the leg is taken out of the bond.",
			FirstSteps: []string{
				"`cat /proc/net/bonding/bond0`, with the bond's own name, says which leg and why.",
				"The cable, the transceiver and the switch port of that leg; with 802.3ad also the switch's port channel.",
			},
			Blind: "A leg that is up and loses packets.",
		},
		{
			ID: "link-disagrees", Title: "RDMA link counter and events disagree", Severity: Warning, Panel: Panel{DeviceDashboard, 12},
			Measurement: "rdma_port", Except: expectedDownTag(), When: grew("missed_transitions", 1, 30*time.Minute),
			Text:    "the driver counted drops that no event reported, {missed_transitions} in all",
			Summary: "The driver of {{ .Labels.device }} on {{ .Labels.host }} counted drops of port {{ .Labels.port }} that no event reported",
			Fires:   "The driver's link_downed ran ahead of the drops that events and queries reported, by one or more within half an hour.",
			Quiet:   "Drops that events reported, however many. Drivers without a link_downed counter. Ports listed in expected_down.",
			Clears:  "Half an hour after the last one.",
			FirstSteps: []string{
				"Drops closer together than 5 ms can do it: look at flaps.",
				"With few flaps, events are lost: look at unacked and at the worker's state, then at driver and firmware versions.",
			},
			Blind: "Drops that neither the driver nor an event reported.",
		},
		{
			ID: "gid-moved", Title: "RDMA GID moved", Severity: Warning, Panel: Panel{DeviceDashboard, 11},
			Measurement: "rdma_port", Except: expectedDownTag(), When: grew("gid_moves", 1, 30*time.Minute),
			Text:    "GIDs moved to another index, {gid_moves} in all",
			Summary: "A GID of port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} is at another index now",
			Fires: "An address came back at another index of the GID table, or changed its index, within half an hour. Jobs that name a GID by its " +
				"index, as NCCL does with NCCL_IB_GID_INDEX, fail or use another address.",
			Quiet: "Addresses that are added or removed for good, and those that come back at their index; link-local GIDs, which move with the MAC " +
				"address; addresses in other network namespaces, such as those of pods on macvlan devices. Ports listed in expected_down.",
			Clears: "By itself, half an hour after the last move.",
			FirstSteps: []string{
				"The annotation on the Device dashboard, and rdma_gid_change, have the GID and both indexes. own_probe = 1: a probe of this plugin " +
					"held the old place; leave probe.gid_index at -1.",
				"Else another program's queue pair or address handle held it while a network manager deleted the address and added it again: `rdma " +
					"resource show qp` lists programs.",
				"Restart jobs that name the old index, or let them choose the GID by address.",
			},
			Blind: "A GID that moved and moved back between two readings of the table. InfiniBand, whose GIDs have fixed places.",
		},
	}
}

// expectedDownTag excludes the ports of expected_down.
func expectedDownTag() Tag { return Tag{"expected", "down"} }
