package drivers

import "rdma_events/internal/device/verbs"

// queuePairCosts returns the costs of most drivers: one command each to create, modify, query and destroy a queue pair,
// and to read a counter. The costs in more are added or replace them.
func queuePairCosts(more Costs) Costs {
	c := Costs{CreateQP: 1, ModifyQP: 1, DestroyQP: 1, HWCounter: 1, QueryQP: 1}
	for call, n := range more {
		c[call] = n
	}
	return c
}

// profileTests names the test that watches a device of each profile of the stand-in, and compares
// the user-visible results with the profile.
var profileTests = []string{"TestEachDriverIsSeenAsItsTableSays"}

// All returns the table, hardware first.
func All() []Driver {
	return append(hardware(), soft()...)
}

func hardware() []Driver {
	return append(mellanox(), []Driver{
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "hw/irdma/verbs.c",
			Name: "irdma, RoCE", Kernel: []string{"ice", "i40e", "idpf"}, Transport: "infiniband", Devices: "Intel E810, E830", Disassociates: Release{6, 1},
			Events: "port, QP, CQ, SRQ", Probe: "`ud_send`, `rc_write`, `flush`", LinkDowned: "none",
			First: verbs.MethodUDSend, Costs: queuePairCosts(Costs{CreateAH: 1, DestroyAH: 1, QueryQP: 0}),
			Notes: "A device that stops answering is reset without an event, after 5 s. Its hw_counters report success and old " +
				"values while the device hangs. The device makes one address handle of equal ones.",
			// Files: irdma/verbs.c, irdma_get_hw_stats: one gathering command (none on X722, which has registers), always kept.
			// ice, i40e and idpf have no get_link_ext_state, and their statistics are registers or were received before.
			Files: Files{HWCounters: 46, HWCounterQueries: 1},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "hw/irdma/verbs.c",
			Name: "irdma, iWARP", Kernel: []string{"ice", "i40e", "idpf"}, Transport: "iwarp", Devices: "Intel E810, X722", Disassociates: Release{6, 1},
			Events: "port, QP, CQ, SRQ", Probe: "`flush`", LinkDowned: "none", First: verbs.MethodFlush,
			Never: []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite}, Costs: queuePairCosts(Costs{QueryQP: 0}),
			Notes: "A queue pair connects by the connection manager alone, and there are no datagrams ([iWARP](#iwarp)).",
			// As in the row above.
			Files: Files{HWCounters: 46, HWCounterQueries: 1},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "hw/bnxt_re/ib_verbs.c",
			Name: "bnxt_re", Kernel: []string{"bnxt_en", "bnxt_re"}, Devices: "Broadcom NetXtreme-E", Disassociates: Release{6, 12},
			Events: "port, QP, SRQ; CQ not with 6.1, device not with 6.12", Probe: "`ud_send`, `rc_write`",
			LinkDowned: "none; with 7.3 always 0", First: verbs.MethodUDSend,
			Costs: queuePairCosts(Costs{LinkDowned: 1, CreateAH: 1, DestroyAH: 1, HWCounter: 2}),
			Notes: "Its library flushes by itself and perhaps without an event, so `flush` is taken only where its first round has one. " +
				"Up to rdma-core 45 the arm of a completion queue is done by the next poll. Completion vectors are chosen by the driver, " +
				"whatever `vectors` says. A refused create_qp may leave no errno.",
			// Files: bnxt_re/hw_counters.c, bnxt_re_ib_get_hw_stats: always kept, failures too. counters is there with 7.3 alone,
			// one command a file (bnxt_re_process_mad). bnxt_ethtool.c answers link and statistics from memory.
			Files: Files{Counters: 21, HWCounters: 92, HWCounterQueries: 1},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNone, StateFile: "hw/efa/efa_verbs.c",
			Name: "efa", Kernel: []string{"efa"}, Devices: "Amazon EFA",
			Events: "none", Probe: "`ud_send`", LinkDowned: "none",
			First: verbs.MethodUDSend, Never: []verbs.Method{verbs.MethodRCWrite, verbs.MethodFlush},
			Costs: queuePairCosts(Costs{HWCounter: 5}), // an address handle is a command too, but the probe of this driver keeps its handle
			Notes: "`events_supported` is 0: port states come from queries, which always say active, also when the link is down or the device is dead. " +
				"Older devices have no completion events, and so no probe.",
			// Files: efa/efa_verbs.c, efa_fill_port_stats: always kept. A port has no network device.
			Files: Files{HWCounters: 17, HWCounterQueries: 1},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "hw/hns/hns_roce_main.c",
			Name: "hns", Kernel: []string{"hns3", "hns_roce_hw_v2", "hns"}, Devices: "HiSilicon HIP08, HIP09", Disassociates: Release{6, 1},
			Events: "QP, CQ, SRQ; port with 7.3, not with 6.12", Probe: "`ud_send`, `rc_write`, `flush`; HIP08 not the first",
			LinkDowned: "none",
			First:      verbs.MethodUDSend, Costs: Costs{
				HWCounter: 1, ModifyQP: 1, DestroyQP: 1, QueryQP: 2, LinkState: 2, Statistics: 1, QueueStatistics: 2,
			},
			Notes: "HIP08 has no datagrams. While the device is reset, its commands are answered EBUSY, or as if they had succeeded.",
			// Files: hns/hns_roce_hw_v2.c, hns_roce_hw_v2_query_counter: an answer is kept only if the firmware has all 22. 6.1 has
			// none. LinkState: hns3_ethtool.c: hns3_get_link asks even with a link, hns3_get_link_ext_state without one, from HIP09.
			// Statistics: hclge_update_stats: those of the MAC, and two commands a queue.
			Files: Files{HWCounters: 22, HWCounterQueries: 22},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "hw/erdma/erdma_verbs.c",
			Name: "erdma", Kernel: []string{"erdma"}, Devices: "Alibaba ERDMA", Disassociates: Release{6, 12},
			Events: "port, QP, CQ", Probe: "`flush`; `rc_write` in its RoCE mode", LinkDowned: "none",
			First: verbs.MethodFlush, Never: []verbs.Method{verbs.MethodUDSend},
			Costs: queuePairCosts(Costs{Statistics: 1}), Notes: "In iWARP mode as irdma's. A refused command is EIO.",
			// Files: erdma/erdma_verbs.c, erdma_get_hw_stats: always kept; 6.1 has none. The network device is one of virtio_net:
			// get_link is the carrier, and virtnet_get_hw_stats is one command if it has device statistics.
			Files: Files{HWCounters: 11, HWCounterQueries: 1},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "hw/mana/main.c",
			Name: "mana", Kernel: []string{"mana"}, Devices: "Microsoft Azure MANA", Disassociates: Release{6, 12},
			Events: "QP; port with 7.3, not with 6.12", Probe: "`rc_write`", LinkDowned: "none", First: verbs.MethodRCWrite, Never: []verbs.Method{verbs.MethodUDSend},
			Costs: queuePairCosts(Costs{QueryQP: 0, Statistics: 1}),
			Notes: "No datagrams. Reading `qp_fatal` makes the library modify that queue pair, a command of up to 30 s within the reader. " +
				"Devices called manae have neither RC queue pairs nor completion events. rdma-core 44 has no RC for it.",
			// Files: mana/counters.c, mana_ib_get_hw_port_stats: always kept; not with 6.12. Statistics: mana_ethtool.c, which calls
			// mana_query_gf_stats on a port that is up.
			Files: Files{HWCounters: 34, HWCounterQueries: 1},
		},
		{
			State: OfNetDev, StateFile: "hw/ionic/ionic_ibdev.c",
			Name: "ionic", Kernel: []string{"ionic"}, Devices: "AMD Pensando", Disassociates: Release{7, 3},
			Events: "port, device, QP, CQ", Probe: "`ud_send`, `rc_write`", LinkDowned: "none", First: verbs.MethodUDSend,
			Costs:         queuePairCosts(Costs{CreateAH: 1, DestroyAH: 1}),
			Notes:         "From rdma-core 61. An arm is done by the next poll or post. Its library flushes by itself, perhaps without an event.",
			Interruptible: "A signal interrupts a reading of its hw_counters (IONIC_ADMIN_F_INTERRUPT, hw/ionic/ionic_hw_stats.c), and no other command.",
			// Files: ionic/ionic_hw_stats.c, ionic_get_hw_stats: always kept. The firmware names its counters, one page at most.
			// ionic_ethtool.c has no get_link_ext_state, and statistics are in memory.
			Files: Files{HWCounters: 128, HWCounterQueries: 1},
		},
		{
			State: OfDevice, StateFile: "hw/hfi1/verbs.c",
			Name: "hfi1", Kernel: []string{"hfi1"}, Devices: "Cornelis (Intel) Omni-Path",
			Events: "port, LID, P_Key, SM, re-registration, QP, CQ", Probe: "`rc_write`, `flush`", LinkDowned: "yes",
			First: verbs.MethodRCWrite, Costs: Costs{},
			Notes: "A fabric with extended LIDs shows as LID 0 on an active port; the probe then needs a GRH. No fatal event.",
			// Files: hfi1/verbs.c, get_hw_stats, and hfi1/mad.c: registers of the device, no firmware.
			Files: Files{Counters: 21, HWCounters: 150, HWCounterQueries: 1},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfDevice, StateFile: "hw/qedr/verbs.c",
			Name: "qedr", Kernel: []string{"qede", "qedr"}, Devices: "Marvell FastLinQ, RoCE mode",
			Events: "port, QP, CQ, SRQ; port twice with 7.3", Probe: "`rc_write`", LinkDowned: "none; reading is EINVAL",
			First: verbs.MethodRCWrite, Never: []verbs.Method{verbs.MethodUDSend, verbs.MethodFlush}, Costs: queuePairCosts(Costs{HWCounter: 0, QueryQP: 2}),
			Notes: "No datagrams. `flush` never completes, since the device does not know a queue pair before it is connected; " +
				"in iWARP mode there is no probe.",
			// Files: qedr/verbs.c, qedr_process_mad answers nothing, so that every file is EINVAL. qede_ethtool.c reads registers.
			Files: Files{Counters: 17},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "core/device.c",
			Name: "cxgb4", Kernel: []string{"cxgb4", "iw_cxgb4"}, Devices: "Chelsio T4 to T6",
			Events: "device, QP, SRQ; port with 7.3, not with 6.12", Probe: "`flush`", LinkDowned: "none",
			First: verbs.MethodFlush, Never: []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite}, Costs: queuePairCosts(Costs{HWCounter: 0, QueryQP: 0}),
			Notes: "iWARP. The driver gives some fatal errors to a queue pair's owner as a device event without a port.",
			// No files: a device has hw_counters, not its ports. cxgb4_ethtool.c reads registers, and asks the firmware once after
			// it was loaded (t4_get_mps_bg_map).
			Files: Files{},
		},
		{
			State: OfDevice, StateFile: "hw/mthca/mthca_provider.c",
			Name: "mthca", Kernel: []string{"ib_mthca"}, Devices: "Mellanox InfiniHost",
			Events: "port, device, LID, P_Key, re-registration, QP, CQ, SRQ", Probe: "`rc_write`, `flush`", LinkDowned: "yes",
			First: verbs.MethodRCWrite, Costs: Costs{PortQuery: 1, LinkDowned: 1, PKey: 1, ModifyQP: 1, DestroyQP: 1, QueryQP: 1},
			Notes: "The oldest cards cannot say up to where completions were seen when they arm.",
			// Files: mthca/mthca_mad.c, mthca_process_mad: one command a file. No network device but IPoIB.
			Files: Files{Counters: 21},
		},
		{
			State: OfDevice, StateFile: "hw/vmw_pvrdma/pvrdma_verbs.c",
			Name: "vmw_pvrdma", Kernel: []string{"vmw_pvrdma"}, Devices: "VMware paravirtual RDMA", Known: EmulatedDevice,
			Events: "port, when its vmxnet3 is set down or up; others if the hypervisor sends them",
			Probe:  "`ud_send`, with IPv4 and link-local GIDs alone; `rc_write`, `flush`", LinkDowned: "none",
			First: verbs.MethodUDSend, Costs: queuePairCosts(Costs{PortQuery: 1, PKey: 1, HWCounter: 0, CreateAH: 1, Statistics: 1}),
			Notes: "Its library asks the device for the port before it makes an address handle, and makes none for a global IPv6 " +
				"address (pvrdma_create_ah, providers/vmw_pvrdma/verbs.c). A carrier that is lost raises no event. A removal raises `port_err`.",
			Interruptible: "A signal ends any command with ETIMEDOUT (pvrdma_cmd_recv, hw/vmw_pvrdma/pvrdma_cmd.c).",
			// Events: pvrdma_main.c, pvrdma_netdevice_event_handle: NETDEV_DOWN, NETDEV_UP, and no NETDEV_CHANGE.
			// CreateAH: the query of the port. destroy_ah frees memory.
			// Statistics: vmxnet3_ethtool.c, VMXNET3_CMD_GET_STATS to the hypervisor.
			Files: Files{},
		},
	}...)
}

func mellanox() []Driver {
	all := "port, device, LID, P_Key, re-registration, QP, CQ, SRQ"
	return []Driver{
		{
			Known: ByStandin, Standin: profileTests,
			State: OfDevice, StateFile: "hw/mlx5/main.c",
			Name: "mlx5", Kernel: []string{"mlx5_core", verbs.DriverScalable, "mlx5_ib"}, Devices: "NVIDIA ConnectX-4 and later, BlueField",
			Disassociates: Release{6, 1},
			Events:        all + ", speed", Probe: "`ud_send`, `rc_write`; on InfiniBand `rc_write`",
			LinkDowned: "yes; on Ethernet unknown whether it counts",
			FlushMoves: []string{"req_cqe_flush_error", "resp_cqe_flush_error"}, First: verbs.MethodUDSend,
			Costs:    queuePairCosts(Costs{PortQuery: 5, LinkDowned: 1, PKey: 1, HWCounter: 4}),
			Ethernet: queuePairCosts(Costs{PortQuery: 2, PortSpeed: 3, LinkDowned: 1, PKey: 1, HWCounter: 4, LinkState: 1, Statistics: 46}),
			Notes: "`flush` is counted as an error, and so never taken by `auto`. A device in error state answers an open with EAGAIN and " +
				"commands with ENOLINK, and may recover. With rdma-core 62 and Linux 7.3, each query of an Ethernet port costs up to three " +
				"more commands, for `rate_effective_gbps`. An arm fires for what came before it. Representors have no RC queue pairs. " +
				"Scalable functions, whose driver is `mlx5_core.sf`, are like other functions.",
			// CreateAH: none. providers/mlx5/verbs.c, mlx5_create_ah, queries the port only if the query at the open has failed
			// (mlx5_set_context, mlx5.c; it has a place for two ports), and asks the kernel for the MAC address, which is no command (hw/mlx5/ah.c).
			// Files: mlx5/mad.c, process_pma_cmd: each file of counters is a command, on both link layers. mlx5/counters.c,
			// mlx5_ib_get_hw_stats: only the first counter is answered with the number of all, optional ones included, as
			// update_hw_stats wants it; 6.1 and later. Each optional counter that an operator switched on is a command more, as
			// is each counter bound to queue pairs for each file read (print_hw_stat). HWCounter is for a bond of two ports.
			// PortSpeed: with rdma-core 62 and Linux 7.3. mlx5/main.c, mlx5_ib_query_port_speed: one command for the virtual port,
			// and a query of the port where the firmware has no answer; none for a bond. On InfiniBand the port alone, not asked.
			// LinkState: en_ethtool.c, mlx5e_get_link_ext_state: a register, without a carrier only. Statistics: en_stats.c: 36
			// for the values, and five times two for which pause counters there are (GSSET_INFO once, GSTRINGS and GSTATS twice);
			// IPsec and MACsec offload add to it. On InfiniBand no GID names a network device, and IPoIB has no get_link_ext_state.
			Files: Files{Counters: 21, HWCounters: 31, HWCounterQueries: 1},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfDevice, StateFile: "hw/mlx4/main.c",
			Name: "mlx4", Kernel: []string{"mlx4_core", "mlx4_ib"}, Devices: "Mellanox ConnectX-2, ConnectX-3", Disassociates: Release{6, 1},
			Events: all + "; port twice on RoCE", Probe: "`ud_send`, `rc_write`; on InfiniBand `rc_write`",
			LinkDowned: "InfiniBand; elsewhere always 0",
			FlushMoves: []string{"rq_num_wrfe", "sq_num_wrfe"}, First: verbs.MethodUDSend,
			Costs:    Costs{PortQuery: 2, LinkDowned: 1, PKey: 1, HWCounter: 1, ModifyQP: 1, DestroyQP: 1, QueryQP: 1},
			Ethernet: Costs{PortQuery: 1, LinkDowned: 1, HWCounter: 1, ModifyQP: 1, DestroyQP: 1, QueryQP: 1},
			Notes: "`flush` is counted as an error. A device in error state answers an open with EAGAIN. An address handle asks the " +
				"host's neighbour table, for up to 3 s.",
			// CreateAH: none. providers/mlx4/verbs.c, mlx4_create_ah, queries the port only if no query has succeeded yet
			// (query_port_cache), and does not enter the kernel's driver.
			// Files: mlx4/mad.c, mlx4_ib_process_mad: each file is a command; on Ethernet one more for each queue pair with a
			// counter of its own (create_qp_lb_counter). mlx4/main.c, mlx4_ib_get_hw_stats: always kept. en_ethtool.c answers from
			// memory.
			Files: Files{Counters: 21, HWCounters: 23, HWCounterQueries: 1},
		},
	}
}

func soft() []Driver {
	return []Driver{
		{
			State: OfNetDev, StateFile: "sw/rxe/rxe_verbs.c",
			Name: "rxe", Kernel: []string{"rdma_rxe"}, Devices: "soft RoCE", Known: InTheLab, Disassociates: Release{7, 3},
			Events: "port, GID, QP, CQ, SRQ", Probe: "`ud_send`, `rc_write`, `flush`", LinkDowned: "yes",
			First: verbs.MethodUDSend, Costs: Costs{},
			// Files: rxe/rxe_hw_counters.c. The network device has the costs of its own driver.
			Files: Files{HWCounters: 15, HWCounterQueries: 1},
		},
		{
			State: OfNetDev, StateFile: "sw/siw/siw_verbs.c",
			Name: "siw", Kernel: []string{"siw"}, Devices: "soft iWARP", Known: InTheLab,
			Events: "port, LID, QP, CQ, SRQ", Probe: "`flush`", LinkDowned: "none", First: verbs.MethodFlush,
			Never: []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite}, Costs: Costs{},
			Notes: "[iWARP](#iwarp) has the reasons.",
		},
	}
}
