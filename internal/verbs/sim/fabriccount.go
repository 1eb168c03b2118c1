package sim

import (
	"rdma_events/internal/ledger"
	"rdma_events/internal/verbs"
)

// fabricCount counts what a Fabric does. The lock of the Fabric guards it.
type fabricCount struct {
	events, acked, echoed, refused, foreign, dry uint64
	pairs                                        [verbs.MaxFabricPairs]fabricPairCount
}

// fabricPairCount counts the probes and writes of a place.
type fabricPairCount struct {
	session                                       uint64
	sent, answered, writes, writesOK, writeErrors uint64
}

func (c *fabricCount) event()                         { c.events++; c.acked++ }
func (c *fabricCount) echo()                          { c.echoed++ }
func (c *fabricCount) refuse()                        { c.refused++ }
func (c *fabricCount) alien()                         { c.foreign++ }
func (c *fabricCount) dried()                         { c.dry++ }
func (c *fabricCount) join(place int, session uint64) { c.pairs[place].session = session }
func (c *fabricCount) sent(place int)                 { c.pairs[place].sent++ }
func (c *fabricCount) answered(place int)             { c.pairs[place].answered++ }
func (c *fabricCount) write(place int)                { c.pairs[place].writes++ }

// written counts the end of a write.
func (c *fabricCount) written(place int, kind verbs.FabricKind) {
	if kind == verbs.FabricWriteDone {
		c.pairs[place].writesOK++
	} else {
		c.pairs[place].writeErrors++
	}
}

func (f *fabricEnd) setThreadState(c ledger.Call, now int64) {
	f.d.led.Control(ledger.Lane{Call: c, Port: f.c.Port, Beat: now})
}
