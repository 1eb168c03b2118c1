package devices

import "rdma_events/internal/device/verbs"

// driverProfiles returns the profiles that imitate the device of a real driver, by name. Package standin has the facts about each
// driver. A test of package session compares the two.
func driverProfiles() map[string]func(i int) spec {
	return map[string]func(i int) spec{
		"mlx5":        mlx5Spec,
		"mlx5_vf":     mlx5VFSpec,
		"mlx4":        mlx4Spec,
		"bnxt_re":     func(i int) spec { return withoutFeatures(roceSpec(i), downs|flushEvent) },
		"irdma":       func(i int) spec { return withoutFeatures(roceSpec(i), counter) },
		"irdma_iwarp": func(i int) spec { return disassociating(iwarpSpec(i)) },
		"hns":         func(i int) spec { return withoutFeatures(roceSpec(i), counter) },
		"erdma":       func(i int) spec { return disassociating(iwarpSpec(i)) },
		"qedr":        qedrSpec,
		"mana":        func(i int) spec { return withoutFeatures(roceSpec(i), counter|datagrams|flushEvent) },
		"cxgb4":       iwarpSpec,
		"rxe":         func(i int) spec { return inSoftware(roceSpec(i)) },
		"siw":         iwarpSpec,
	}
}

// kernelDriver returns the name in sysfs of the driver of a profile.
func kernelDriver(profile string) string {
	switch profile {
	case "mlx5", "mlx5_vf":
		return "mlx5_core"
	case "mlx4":
		return "mlx4_core"
	case "irdma", "irdma_iwarp":
		return "ice"
	case "hns":
		return "hns3"
	}
	return profile // what it costs is known by this name, or it costs nothing
}

// lack is a set of features that the device of a driver does not have.
type lack uint8

const (
	counter         lack = 1 << iota // the counter of link downs
	downs                            // counts in that counter, which stays 0
	datagrams                        // UD queue pairs, or address handles for them
	flushEvent                       // the event of a receive that is flushed in the library
	flushCompletion                  // the completion of a receive that is flushed before the queue pair is connected
)

func withoutFeatures(s spec, l lack) spec {
	p := &s.ports[0]
	if l&counter != 0 {
		p.attr.HasLinkDowned = false
	}
	p.stuckCounter = l&downs != 0
	if l&datagrams != 0 {
		p.methods = []verbs.Method{verbs.MethodRCWrite, verbs.MethodFlush}
	}
	if l&flushEvent != 0 {
		p.flush = verbs.OutcomeLostEvent
	}
	if l&flushCompletion != 0 {
		p.flush = verbs.OutcomeLostCompletion
	}
	return s
}

func countingFlushes(s spec) spec {
	s.attr.CountsFlushes = true
	return s
}

func inSoftware(s spec) spec {
	s.ports[0].software = true
	return s
}

func disassociating(s spec) spec {
	s.disassociates = true
	return s
}

// mlx5Spec describes a device that raises device_speed_change at every change of a port, before the event of the port
// (handle_port_change in drivers/infiniband/hw/mlx5/main.c, Linux 7.3), and that answers ibv_query_port_speed on Ethernet.
func mlx5Spec(i int) spec {
	s := countingFlushes(roceSpec(i))
	s.speedEvents = true
	s.ports[0].attr.EffectiveGbps = s.ports[0].attr.RateGbps
	return s
}

func mlx5VFSpec(i int) spec {
	s := infinibandSpec(i)
	s.speedEvents = true
	s.attr.VirtualFunction = true
	return s
}

// mlx4Spec describes a device that raises each port event twice on RoCE: once by the firmware, and once by the network device.
// Its link_downed exists and stays 0.
func mlx4Spec(i int) spec {
	s := countingFlushes(withoutFeatures(roceSpec(i), downs))
	s.portEvents = 2
	return s
}

// qedrSpec describes a device that raises each port event twice, as on Linux 7.3: once by the driver, and once by the core.
func qedrSpec(i int) spec {
	s := withoutFeatures(roceSpec(i), counter|datagrams|flushCompletion)
	s.portEvents, s.disassociates = 2, false
	return s
}
