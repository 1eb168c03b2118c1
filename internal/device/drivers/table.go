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
	return append(hardwareDrivers(), softDrivers()...)
}

// hardwareDrivers returns the drivers of hardware. In the comments about Files, the kernel keeps the answer of a command for 10 ms
// (see Files.HWCounterQueries), in which further reads cost no command.
func hardwareDrivers() []Driver {
	return append(mellanoxDrivers(), []Driver{
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "hw/irdma/verbs.c",
			Name: "irdma, RoCE", Kernel: []string{"ice", "i40e", "idpf"}, Transport: "infiniband", Devices: "Intel E810, E830", Disassociates: Release{6, 1},
			Events: "port, QP, CQ, SRQ", Probe: "`ud_send`, `rc_write`, `flush`", LinkDowned: "none",
			First: verbs.MethodUDSend, Costs: queuePairCosts(Costs{CreateAH: 1, DestroyAH: 1, QueryQP: 0}),
			Notes: "A device that stops answering is reset without an event, after 5 s. Its hw_counters report success and old " +
				"values while the device hangs. The device makes one address handle of equal ones.",
			// Files: irdma/verbs.c, irdma_get_hw_stats: one command reads all counters (none on X722, which has registers), and the
			// kernel always keeps the answer. ice, i40e and idpf have no get_link_ext_state, and read statistics from registers or
			// from memory.
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
			// Files: bnxt_re/hw_counters.c, bnxt_re_ib_get_hw_stats: the kernel always keeps the answer, even of a failure. The
			// directory counters exists only with 7.3, and each file costs a command (bnxt_re_process_mad). bnxt_ethtool.c answers
			// link and statistics from memory.
			Files: Files{Counters: 21, HWCounters: 92, HWCounterQueries: 1},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNone, StateFile: "hw/efa/efa_verbs.c",
			Name: "efa", Kernel: []string{"efa"}, Devices: "Amazon EFA",
			Events: "none", Probe: "`ud_send`", LinkDowned: "none",
			First: verbs.MethodUDSend, Never: []verbs.Method{verbs.MethodRCWrite, verbs.MethodFlush},
			Costs: queuePairCosts(Costs{HWCounter: 5}), // an address handle costs a command too, but with this driver the probe keeps its handle
			Notes: "`events_supported` is 0: port states come from queries, which always say active, also when the link is down or the device is dead. " +
				"Older devices have no completion events, and so no probe.",
			// Files: efa/efa_verbs.c, efa_fill_port_stats: the kernel always keeps the answer. A port has no network device.
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
			// Files: hns/hns_roce_hw_v2.c, hns_roce_hw_v2_query_counter: the kernel keeps the answer only if the firmware has all 22
			// counters. 6.1 has no counters. LinkState: hns3_ethtool.c: hns3_get_link is a command even if there is a link, and from
			// HIP09 on hns3_get_link_ext_state is one if there is none. Statistics: hclge_update_stats: a command for the statistics
			// of the MAC, and two commands for each queue.
			Files: Files{HWCounters: 22, HWCounterQueries: 22},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "hw/erdma/erdma_verbs.c",
			Name: "erdma", Kernel: []string{"erdma"}, Devices: "Alibaba ERDMA", Disassociates: Release{6, 12},
			Events: "port, QP, CQ", Probe: "`flush`; `rc_write` in its RoCE mode", LinkDowned: "none",
			First: verbs.MethodFlush, Never: []verbs.Method{verbs.MethodUDSend},
			Costs: queuePairCosts(Costs{Statistics: 1}), Notes: "In iWARP mode as irdma's. A refused command is EIO.",
			// Files: erdma/erdma_verbs.c, erdma_get_hw_stats: the kernel always keeps the answer. 6.1 has no counters. The network
			// device belongs to virtio_net: get_link returns the carrier, and virtnet_get_hw_stats costs one command if the device
			// has statistics.
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
			// Files: mana/counters.c, mana_ib_get_hw_port_stats: the kernel always keeps the answer. 6.12 has no counters.
			// Statistics: mana_ethtool.c calls mana_query_gf_stats for a port that is up.
			Files: Files{HWCounters: 34, HWCounterQueries: 1},
		},
		{
			State: OfNetDev, StateFile: "hw/ionic/ionic_ibdev.c",
			Name: "ionic", Kernel: []string{"ionic"}, Devices: "AMD Pensando", Disassociates: Release{7, 3},
			Events: "port, device, QP, CQ", Probe: "`ud_send`, `rc_write`", LinkDowned: "none", First: verbs.MethodUDSend,
			Costs:         queuePairCosts(Costs{CreateAH: 1, DestroyAH: 1}),
			Notes:         "From rdma-core 61. An arm is done by the next poll or post. Its library flushes by itself, perhaps without an event.",
			Interruptible: "A signal interrupts a reading of its hw_counters (IONIC_ADMIN_F_INTERRUPT, hw/ionic/ionic_hw_stats.c), and no other command.",
			// Files: ionic/ionic_hw_stats.c, ionic_get_hw_stats: the kernel always keeps the answer. The firmware lists its
			// counters in at most one page. ionic_ethtool.c has no get_link_ext_state, and reads statistics from memory.
			Files: Files{HWCounters: 128, HWCounterQueries: 1},
		},
		{
			State: OfDevice, StateFile: "hw/hfi1/verbs.c",
			Name: "hfi1", Kernel: []string{"hfi1"}, Devices: "Cornelis (Intel) Omni-Path",
			Events: "port, LID, P_Key, SM, re-registration, QP, CQ", Probe: "`rc_write`, `flush`", LinkDowned: "yes",
			First: verbs.MethodRCWrite, Costs: Costs{},
			Notes: "A fabric with extended LIDs shows as LID 0 on an active port; the probe then needs a GRH. No fatal event.",
			// Files: hfi1/verbs.c, get_hw_stats, and hfi1/mad.c read registers of the device, without its firmware.
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
			// Files: qedr/verbs.c, qedr_process_mad never answers, so that every file fails with EINVAL. qede_ethtool.c reads registers.
			Files: Files{Counters: 17},
		},
		{
			Known: ByStandin, Standin: profileTests,
			State: OfNetDev, StateFile: "core/device.c",
			Name: "cxgb4", Kernel: []string{"cxgb4", "iw_cxgb4"}, Devices: "Chelsio T4 to T6",
			Events: "device, QP, SRQ; port with 7.3, not with 6.12", Probe: "`flush`", LinkDowned: "none",
			First: verbs.MethodFlush, Never: []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite}, Costs: queuePairCosts(Costs{HWCounter: 0, QueryQP: 0}),
			Notes: "iWARP. The driver gives some fatal errors to a queue pair's owner as a device event without a port.",
			// No files: the device has hw_counters, but its ports have none. cxgb4_ethtool.c reads registers. It makes one command to
			// the firmware after the driver was loaded (t4_get_mps_bg_map).
			Files: Files{},
		},
		{
			State: OfDevice, StateFile: "hw/mthca/mthca_provider.c",
			Name: "mthca", Kernel: []string{"ib_mthca"}, Devices: "Mellanox InfiniHost",
			Events: "port, device, LID, P_Key, re-registration, QP, CQ, SRQ", Probe: "`rc_write`, `flush`", LinkDowned: "yes",
			First: verbs.MethodRCWrite, Costs: Costs{PortQuery: 1, LinkDowned: 1, PKey: 1, ModifyQP: 1, DestroyQP: 1, QueryQP: 1},
			Notes: "The oldest cards cannot say up to where completions were seen when they arm.",
			// Files: mthca/mthca_mad.c, mthca_process_mad: one command for each file. IPoIB is the only network device.
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
			// Events: pvrdma_main.c, pvrdma_netdevice_event_handle handles NETDEV_DOWN and NETDEV_UP, but not NETDEV_CHANGE.
			// CreateAH: the query of the port. destroy_ah only frees memory.
			// Statistics: vmxnet3_ethtool.c sends VMXNET3_CMD_GET_STATS to the hypervisor.
			Files: Files{},
		},
	}...)
}

func mellanoxDrivers() []Driver {
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
			// Files: mlx5/mad.c, process_pma_cmd: each file in the directory counters costs a command, on both link layers.
			// mlx5/counters.c, mlx5_ib_get_hw_stats (6.1 and later): only the read of the first counter returns the number of all
			// counters, the optional ones included. update_hw_stats requires that number to keep the answer. Each optional counter
			// that an operator has switched on costs one more command. So does each counter that is bound to queue pairs, for each
			// file that is read (print_hw_stat). HWCounter is the cost for a bond of two ports.
			// PortSpeed: with rdma-core 62 and Linux 7.3. mlx5/main.c, mlx5_ib_query_port_speed: one command for the virtual port,
			// and a query of the port if the firmware does not answer; no command for a bond. On InfiniBand it is only the query of
			// the port, which the plugin does not make.
			// LinkState: en_ethtool.c, mlx5e_get_link_ext_state: one register, and only without a carrier. Statistics: en_stats.c:
			// 36 commands for the values, and two in each of five calls that ask which pause counters exist (GSSET_INFO once,
			// GSTRINGS and GSTATS twice each). IPsec and MACsec offload cost more. On InfiniBand no GID names a network device, and IPoIB has no get_link_ext_state.
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
			// Files: mlx4/mad.c, mlx4_ib_process_mad: each file costs a command, and on Ethernet one more for each queue pair with a
			// counter of its own (create_qp_lb_counter). mlx4/main.c, mlx4_ib_get_hw_stats: the kernel always keeps the answer.
			// en_ethtool.c answers from memory.
			Files: Files{Counters: 21, HWCounters: 23, HWCounterQueries: 1},
		},
	}
}

func softDrivers() []Driver {
	return []Driver{
		{
			State: OfNetDev, StateFile: "sw/rxe/rxe_verbs.c",
			Name: "rxe", Kernel: []string{"rdma_rxe"}, Devices: "soft RoCE", Known: InTheLab, Disassociates: Release{7, 3},
			Events: "port, GID, QP, CQ, SRQ", Probe: "`ud_send`, `rc_write`, `flush`", LinkDowned: "yes",
			First: verbs.MethodUDSend, Costs: Costs{},
			// Files: rxe/rxe_hw_counters.c. The costs of the network device depend on its own driver.
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
