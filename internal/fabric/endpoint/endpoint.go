// Package endpoint runs the Fabrics of a device's ports, which send and answer the probes between hosts, and carries out the host's orders
// for them. It is a part of a session in the worker.
package endpoint

import (
	"math/rand/v2"

	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
)

// endpoint implements session.Part.
type endpoint struct {
	session    session.Session
	fabrics    []*portFabric // one for each watched port
	stopOrders func()        // makes FabricOrders refuse all further orders
}

// New returns a function that creates the endpoint of a session. The endpoint carries out the orders. The function returns nil if the
// session's options have no paths.
func New(orders *verbs.FabricOrders) session.NewPart {
	return func(s session.Session) session.Part {
		if s.Options().Fabric.Paths <= 0 {
			return nil
		}
		e := &endpoint{session: s}
		attr := s.Device().Attr()
		for _, n := range attr.WatchedPorts(s.Options().Ports) {
			e.fabrics = append(e.fabrics, newPortFabric(s, n, rand.Uint64))
		}
		e.stopOrders = orders.Handle(func(r verbs.FabricRequest) {
			if f := e.fabricOf(r.Port); f != nil {
				f.queueOrder(r)
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
		tasks = append(tasks, session.Task{Run: f.keepFabric}, session.Task{Run: f.carryOutOrders})
	}
	return tasks
}

// PortChanged implements session.Part.
func (e *endpoint) PortChanged(port int) {
	if f := e.fabricOf(port); f != nil {
		f.nudge()
	}
}

// Stop implements session.Part. It announces that the ports have no Fabrics any more before the device is closed. Closing takes a while, in which
// the host would otherwise confirm to peers that the ports answer.
func (e *endpoint) Stop() (sent bool) {
	e.stopOrders()
	for _, f := range e.fabrics {
		e.session.Send(verbs.Item{FabricPort: &verbs.FabricPort{Port: f.port, Reason: "the device is being closed"}})
	}
	return true
}

// fabricOf returns the portFabric of a port, or nil if the port is not monitored.
func (e *endpoint) fabricOf(port int) *portFabric {
	for _, f := range e.fabrics {
		if f.port == port {
			return f
		}
	}
	return nil
}
