package ledger

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// ProbeCounts counts the outcomes of a probe's rounds, and its events. A slot of the ledger contains a ProbeCounts. The
// fields have the order of the probe's struct in internal/device/native/native.h.
type ProbeCounts struct {
	Rounds, Successes, Errors   uint64
	LostEvents, LostCompletions uint64
	Events, Acked               uint64
	Spurious, Late              uint64
	Resent                      uint64 // rounds of ud_send that sent a second datagram
	Disturbed                   uint64 // rounds during which the host was paused or suspended
}

const numCounts = int(unsafe.Sizeof(ProbeCounts{}) / unsafe.Sizeof(uint64(0)))

// asArray returns the counts as an array that shares their memory.
func (c *ProbeCounts) asArray() *[numCounts]uint64 { return (*[numCounts]uint64)(unsafe.Pointer(c)) }

// load copies counts that a worker is writing. It reads Rounds before the outcomes, and Acked
// before Events, so that Rounds never exceeds the sum of the outcomes, nor Acked the Events.
func (c *ProbeCounts) load() ProbeCounts {
	var out ProbeCounts
	out.Rounds = atomic.LoadUint64(&c.Rounds)
	from, to := c.asArray(), out.asArray()
	for i := numCounts - 1; i > 0; i-- {
		to[i] = atomic.LoadUint64(&from[i])
	}
	return out
}

// store adds o to counts that the host may read meanwhile. It keeps the order that load relies on.
func (c *ProbeCounts) store(o ProbeCounts) {
	to, from := c.asArray(), o.asArray()
	for i := 1; i < numCounts; i++ {
		atomic.AddUint64(&to[i], from[i])
	}
	atomic.AddUint64(&c.Rounds, o.Rounds)
}

func (c *ProbeCounts) isPlausible() bool { return slices.Max(c.asArray()[:]) < ImplausibleCount }

// Add returns the sum of both, field by field.
func (c ProbeCounts) Add(o ProbeCounts) ProbeCounts {
	for i, n := range o.asArray() {
		c.asArray()[i] += n
	}
	return c
}

// Sub returns c minus base, field by field.
func (c ProbeCounts) Sub(base ProbeCounts) ProbeCounts {
	for i, n := range base.asArray() {
		c.asArray()[i] -= n
	}
	return c
}

// Raise raises each count to the count of o if that is higher, so that no count ever falls.
// It takes no more of o's events as acknowledged than o has read.
func (c *ProbeCounts) Raise(o ProbeCounts) {
	o.Acked = min(o.Acked, o.Events)
	for i, n := range o.asArray() {
		c.asArray()[i] = max(c.asArray()[i], n)
	}
}
