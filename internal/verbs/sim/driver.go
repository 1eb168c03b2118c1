package sim

import "rdma_events/internal/verbs"

// drivers are devices as some drivers make them, by the profile's name. What was read
// of each is in package standin; a test of package session holds both to each other.
func drivers() map[string]func(i int) spec {
	return map[string]func(i int) spec{
		"mlx5":        func(i int) spec { return countingFlushes(roce(i)) },
		"mlx5_vf":     mlx5VF,
		"mlx4":        mlx4,
		"bnxt_re":     func(i int) spec { return without(roce(i), downs|flushEvent) },
		"irdma":       func(i int) spec { return without(roce(i), counter) },
		"irdma_iwarp": func(i int) spec { return disassociating(iwarp(i)) },
		"hns":         func(i int) spec { return without(roce(i), counter) },
		"erdma":       func(i int) spec { return disassociating(iwarp(i)) },
		"qedr":        qedr,
		"mana":        func(i int) spec { return without(roce(i), counter|datagrams|flushEvent) },
		"cxgb4":       iwarp,
		"rxe":         roce,
		"siw":         iwarp,
	}
}

// lack is what the device of a driver has not.
type lack uint8

const (
	counter         lack = 1 << iota // of link downs
	downs                            // in that counter, which stays 0
	datagrams                        // UD queue pairs, or address handles for them
	flushEvent                       // of a receive that is flushed in the library
	flushCompletion                  // of a receive that is flushed before the queue pair is connected
)

func without(s spec, l lack) spec {
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

func disassociating(s spec) spec {
	s.disassociates = true
	return s
}

func mlx5VF(i int) spec {
	s := infiniband(i)
	s.attr.VirtualFunction = true
	return s
}

// mlx4 raises each port event twice on RoCE, as its firmware and its netdev; its
// link_downed is there and stays 0.
func mlx4(i int) spec {
	s := countingFlushes(without(roce(i), downs))
	s.portEvents = 2
	return s
}

// qedr raises each port event twice on Linux 7.3, as its driver and the core.
func qedr(i int) spec {
	s := without(roce(i), counter|datagrams|flushCompletion)
	s.portEvents, s.disassociates = 2, false
	return s
}
