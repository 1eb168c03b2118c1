package devices

import (
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// fabricCounter counts the operations of a Fabric in the ledger. The lock of the Fabric guards it.
type fabricCounter struct {
	led  *ledger.Ledger
	slot int
}

func (c *fabricCounter) countEvent()   { c.add(ledger.FabricCounts{Events: 1, Acked: 1}) }
func (c *fabricCounter) countRefused() { c.add(ledger.FabricCounts{Refused: 1}) }
func (c *fabricCounter) countForeign() { c.add(ledger.FabricCounts{Foreign: 1}) }
func (c *fabricCounter) countDry()     { c.add(ledger.FabricCounts{Dry: 1}) }

// countEcho counts an answered probe of the peer in a slot.
func (c *fabricCounter) countEcho(place int) {
	c.add(ledger.FabricCounts{Echoed: 1})
	c.addOfPair(place, ledger.FabricPairCounts{Answered: 1})
}

func (c *fabricCounter) add(n ledger.FabricCounts) { c.led.AddFabricCounts(c.slot, n) }

func (c *fabricCounter) addOfPair(place int, n ledger.FabricPairCounts) {
	c.led.AddFabricPairCounts(c.slot, place, n)
}

func (c *fabricCounter) recordJoin(place int, session uint64) {
	c.led.JoinFabricPair(c.slot, place, session)
}

// countFact counts a fact of a pair.
func (c *fabricCounter) countFact(fact *verbs.FabricFact) {
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

// setCall records the call in which the thread of the Fabric is.
func (c *fabricCounter) setCall(call ledger.Call, now int64) { c.led.SetFabricCall(c.slot, call, now) }

// setControlCall records the call in which the thread of orders is.
func (c *fabricCounter) setControlCall(call ledger.Call, port int, now int64) {
	c.led.SetFabricControlCall(c.slot, ledger.ThreadCall{Call: call, Port: port, Since: now})
}
