package monitor

import (
	"rdma_events/internal/ledger"
	"rdma_events/internal/verbs"
)

// Fabric takes what the workers say of probes between hosts. Its methods are called concurrently for different devices, and in
// order for one device. They must not block, nor call the Monitor, nor keep what they are given. An offset is the wall clock
// minus CLOCK_MONOTONIC, in ns.
type Fabric interface {
	// Port is called when the peers reach a port otherwise than before.
	Port(device string, p *verbs.FabricPort, offset int64)
	// PortState is called when the state of a port may have changed.
	PortState(device string, port int, s verbs.PortState, offset int64)
	// PortRole is called again and again with verbs.RoleManagement for a port of this role, and with "" for others, once the role is known.
	PortRole(device string, port int, role string)
	// Facts is called for what the last Port has seen.
	Facts(device string, f *verbs.FabricFacts, offset int64)
	// Ledger is called with what the running worker has counted so far. over: the worker has ended, and counts nothing more.
	Ledger(device string, fabrics []ledger.Fabric, over bool)
	// Gone is called when a device is gone.
	Gone(device string)
}

// noFabric is a Fabric that takes nothing.
type noFabric struct{}

func (noFabric) Port(string, *verbs.FabricPort, int64)         {}
func (noFabric) PortState(string, int, verbs.PortState, int64) {}
func (noFabric) PortRole(string, int, string)                  {}
func (noFabric) Facts(string, *verbs.FabricFacts, int64)       {}
func (noFabric) Ledger(string, []ledger.Fabric, bool)          {}
func (noFabric) Gone(string)                                   {}
