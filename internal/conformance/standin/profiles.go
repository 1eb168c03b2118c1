package standin

import (
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

const (
	eagain     = int32(unix.EAGAIN)
	ebusy      = int32(unix.EBUSY)
	einval     = int32(unix.EINVAL)
	eio        = int32(unix.EIO)
	enodev     = int32(unix.ENODEV)
	enolink    = int32(unix.ENOLINK)
	eopnotsupp = int32(unix.EOPNOTSUPP)
	etimedout  = int32(unix.ETIMEDOUT)
)

const (
	rnic        = "4: RNIC" // node_type of iWARP
	unspecified = "7: unspecified"

	countsFlushes = "the driver counts flushed work requests"
	noCompletion  = "the first round of flush ended as lost_completion"
	noErrno       = "ibv_create_qp standin0 port 1: unsupported operation: it failed without an errno"
	noEvent       = "the first round of flush ended as lost_event"
	noIWARP       = "rc_write on iWARP"
	preferred     = "as preferred"
	portDown      = "rc_write on a port that is down"
	refusedQP     = "ibv_create_qp standin0 port 1: unsupported operation: operation not supported"
)

// Profiles returns the profiles of drivers. Their facts were read in the providers of
// rdma-core 65 and the drivers of Linux 7.3, unless a line names another version. No
// hardware was used. If the source does not settle a fact, such as whether an event
// follows a flush in the library, the profile has the worse case for the plugin.
func Profiles() []Profile {
	return append(nvidiaProfiles(), append(cloudProfiles(), otherProfiles()...)...)
}

// nvidiaProfiles returns the profiles of the ConnectX drivers. mlx5 asks its device for the state of a port and for link_downed on
// Ethernet, too (mlx5_query_port_roce, process_pma_cmd), and on InfiniBand with up to five commands (mlx5_query_hca_port). Both drivers
// count flushes, mlx4 as rq_num_wrfe. On RoCE, the netdev of mlx4 repeats the port events of its firmware (mlx4_ib_port_event).
func nvidiaProfiles() []Profile {
	mlx5 := Profile{
		Name: "mlx5", Module: "mlx5_core", Link: verbs.LinkEthernet, GRH: true,
		Provider: Provider{DeadOpen: eagain, DeadCommand: enolink}, Arm: ArmByIndex,
		Files: map[string]string{"ports/1/counters/link_downed": "0", "ports/1/hw_counters/resp_cqe_flush_error": "0"},

		PortEvents: 1, Events: []verbs.EventType{verbs.EventGIDChange, verbs.EventDeviceSpeedChange},
		Fatal: 1, CanDie: true, Disassociates: true,

		Commands:   addCommands(usualCommands(ledger.CallAllocPD, ledger.CallDeallocPD), ledger.CallQueryPort, 2),
		LinkDowned: 1,
		Seen: Seen{
			Up:    Probing{Method: verbs.MethodUDSend, Why: preferred},
			Down:  Probing{Why: countsFlushes, Attempt: 6},
			Query: 3, Reopen: "recovering",
		},
	}
	vf := mlx5 // a virtual function on InfiniBand, whose port requires a GRH
	vf.Name, vf.Link = "mlx5_vf", verbs.LinkInfiniBand
	vf.Events = []verbs.EventType{verbs.EventLIDChange, verbs.EventPKeyChange, verbs.EventClientReregister, verbs.EventDeviceSpeedChange}
	vf.Commands = addCommands(usualCommands(ledger.CallAllocPD, ledger.CallDeallocPD), ledger.CallQueryPort, 5)
	vf.Seen.Query, vf.Seen.Down.Attempt = 6, 6
	vf.Seen.Up.Method = verbs.MethodRCWrite

	mlx4 := mlx5
	mlx4.Name, mlx4.Module, mlx4.PortEvents, mlx4.Fatal = "mlx4", "mlx4_core", 2, 0
	mlx4.Provider = Provider{DeadOpen: eagain, DeadCommand: eio}
	mlx4.Files = map[string]string{"ports/1/counters/link_downed": "0", "hw_counters/rq_num_wrfe": "0"}
	mlx4.Events = []verbs.EventType{verbs.EventGIDChange}
	mlx4.Commands = oneForEach(ledger.CallCreateCQ, ledger.CallDestroyCQ, ledger.CallRegMR, ledger.CallDeregMR,
		ledger.CallModifyQP, ledger.CallDestroyQP, ledger.CallQueryPort)
	mlx4.Seen.Query, mlx4.Seen.Down.Attempt = 2, 4
	return []Profile{mlx5, vf, mlx4}
}

// cloudProfiles returns the profiles of drivers for virtual functions in clouds.
func cloudProfiles() []Profile {
	efa := Profile{
		Name: "efa", Module: "efa", NodeType: unspecified, Link: verbs.LinkUnspecified,
		// A command without an answer returns ETIME, and each one after it ENODEV.
		Provider: Provider{RefuseRC: eopnotsupp, DeadCommand: enodev, DeadDestroy: enodev}, Arm: ArmByIndex,

		Fatal: -1, CanDie: true,

		Commands: usualCommands(ledger.CallAllocPD, ledger.CallDeallocPD, ledger.CallCreateAH, ledger.CallDestroyAH),
		Seen: Seen{
			Up:     Probing{Method: verbs.MethodUDSend, Why: preferred},
			Down:   Probing{Why: refusedQP, Attempt: 4},
			Unmade: "ibv_alloc_pd standin0 port 1: unsupported operation: no such device",
		},
	}
	older := efa // a device without completion events: create_cq with a channel fails
	older.Name = "efa without completion events"
	older.Provider.RefuseChannel = eopnotsupp
	older.Seen.Up = Probing{Why: "ibv_create_cq standin0 port 1: unsupported operation: operation not supported", Attempt: 4}
	older.Seen.Down = Probing{Why: older.Seen.Up.Why, Attempt: 2}

	mana := Profile{
		Name: "mana", Module: "mana", Link: verbs.LinkEthernet, GRH: true,
		Provider: Provider{RefuseUD: eopnotsupp, RefuseAH: eopnotsupp, Flush: FlushSilent, DeadCommand: etimedout}, Arm: ArmByIndex,

		PortEvents: 1, Events: []verbs.EventType{verbs.EventGIDChange}, Fatal: -1, CanDie: true, Disassociates: true,

		Commands: usualCommands(ledger.CallAllocPD, ledger.CallDeallocPD),
		Seen: Seen{
			Up:     Probing{Method: verbs.MethodRCWrite, Why: refusedQP},
			Down:   Probing{Why: noEvent, Attempt: 8},
			Unmade: "ibv_alloc_pd standin0 port 1: unsupported operation: connection timed out",
		},
	}
	erdma := iwarpProfile("erdma", "erdma")
	erdma.Provider.DeadCommand, erdma.Provider.DeadDestroy, erdma.Arm = enodev, enodev, ArmByIndex
	erdma.CanDie, erdma.Disassociates = true, true
	erdma.Commands = usualCommands()
	erdma.Seen.Up.Round, erdma.Seen.Down.Round = 4, 4
	erdma.Seen.Unmade = "ibv_create_cq standin0 port 1: unsupported operation: no such device"
	return []Profile{efa, older, mana, erdma}
}

// iwarpProfile returns the common part of the profiles of iWARP drivers. All transitions succeed except the transition to RTS, which needs
// a connection manager. There are no datagrams.
func iwarpProfile(name, module string) Profile {
	return Profile{
		Name: name, Module: module, NodeType: rnic, Link: verbs.LinkEthernet,
		Provider: Provider{RefuseUD: eopnotsupp, RefuseAH: eopnotsupp, RefuseRTS: einval},

		PortEvents: 1, Fatal: -1,
		Seen: Seen{
			Up:   Probing{Method: verbs.MethodFlush, Why: noIWARP},
			Down: Probing{Method: verbs.MethodFlush, Why: noIWARP},
		},
	}
}

func otherProfiles() []Profile {
	bnxt := Profile{
		Name: "bnxt_re", Module: "bnxt_en", Link: verbs.LinkEthernet, GRH: true,
		// On a detached device every command but a destroy times out
		// (bnxt_qplib_map_rc).
		Provider: Provider{Flush: FlushSilent, DeadCommand: etimedout}, Arm: ArmByIndex,
		Files: map[string]string{"ports/1/counters/link_downed": "0"},

		PortEvents: 1, Events: []verbs.EventType{verbs.EventGIDChange}, Fatal: 1, CanDie: true, Disassociates: true,

		Commands:   usualCommands(ledger.CallCreateAH, ledger.CallDestroyAH),
		LinkDowned: 1,
		Seen: Seen{
			Up:    Probing{Method: verbs.MethodUDSend, Why: preferred, Round: 2},
			Down:  Probing{Why: noEvent, Attempt: 9},
			Query: 1, Unmade: "ibv_create_cq standin0 port 1: unsupported operation: connection timed out",
		},
	}
	bnxt44 := bnxt // with the provider of rdma-core 45 and before, and a kernel before 7.3
	bnxt44.Name, bnxt44.Arm, bnxt44.Fatal, bnxt44.Files, bnxt44.LinkDowned = "bnxt_re of rdma-core 44", ArmAtPoll, -1, nil, 0
	bnxt44.Seen.Query, bnxt44.Seen.Down.Attempt = 0, 6

	irdma := Profile{
		Name: "irdma", Module: "ice", Link: verbs.LinkEthernet, GRH: true,
		Provider: Provider{DeadCommand: etimedout},

		PortEvents: 1, Events: []verbs.EventType{verbs.EventGIDChange}, Fatal: -1, CanDie: true, Disassociates: true,

		Commands: usualCommands(ledger.CallCreateAH, ledger.CallDestroyAH),
		Seen: Seen{
			Up:     Probing{Method: verbs.MethodUDSend, Why: preferred, Round: 2},
			Down:   Probing{Method: verbs.MethodFlush, Why: portDown, Round: 4},
			Unmade: "ibv_create_cq standin0 port 1: unsupported operation: connection timed out",
		},
	}
	irdmaIWARP := iwarpProfile("irdma_iwarp", "ice")
	irdmaIWARP.Provider.DeadCommand, irdmaIWARP.CanDie, irdmaIWARP.Disassociates = etimedout, true, true
	irdmaIWARP.Commands = usualCommands()
	irdmaIWARP.Seen.Up.Round, irdmaIWARP.Seen.Down.Round = 4, 4
	irdmaIWARP.Seen.Unmade = irdma.Seen.Unmade

	hns := irdma
	hns.Name, hns.Module, hns.Arm = "hns", "hns3", ArmByIndex
	hns.Provider = Provider{DeadOpen: eagain, DeadCommand: ebusy}
	hns.Commands = oneForEach(ledger.CallCreateCQ, ledger.CallDestroyCQ, ledger.CallRegMR, ledger.CallDeregMR,
		ledger.CallModifyQP, ledger.CallDestroyQP) // the destroy moves the queue pair to RESET
	hns.Seen.Up.Round, hns.Seen.Down.Round, hns.Seen.Reopen, hns.Seen.Unmade = 0, 3, "recovering", ""
	hip08 := hns // no datagrams, and before 7.3 no port events
	hip08.Name, hip08.PortEvents = "hns HIP08 on Linux 6.12", 0
	hip08.Provider.RefuseUD, hip08.Provider.RefuseAH = Silently, Silently
	hip08.Seen.Up = Probing{Method: verbs.MethodRCWrite, Why: noErrno}

	qedr := irdma
	qedr.Name, qedr.Module, qedr.PortEvents, qedr.Disassociates, qedr.Arm = "qedr", "qede", 2, false, ArmByIndex
	// In recovery, commands are skipped and report success. The device has no queue
	// pair before RTR.
	qedr.Provider = Provider{RefuseUD: eopnotsupp, RefuseAH: eopnotsupp, Flush: FlushNever}
	qedr.Commands = oneForEach(ledger.CallCreateCQ, ledger.CallDestroyCQ, ledger.CallRegMR, ledger.CallDeregMR)
	qedr.Seen.Up = Probing{Method: verbs.MethodRCWrite, Why: refusedQP}
	qedr.Seen.Down = Probing{Why: noCompletion, Attempt: 2}
	qedr.Seen.Unmade = noCompletion

	cxgb4 := iwarpProfile("cxgb4", "cxgb4")
	cxgb4.Provider.DeadCommand, cxgb4.CanDie, cxgb4.Fatal, cxgb4.Arm = eio, true, 0, ArmByIndex
	cxgb4.Commands = oneForEach(ledger.CallCreateCQ, ledger.CallDestroyCQ, ledger.CallCreateQP, ledger.CallDestroyQP,
		ledger.CallRegMR, ledger.CallDeregMR)
	cxgb4.Seen.Up.Round, cxgb4.Seen.Down.Round = 2, 2
	cxgb4.Seen.Unmade = "ibv_create_cq standin0 port 1: unsupported operation: input/output error"

	rxe := irdma
	rxe.Name, rxe.Module, rxe.Provider, rxe.CanDie, rxe.Commands = "rxe", "", Provider{}, false, nil
	rxe.Files = map[string]string{"node_desc": "rxe", "ports/1/hw_counters/link_downed": "0"}
	rxe.Seen.Up.Round, rxe.Seen.Down.Round, rxe.Seen.Unmade = 0, 0, ""
	siw := iwarpProfile("siw", "")
	siw.Events = []verbs.EventType{verbs.EventLIDChange}
	return []Profile{bnxt, bnxt44, irdma, irdmaIWARP, hns, hip08, qedr, cxgb4, rxe, siw}
}
