package alerts

import (
	"slices"
	"strings"
)

const (
	ofPort    = "device=mlx5_0,port=1"
	ofDevice  = "device=mlx5_0"
	ofProbe   = "device=mlx5_0,port=1,vector=0,method=ud_send"
	ofCall    = "device=mlx5_0,port=1,call=hw_counters"
	ofApp     = "device=mlx5_0,app=python3"
	ofOwnApp  = "device=mlx5_0,app=rdma-ev-worker"
	ofFabric  = "device=mlx5_0,port=1,own_group=leaf1"
	collector = "rdma_collector"

	management = ",role=management" // of what belongs to a port for management
)

// Cases returns all cases, by the alerts' order in docs/reference/alerts.md.
func Cases() []Case {
	return slices.Concat(portCases(), deviceCases(), commandCases(), probeCases(), applicationCases(), fabricCases(), pluginCases())
}

func newSeries(measurement, tags string, fields map[string]string) []Series {
	return []Series{{measurement, tags, fields}}
}

// growthCases returns the cases of an alert about a counter that grew by n within minutes.
func growthCases(alert, measurement, tags, field string, n string, counts string, tooFew string, minutes int) []Case {
	of := func(values string) []Series { return newSeries(measurement, tags, map[string]string{field: values}) }
	return []Case{
		{alert, field + ", enough at once", of("0x40 " + n + "x180"), []int{42}, []int{40, 43 + minutes}},
		{alert, field + ", enough over some minutes", of("0x39 " + counts + " " + n + "x60"), []int{44}, []int{39}},
		{alert, field + ", one too few", of("0x40 " + tooFew + "x90"), nil, []int{41, 42, 45, 60}},
		{alert, field + ", a restart of the plugin", of(n + "x40 0x40"), nil, []int{41, 42, 50}},
		{alert, field + ", what it begins with", of(n + "x90"), nil, []int{1, 10, 42}},
	}
}

func growthOf1(alert, measurement, tags, field string, minutes int) []Case {
	return growthCases(alert, measurement, tags, field, "1", "0 1", "0", minutes)
}

func growthOf3(alert, measurement, tags, field string, minutes int) []Case {
	return growthCases(alert, measurement, tags, field, "3", "0 1 2", "2", minutes)
}

func portCases() []Case {
	port := func(up, expected string) []Series {
		return newSeries("rdma_port", ofPort, map[string]string{"up": up, "expected_up": expected})
	}
	rate := func(rate, expected, up string) []Series {
		return newSeries("rdma_port", ofPort, map[string]string{"rate_gbps": rate, "rate_expected_gbps": expected, "up": up})
	}
	return slices.Concat([]Case{
		{"port-down", "down and back", port("1x20 0x30 1x20", "1x71"), []int{23, 50}, []int{20, 21, 55}},
		{"port-down", "down for a day", port("1x20 0x1500", "1x1520"), []int{23, 1400, 1480}, []int{20}},
		{"port-down", "down since the host started", port("0x60", "1x60"), []int{2, 40}, nil},
		{"port-down", "not to be used", port("1x20 0x60", "0x80"), nil, []int{23, 40}},
		{"port-down", "told to forget it", port("1x20 0x60", "1x40 0x40"), []int{23, 40}, []int{45, 60}},
		{"port-down", "down for less than a minute", port("1x20 0 1x20", "1x41"), nil, []int{21, 22, 23}},
		{"port-down", "the device is gone", port("1x20 _x60", "1x20 0x60"), nil, []int{25, 40}},
		{"port-down", "a pod borrows the device, whose port goes down first", port("1x20 0 _x60", "1x21 0x60"), nil, []int{21, 22, 23, 40}},
		{
			"port-down", "an older plugin, which says nothing of what is expected",
			newSeries("rdma_port", ofPort, map[string]string{"up": "1x20 0x30"}), nil, []int{23, 40},
		},

		{
			"port-flapping", "once an hour", newSeries("rdma_port", ofPort, map[string]string{"flaps_day": "0x20 1x59 2x59 3x59 4x59 5x59 6x59"}),
			[]int{325}, []int{300, 310},
		},
	},
		growthOf3("port-flapping", "rdma_port", ofPort, "flaps", 30),
		[]Case{
			{"link-slow", "came back slower", rate("100x20 25x60", "100x80", "1x80"), []int{28, 70}, []int{20, 25}},
			{"link-slow", "slower for three minutes", rate("100x20 25x2 100x60", "100x80", "1x80"), nil, []int{22, 26, 30}},
			{"link-slow", "as fast as expected", rate("25x80", "25x80", "1x80"), nil, []int{28, 70}},
			{"link-slow", "nothing is expected", newSeries("rdma_port", ofPort, map[string]string{"rate_gbps": "100x20 25x60", "up": "1x80"}), nil, []int{28, 70}},
			{"link-slow", "slower, and down", rate("100x20 25x60", "100x80", "1x20 0x60"), nil, []int{28, 70}},
		},
		growthOf1("link-degrading", "rdma_port", ofPort, "fec_uncorrectable_active", 120),
		[]Case{
			{"link-degrading", "corrected blocks, and those of a link that comes up", newSeries("rdma_port", ofPort, map[string]string{
				"fec_corrected_blocks": "0+1000x60", "fec_uncorrectable_blocks": "0x20 5x39", "fec_uncorrectable_active": "0x60",
			}), nil, []int{22, 50}},
			{"bond-leg-down", "one of two", newSeries("rdma_port", ofPort, map[string]string{"legs": "2x71", "legs_up": "2x20 1x30 2x20"}),
				[]int{23, 50}, []int{20, 55}},
			{"bond-leg-down", "all of them for a moment", newSeries("rdma_port", ofPort, map[string]string{"legs": "2x71",
				"legs_up": "2x20 0 2x50"}), nil, []int{21, 22, 23}},
			{"bond-leg-down", "no bond", newSeries("rdma_port", ofPort, map[string]string{"up": "1x60"}), nil, []int{10, 40}},
		},
		growthOf1("link-disagrees", "rdma_port", ofPort, "missed_transitions", 30),
		growthOf1("gid-moved", "rdma_port", ofPort, "gid_moves", 30),
		expectedDownCases(),
	)
}

// expectedDownCases returns a case for each other alert about ports: it ignores the ports of expected_down.
func expectedDownCases() (cases []Case) {
	for alert, fields := range map[string]map[string]string{
		"port-flapping":  {"flaps": "0x40 3x60", "flaps_day": "0x40 6x60"},
		"link-slow":      {"rate_gbps": "100x20 25x80", "rate_expected_gbps": "100x100", "up": "1x100"},
		"link-degrading": {"fec_uncorrectable_active": "0x40 1x60"},
		"bond-leg-down":  {"legs": "2x100", "legs_up": "1x100"},
		"link-disagrees": {"missed_transitions": "0x40 1x60"},
		"gid-moved":      {"gid_moves": "0x40 1x60"},
	} {
		cases = append(cases, Case{alert, "a port of expected_down", newSeries("rdma_port", ofPort+",expected=down", fields), nil, []int{42, 50}})
	}
	slices.SortFunc(cases, func(a, b Case) int { return strings.Compare(a.Alert, b.Alert) })
	return cases
}

func deviceCases() []Case {
	device := func(present, reason string) []Series {
		return newSeries("rdma_device", ofDevice, map[string]string{"present": present, "reason": reason})
	}
	pcie := func(speed, width string) []Series {
		return newSeries("rdma_device", ofDevice, map[string]string{
			"pcie_speed_gts": speed, "pcie_speed_best_gts": "32x60", "pcie_width": width, "pcie_width_best": "16x60",
		})
	}
	async := func(field, values string) []Series {
		return newSeries("rdma_async", ofPort, map[string]string{field: values})
	}
	lacks := func(devices string) []Series {
		return newSeries(collector, "", map[string]string{"expected_missing": devices})
	}
	return slices.Concat([]Case{
		{"device-missing", "missing and back", device("1x20 0x30 1x20", "okx20 removedx30 okx20"), []int{23, 50}, []int{20, 21, 55}},
		{"device-missing", "missing since the host started", device("0x1500", "removedx1500"), []int{2, 1480}, nil},
		{"device-missing", "renamed", device("1x20 0x30", "okx20 renamedx30"), nil, []int{23, 40}},
		{"device-missing", "given to vfio", device("1x20 0x30", "okx20 reassignedx30"), nil, []int{23, 40}},
		{"device-missing", "a soft device, deleted", device("1x20 0x30", "okx20 deletedx30"), nil, []int{23, 40}},
		{"device-missing", "released", device("1x20 0x30", "okx20 releasedx30"), nil, []int{23, 40}},
		{"device-missing", "gone, and nothing could open it", device("1x20 0x30", "unwatchablex50"), nil, []int{23, 40}},
		{"device-missing", "borrowed by a pod", device("1x50", "okx20 other_netnsx30"), nil, []int{23, 40}},
		{"device-missing", "another device was renamed", slices.Concat(device("1x20 0x30", "okx20 removedx30"),
			newSeries("rdma_device", "device=mlx5_1", map[string]string{"present": "0x50", "reason": "renamedx50"})), []int{23}, []int{20}},
		{"device-missing", "reset within a minute", device("1x20 0 1x20", "okx20 removed okx20"), nil, []int{21, 22, 23}},
		{"devices-too-few", "one too few, and back", lacks("0x20 1x30 0x20"), []int{23, 50}, []int{20, 21, 55}},
		{"devices-too-few", "two too few since the host started", lacks("2x1500"), []int{2, 1480}, nil},
		{"devices-too-few", "a reset within a minute", lacks("0x20 1 0x20"), nil, []int{21, 22, 23}},
		{"devices-too-few", "no section counts", newSeries(collector, "", map[string]string{"devices": "0x60"}), nil, []int{10, 40}},
	},
		growthOf1("device-fatal", "rdma_device", ofDevice, "fatals", 30),
		[]Case{
			{"node-missing", "the file is deleted and made again", device("1x71", "okx20 node_missingx30 okx20"), []int{23, 50}, []int{20, 55}},
			{"node-missing", "a container that was not given it", device("1x71", "unwatchablex71"), nil, []int{23, 50}},
		},
		[]Case{
			{"pcie-degraded", "half of the lanes", pcie("32x60", "8x60"), []int{8, 50}, []int{2}},
			{"pcie-degraded", "a generation slower", pcie("16x60", "16x60"), []int{8, 50}, []int{2}},
			{"pcie-degraded", "as it should be", pcie("32x60", "16x60"), nil, []int{8, 50}},
			{"pcie-degraded", "slower for three minutes", pcie("32x20 16x2 32x30", "16x60"), nil, []int{22, 25, 30}},
			{"pcie-degraded", "a virtual function", device("1x60", "okx60"), nil, []int{8, 50}},
		},
		growthOf1("function-removed", "rdma_device", ofDevice, "function_removals", 30),
		growthOf3("device-flapping", "rdma_device", ofDevice, "unplanned_removals", 30),
		[]Case{
			{"unacked-events", "held by a worker that died", async("released", "0x20 1x60"), []int{25}, []int{20, 22, 57}},
			{"unacked-events", "unacknowledged for long", async("unacked", "0x20 1x20 0x20"), []int{28}, []int{23, 45}},
			{"unacked-events", "unacknowledged for a minute", async("unacked", "0x20 1 0x20"), nil, []int{21, 22, 28, 30}},
			{"unacked-events", "all acknowledged", newSeries("rdma_async", ofPort, map[string]string{"unacked": "0x60", "released": "4x60"}), nil, []int{10, 30}},
		},
	)
}

func commandCases() []Case {
	// Another call of the same port is well.
	calls := func(stuck, took string) []Series {
		return []Series{
			{"rdma_command", ofCall, map[string]string{"stuck": stuck, "took_ns_p99": took}},
			{"rdma_command", "device=mlx5_0,port=1,call=query_port", map[string]string{"stuck": "0x90", "took_ns_p99": "45000x90"}},
		}
	}
	return []Case{
		{"command-stuck", "stuck", calls("0x20 1x30 0x20", "45000x71"), []int{22, 50}, []int{20, 55}},
		{"command-stuck", "of a port for management", newSeries("rdma_command", ofCall+management, map[string]string{"stuck": "0x20 1x30 0x20"}),
			[]int{22, 50}, []int{20, 55}},
		{"command-stuck", "stuck before any call has ended", calls("1x60", "_x60"), []int{2, 40}, nil},
		{"command-stuck", "stuck until the device is gone", calls("0x20 1x10 _x30", "45000x30 _x30"), []int{25}, []int{20, 40}},
		{"command-stuck", "answered late", calls("0x90", "45000x20 2e9x60"), nil, []int{23, 40, 60}},
		{"command-slow", "slow", calls("0x90", "45000x20 2e9x30 45000x30"), []int{32, 50}, []int{20, 25, 30, 56}},
		{"command-slow", "slow for eight minutes", calls("0x90", "45000x20 2e9x7 45000x30"), nil, []int{25, 29, 31, 35}},
		{"command-slow", "a second and no more", calls("0x90", "45000x20 1e9x60"), nil, []int{32, 50}},
		{"command-slow", "slow, and stuck", calls("0x20 1x60", "45000x20 60e9x60"), nil, []int{32, 50}},
		{"command-slow", "slow, and then stuck", calls("0x40 1x40", "45000x20 60e9x60"), []int{35}, []int{46, 60}},
	}
}

func probeCases() []Case {
	return slices.Concat(
		growthOf3("probe-errors", "rdma_cq_probe", ofProbe, "errors", 15),
		growthOf3("lost-events", "rdma_cq_probe", ofProbe, "lost_events", 15),
		growthOf3("lost-completions", "rdma_cq_probe", ofProbe, "lost_completions", 15),
		growthOf3("lost-completions", "rdma_cq_probe", ofProbe+management, "lost_completions", 15),
	)
}

func applicationCases() []Case {
	unread := func(tags, values string) []Series {
		return newSeries("rdma_app_async", tags, map[string]string{"unread_errors": values})
	}
	hang := func(tags, values string) []Series {
		return newSeries("rdma_app_hang", tags+",object=qp", map[string]string{"threads": values})
	}
	tracer := func(attached, reason string) []Series {
		return newSeries("rdma_tracer", "", map[string]string{"attached": attached, "reason": reason})
	}
	return []Case{
		{"app-errors-unread", "unread for two minutes", unread(ofApp, "0x20 2x20 0x20"), []int{24, 40}, []int{20, 22, 45}},
		{"app-errors-unread", "read within two minutes", unread(ofApp, "0x20 2 0x40"), nil, []int{21, 22, 23, 24}},
		{"app-errors-unread", "the process ends", unread(ofApp, "0x20 2x20 _x30"), []int{24, 40}, []int{50}},
		{"app-errors-unread", "the plugin's own worker", unread(ofOwnApp, "0x20 2x40"), nil, []int{24, 40}},

		{"app-destroy-hangs", "hangs", hang(ofApp, "_x20 1x20 0x20"), []int{22, 40}, []int{19, 45}},
		{"app-destroy-hangs", "the plugin ends while it hangs", hang(ofApp, "_x20 1x20 _x30"), []int{22, 40}, []int{19, 50}},
		{"app-destroy-hangs", "it is over", hang(ofApp, "0x60"), nil, []int{10, 30}},
		{"app-destroy-hangs", "the plugin's own worker", hang(ofOwnApp, "0x20 1x40"), nil, []int{24, 40}},

		{"tracer-blind", "not attached for a day", tracer("1x20 0x1500", "okx20 crashedx1500"), []int{33, 60, 1480}, []int{20, 25, 30}},
		{"tracer-blind", "attached again", tracer("1x20 0x30 1x20", "okx20 crashedx30 okx20"), []int{33}, []int{56}},
		{"tracer-blind", "for eight minutes", tracer("1x20 0x7 1x20", "okx20 crashedx7 okx20"), nil, []int{25, 29, 31, 35}},
		{"tracer-blind", "never attached", tracer("0x90", "no_permissionx90"), []int{15, 60}, []int{5}},
		{"tracer-blind", "a kernel that cannot be traced", tracer("0x90", "unsupportedx90"), nil, []int{15, 60}},
		{"tracer-blind", "a host without a device", tracer("0x90", "no_devicex90"), nil, []int{15, 60}},
		{"tracer-blind", "taken out of the configuration", tracer("1x20 _x60", "okx20 _x60"), nil, []int{25, 40}},
	}
}

func fabricCases() []Case {
	return []Case{
		{"fabric-own-link", "bad and well again", newSeries("rdma_fabric_port", ofFabric, map[string]string{"bad": "0x20 1x30 0x20"}), []int{23, 50}, []int{20, 55}},
		{"fabric-own-link", "of a port for management", newSeries("rdma_fabric_port", ofFabric+management, map[string]string{"bad": "0x20 1x30 0x20"}),
			[]int{23, 50}, []int{20, 55}},
		{"fabric-own-link", "well", newSeries("rdma_fabric_port", ofFabric, map[string]string{"bad": "0x60"}), nil, []int{10, 40}},
	}
}

func pluginCases() []Case {
	device := func(state, reason string) []Series {
		return newSeries("rdma_device", ofDevice, map[string]string{"worker_state": state, "reason": reason})
	}
	return slices.Concat([]Case{
		{"worker-down", "refused", device("runningx20 backing_offx30 runningx20", "okx20 no_permissionx30 okx20"), []int{24, 50}, []int{20, 22, 56}},
		{"worker-down", "the reason changes", device("backing_offx60", "crashedx21 no_libraryx38"), []int{21, 22, 23, 24}, nil},
		{"worker-down", "stuck", device("runningx20 stuckx30", "okx20 stuckx30"), []int{24}, []int{20}},
		{"worker-down", "crashed and running again", device("runningx20 backing_off runningx40", "okx20 crashed okx40"), nil, []int{21, 22, 23}},
		{"worker-down", "its node is missing", device("backing_offx60", "node_missingx60"), nil, []int{10, 30}},
		{"worker-down", "stopped, as the device is missing", device("stoppedx60", "removedx60"), nil, []int{10, 30}},
	},
		growthOf3("worker-restarts", "rdma_device", ofDevice, "crashes", 30),
		growthOf3("plugin-late", collector, "", "skipped_intervals", 30),
		growthOf1("recorder-failing", collector, "", "record_errors", 30),
		growthOf1("recorder-failing", collector, "", "record_lost", 30),
		[]Case{
			{"recorder-failing", "lost after the errors were over", newSeries(collector, "", map[string]string{"record_errors": "0x20 1x90",
				"record_lost": "0x45 9x90"}),
				[]int{30, 50, 55, 70}, []int{20, 80}},
			{"recorder-failing", "nothing is recorded", newSeries(collector, "", map[string]string{"uptime_ns": "0+60000000000x90"}), nil, []int{10, 40, 60}},
		},
	)
}
