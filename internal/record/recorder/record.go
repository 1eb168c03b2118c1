package recorder

import (
	"encoding/json"
	"time"
)

// Entry is a record that a caller adds.
type Entry struct {
	// Kind is the kind of the record, by which readers select. The recorder itself writes the kinds start, alive, end, lost
	// and clock.
	Kind string
	// Device and Port identify what the record is about. "": the whole host. 0: the whole device.
	Device string
	Port   int
	// Sync makes the recorder sync the record to the disk at once, instead of within a second.
	Sync bool
	// Data is encoded as a JSON object by the goroutine that writes, so it must not change after Add. A json.RawMessage is
	// written unchanged. nil: the record has no data.
	Data any
}

// Record is a record that was read.
type Record struct {
	// Sequence orders all records of a directory.
	Sequence uint64 `json:"sequence"`
	// Time is the wall clock when the record was added, in UTC. It may go back from one record to the next.
	Time time.Time `json:"time"`
	// BootNS is CLOCK_BOOTTIME when the record was added, in ns. It increases within a run. A run that had to wait for the
	// directory starts before the end of the previous run.
	BootNS int64 `json:"boot_ns"`
	// BootID is the kernel's ID of the boot (random(4)).
	BootID string `json:"boot_id"`
	// Host is the name of the host; "" in records of versions that did not write it.
	Host   string          `json:"host,omitempty"`
	Kind   string          `json:"kind"`
	Device string          `json:"device,omitempty"`
	Port   int             `json:"port,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// Kinds of the records that the recorder itself adds. They concern the whole host.
const (
	KindStart = "start" // the first record of a run; Data is a Start
	KindAlive = "alive" // the recorder runs, but there was nothing to record; Data is an Alive
	KindEnd   = "end"   // the last record of a run that ended cleanly; no Data
	KindLost  = "lost"  // records were lost before this one; Data is a Lost
	KindClock = "clock" // the wall clock was set; Data is a Clock
)

// Start describes how the previous run ended.
type Start struct {
	// Clean is set if the previous run wrote its end record.
	Clean bool `json:"clean"`
	// LastSequence, LastTime and LastBootID belong to the last remaining record of the previous run; 0, zero and "": there is
	// none.
	LastSequence uint64    `json:"last_sequence,omitempty"`
	LastTime     time.Time `json:"last_time,omitzero"`
	LastBootID   string    `json:"last_boot_id,omitempty"`
	// CutBytes is the number of bytes cut from the newest segment because they were not a valid frame.
	CutBytes int64 `json:"cut_bytes,omitempty"`
	// AliveNS is the longest time without a record in this run while the recorder can write. 0: there is no limit.
	AliveNS int64 `json:"alive_ns,omitempty"`
}

// Alive tells that the recorder runs although there was nothing to record.
type Alive struct {
	AliveNS int64 `json:"alive_ns"` // as in Start
}

// Lost tells how many records were lost.
type Lost struct {
	Count uint64 `json:"count"`
	// Since is the time when the first of them was lost.
	Since time.Time `json:"since"`
	// Error is the failure of the disk or of encoding a record; "": records came faster than the disk could write them.
	Error string `json:"error,omitempty"`
}

// Clock tells that the wall clock was set, by comparison with the boot clock of the same boot.
type Clock struct {
	// StepNS is negative if the clock was set back.
	StepNS int64 `json:"step_ns"`
}

// minClockStep is the smallest step that is recorded. Both clocks are slewed alike, so only steps change their difference. A
// smaller difference may come from preemption between the readings of the two clocks.
const minClockStep = int64(100 * time.Millisecond)

// stamped is an entry with its times, on its way to the disk.
type stamped struct {
	Entry
	wall, boot int64
	internal   bool // a record of the recorder itself, which Counts excludes
}

// records returns the number of records that are lost if e is lost. For an internal record, that is the count of a Lost, or 0.
func (e *stamped) records() uint64 {
	if !e.internal {
		return 1
	}
	l, _ := e.Data.(Lost)
	return l.Count
}

// internalRecord returns a record of the recorder itself, with the time of another record.
func internalRecord(kind string, data any, at stamped) stamped {
	return stamped{Entry: Entry{Kind: kind, Data: data, Sync: kind == KindStart}, wall: at.wall, boot: at.boot, internal: true}
}

// newLost returns the data of a Lost record. since is the wall clock in ns. err may be nil.
func newLost(count uint64, since int64, err error) Lost {
	l := Lost{Count: count, Since: time.Unix(0, since).UTC()}
	if err != nil {
		l.Error = err.Error()
	}
	return l
}
