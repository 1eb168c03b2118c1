// Package endpoint is the part of a session that keeps the Fabrics of its ports, for the probes between hosts, and carries out
// the orders of the host for them.
package endpoint

import (
	"math/rand/v2"

	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
)

// endpoint is the session.Part.
type endpoint struct {
	session session.Session
	fabrics []*fabric // one for each watched port
	refuse  func()    // ends the taking of orders
}

// New returns what makes the endpoint of a session, which takes the orders. A session without paths in its options has none.
func New(orders *verbs.FabricOrders) session.NewPart {
	return func(s session.Session) session.Part {
		if s.Options().Fabric.Paths <= 0 {
			return nil
		}
		e := &endpoint{session: s}
		for _, n := range verbs.PortNumbers(s.Device().Attr().Ports, s.Options().Ports) {
			e.fabrics = append(e.fabrics, newFabric(s, n, rand.Uint64))
		}
		e.refuse = orders.Take(func(r verbs.FabricRequest) {
			if f := e.fabric(r.Port); f != nil {
				f.take(r)
				return
			}
			r.Answer(0, verbs.ErrNoFabric)
		})
		return e
	}
}

// Tasks implements session.Part.
func (e *endpoint) Tasks() (tasks []session.Task) {
	for _, f := range e.fabrics {
		tasks = append(tasks, session.Task{Run: f.run}, session.Task{Run: f.carryOut})
	}
	return tasks
}

// PortChanged implements session.Part.
func (e *endpoint) PortChanged(port int) {
	if f := e.fabric(port); f != nil {
		f.nudge()
	}
}

// Stop implements session.Part. It announces that the ports have no Fabrics before the device is closed, which takes a while: a
// host that was asked meanwhile would say that all is well here.
func (e *endpoint) Stop() (sent bool) {
	e.refuse()
	for _, f := range e.fabrics {
		e.session.Send(verbs.Item{FabricPort: &verbs.FabricPort{Port: f.port, Reason: "the device is being closed"}})
	}
	return true
}

// fabric returns the fabric of a port, nil if the port is not watched.
func (e *endpoint) fabric(port int) *fabric {
	for _, f := range e.fabrics {
		if f.port == port {
			return f
		}
	}
	return nil
}
