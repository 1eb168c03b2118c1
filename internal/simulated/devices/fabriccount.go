package devices

import (
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// fabricCount counts in the ledger what a Fabric does. The lock of the Fabric guards it.
type fabricCount struct {
	led  *ledger.Ledger
	slot int
}

func (c *fabricCount) event()   { c.add(ledger.FabricCounts{Events: 1, Acked: 1}) }
func (c *fabricCount) refused() { c.add(ledger.FabricCounts{Refused: 1}) }
func (c *fabricCount) foreign() { c.add(ledger.FabricCounts{Foreign: 1}) }
func (c *fabricCount) dry()     { c.add(ledger.FabricCounts{Dry: 1}) }

// echoed counts a probe of the peer in a place that was answered.
func (c *fabricCount) echoed(place int) {
	c.add(ledger.FabricCounts{Echoed: 1})
	c.addOfPair(place, ledger.FabricPairCounts{Answered: 1})
}

func (c *fabricCount) add(n ledger.FabricCounts) { c.led.AddFabricCounts(c.slot, n) }

func (c *fabricCount) addOfPair(place int, n ledger.FabricPairCounts) {
	c.led.AddFabricPair(c.slot, place, n)
}

func (c *fabricCount) joined(place int, session uint64) { c.led.JoinFabricPair(c.slot, place, session) }

// saw counts a fact of a pair.
func (c *fabricCount) saw(fact *verbs.FabricFact) {
	var n ledger.FabricPairCounts
	switch fact.Kind {
	case verbs.FabricSent:
		n.Sent = 1
	case verbs.FabricEcho:
		n.Answered = 1
	case verbs.FabricWrite:
		n.Writes = 1
	case verbs.FabricWriteDone:
		n.WritesOK = 1
	case verbs.FabricWriteFailed:
		n.WriteErrors = 1
	default:
		return
	}
	c.addOfPair(fact.Pair, n)
}

// lane records the call that the thread of the Fabric is in.
func (c *fabricCount) lane(call ledger.Call, now int64) { c.led.FabricLane(c.slot, call, now) }

// control records the call of the thread of orders.
func (c *fabricCount) control(call ledger.Call, port int, now int64) {
	c.led.FabricControl(c.slot, ledger.Lane{Call: call, Port: port, Beat: now})
}
